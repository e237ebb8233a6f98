"""What happened, as `demo-output/report.json`."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass(slots=True)
class Icons:
    """Icons made, and those that the judge finds to be what their prompts say."""

    total: int = 0
    right: int = 0


@dataclass(slots=True)
class Death:
    """The worker's death as the stage's status tells it; seconds count from the kill."""

    reason: str = ""
    exitCode: int = 0  # noqa: N815  # as in the status
    rank: int | None = None
    secondsToClientError: float | None = None  # noqa: N815
    secondsToStatus: float | None = None  # noqa: N815


@dataclass(slots=True)
class Requests:
    """Each request sent should be answered once: more is `duplicated`, less is `lost`."""

    sent: int = 0
    answered: int = 0
    duplicated: int = 0
    lost: int = 0


@dataclass(slots=True)
class Operation:
    """What was done to the stage under load, and what became of the requests meanwhile."""

    name: str
    sent: int
    answered: int
    lost: int
    duplicated: int

    def describe(self) -> str:
        return (
            f"{self.answered} of {self.sent} requests answered, "
            f"{self.lost} lost, {self.duplicated} answered twice"
        )


@dataclass(slots=True)
class Keys:
    """With CURVE on: whether the client with a key was served, and what the one without heard."""

    served: bool = False
    refused: str = ""


@dataclass(slots=True)
class Report:
    """Filled as the demo goes; also of a demo that fails, as far as it came.

    `batches`: after each round, how many steps ran with how many requests.
    """

    steps: list[dict[str, str | float]] = field(default_factory=list)
    icons: Icons = field(default_factory=Icons)
    death: Death = field(default_factory=Death)
    requests: Requests = field(default_factory=Requests)
    batches: list[dict[int, int]] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    keys: Keys | None = None
    leftovers: list[str] = field(default_factory=list)

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")

    @property
    def faults(self) -> list[str]:
        """What did not come out as it must."""
        requests, death = self.requests, self.death
        checks = {
            f"{self.icons.right} of {self.icons.total} icons are right": self.icons.right >= 15,
            f"{requests.lost} request(s) lost": requests.lost == 0,
            f"{requests.duplicated} request(s) answered twice": requests.duplicated == 0,
            f"the death shows as {death}": (death.reason, death.exitCode) == ("WorkerDied", 71),
            f"left behind: {self.leftovers}": not self.leftovers,
        }
        for one in self.operations:
            is_right = one.sent > 0 and (one.lost, one.duplicated) == (0, 0)
            checks[f"{one.name}: {one.describe()}"] = is_right
        if self.keys is not None:
            is_right = self.keys.served and self.keys.refused.startswith("UNAUTHENTICATED")
            checks[f"with keys: {self.keys}"] = is_right
        return [fault for fault, is_right in checks.items() if not is_right]
