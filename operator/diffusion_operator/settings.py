"""What whoever installs the operator may choose, read once from the environment."""

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field

PREFIX = "DIFFUSION_OPERATOR_"


class Settings(BaseModel):
    """A field is the variable of its name in capitals, after `DIFFUSION_OPERATOR_`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    resync_s: float = Field(default=300.0, ge=1, le=86400)
    """Age at which a stage is looked at again without an event."""

    workers: int = Field(default=4, ge=1, le=64)
    """Stages that are worked on at the same time."""

    stuck_after_s: float = Field(default=180.0, ge=10, le=3600)
    """Age of a pass, started or due, at which the liveness probe fails."""

    manage_nodes: bool = False
    """Whether nodes that pods were taken away from get a label, and pods of lost nodes go."""

    suspect_node_s: float = Field(default=3600.0, ge=60, le=604800)
    """How long a node keeps the label."""

    metrics_port: int = Field(default=8081, ge=0, le=65535)
    """Where metrics are served; 0 is any free port."""
    scan_cluster: bool = True
    """Notice CRDs and namespaces that come later; without the rights to list them, turn it off."""

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> "Settings":
        """Read the variables with the prefix; an unknown one is an error, as a wrong value is."""
        given = {
            name.removeprefix(PREFIX).lower(): value
            for name, value in environ.items()
            if name.startswith(PREFIX)
        }
        return cls.model_validate(given)
