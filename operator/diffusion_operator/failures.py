"""Deaths of stage containers, read from what pods show (pure)."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from diffusion_operator.manifest import Manifest
from diffusion_operator.observe import Observation, Replica, Termination

MESSAGE_CHARS = 1024  # the CRD's limit
SIGNALLED = 128  # an exit code above it is this plus a signal
OOM = "OOMKilled"
REASONS = {  # what the stage's exit codes mean, where it could not say so itself
    64: "ConfigInvalid",
    66: "ModelUnavailable",
    69: "AcceleratorUnusable",
    70: "EngineDied",
    71: "WorkerDied",
    72: "DeviceOutOfMemory",
    73: "Hang",
    75: "StartupTimeout",
}

Int32 = Annotated[int, Field(ge=-(2**31), lt=2**31)]


class Report(BaseModel):
    """What the stage wrote as its termination message; other keys are for people."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    reason: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,62}$")]  # as of conditions
    rank: Int32 | None = None
    device: str | None = None
    signal: Int32 | None = None
    msg: str | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """One death: which replica, where, and of what."""

    container_id: str
    time: str
    pod: str
    pod_uid: str
    node: str
    revision: str
    reason: str
    exit_code: int
    signal: int | None
    worker_rank: int | None
    device: str | None
    message: str

    def describe(self) -> str:
        """Pod, reason and circumstances in one line, without the message."""
        facts = [
            f"exit {self.exit_code}",
            None if self.worker_rank is None else f"rank {self.worker_rank}",
            self.device,
            None if self.signal is None else f"signal {self.signal}",
        ]
        return f"{self.pod}: {self.reason} ({', '.join(filter(None, facts))})"

    def as_status(self) -> Manifest:
        """What died and of what, under the names that the status has for it."""
        return {
            "reason": self.reason,
            "exitCode": self.exit_code,
            "signal": self.signal,
            "workerRank": self.worker_rank,
            "device": self.device,
            "message": self.message,
        }


def failures(observation: Observation) -> list[Failure]:
    """Every death that pods still tell of, oldest first. A pod that is deleted dies on request."""
    found = [
        failure(replica, end)
        for replica in observation.replicas
        if not replica.is_leaving
        for end in replica.ends
        if end.exit_code != 0
    ]
    return sorted(found, key=lambda one: (one.time, one.container_id))


def failure(replica: Replica, end: Termination) -> Failure:
    """The kubelet's facts with those of the stage's own report."""
    report = _report(end.message)
    signal = end.exit_code - SIGNALLED if end.exit_code > SIGNALLED else None
    message = end.message.strip()[-MESSAGE_CHARS:] if report is None else report.msg or ""
    return Failure(
        container_id=end.container_id,
        time=end.finished_at,
        pod=replica.pod,
        pod_uid=replica.uid,
        node=replica.node,
        revision=replica.revision,
        reason=end.pod_reason or _reason(end, report),
        exit_code=end.exit_code,
        signal=signal if report is None or report.signal is None else report.signal,
        worker_rank=None if report is None else report.rank,
        device=None if report is None or report.device is None else report.device[:253],
        message=message[:MESSAGE_CHARS],
    )


def _report(text: str) -> Report | None:
    try:
        return Report.model_validate_json(text)
    except ValidationError:
        return None  # the last lines of the log, or another program's words


def _reason(end: Termination, report: Report | None) -> str:
    if end.reason == OOM:
        return OOM  # the kernel's word: the stage only saw a worker killed
    if report is not None:
        return report.reason
    if end.exit_code > SIGNALLED:
        return "Killed"
    return REASONS.get(end.exit_code, end.reason or "Error")
