"""What a client knows of a replica, for people and programs to look at."""

from dataclasses import dataclass, field
from typing import Any

from diffusion_stage.client.session import Session


@dataclass(frozen=True, slots=True)
class ReplicaStatus:
    """`details` is the stage's own status; `in_flight` counts this client's requests only."""

    address: str
    name: str
    model: str
    pipeline: str
    is_connected: bool
    is_ready: bool
    in_flight: int
    trouble: str | None = None
    details: dict[str, Any] = field(default_factory=dict)


def status_of(
    session: Session, *, details: dict[str, Any] | None = None, trouble: str | None = None
) -> ReplicaStatus:
    """`trouble` is what asking for the details ran into; otherwise the session knows its own."""
    stage = session.stage
    if trouble is None and session.trouble is not None:
        trouble = str(session.trouble)
    return ReplicaStatus(
        address=session.address,
        name=session.name,
        model="" if stage is None else stage.model,
        pipeline="" if stage is None else stage.pipeline,
        is_connected=session.is_connected,
        is_ready=session.is_ready,
        in_flight=session.in_flight,
        trouble=trouble,
        details={} if details is None else details,
    )
