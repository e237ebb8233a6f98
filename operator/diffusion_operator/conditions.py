"""Conditions as Kubernetes tools read them: `lastTransitionTime` moves only with the status."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from diffusion_operator.manifest import TIME, Manifest

MESSAGE_CHARS = 4096


Truth = Literal["True", "False", "Unknown"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a condition says, and why."""

    status: Truth
    reason: str
    message: str


def conditions(
    verdicts: dict[str, Verdict], *, generation: int, old: Manifest, now: datetime
) -> list[Manifest]:
    """The list for the status whose former value is `old`."""
    before = {condition["type"]: condition for condition in old.get("conditions", [])}
    return [
        {
            "type": kind,
            "status": verdict.status,
            "reason": verdict.reason,
            "message": verdict.message[:MESSAGE_CHARS],
            "observedGeneration": generation,
            "lastTransitionTime": _since(verdict, before.get(kind), now),
        }
        for kind, verdict in verdicts.items()
    ]


def _since(verdict: Verdict, before: Manifest | None, now: datetime) -> str:
    if before is not None and before["status"] == verdict.status:
        return str(before["lastTransitionTime"])
    return now.strftime(TIME)
