"""The last death of each replica, from all that tells of it (pure)."""

import signal
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from diffusion_stage.cli.kube.objects import (
    LastFailure,
    Pod,
    ReplicaStatus,
    StageStatus,
    Terminated,
)
from diffusion_stage.errors import FatalError

SIGNALLED = 128  # an exit code above it is this plus a signal
OOM = "OOMKilled"
LONG_AGO = datetime.min.replace(tzinfo=UTC)
# For a container that could not say so itself.
REASONS = {kind.exit_code: kind.reason for kind in FatalError.__subclasses__()}


@dataclass(frozen=True, slots=True)
class Death:
    """`time` None: the source does not tell when it was."""

    reason: str
    time: datetime | None = None
    exit_code: int | None = None
    rank: int | None = None
    device: str | None = None
    signal: int | None = None
    message: str = ""

    @property
    def facts(self) -> str:
        """Reason and circumstances in one line, without the message."""
        facts = (
            None if self.exit_code is None else f"exit {self.exit_code}",
            None if self.rank is None else f"rank {self.rank}",
            self.device,
            None if self.signal is None else _signal_name(self.signal),
        )
        return ", ".join([self.reason, *filter(None, facts)])


class _LastWords(BaseModel):
    """The termination message of a stage, as the operator reads it too."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    reason: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,62}$")]
    rank: int | None = None
    device: str | None = None
    signal: int | None = None
    msg: str = ""


def last_death(
    name: str, pod: Pod | None, status: StageStatus, told: ReplicaStatus | None
) -> Death | None:
    """The newest; of several tellings of one death, the fullest."""
    found = [*_of_pod(pod), *_of_status(name, status), *_told(told)]
    return max(found, key=lambda one: one.time or LONG_AGO, default=None)


def _of_pod(pod: Pod | None) -> Iterator[Death]:
    if pod is None or pod.is_leaving:  # told to stop, so its end is no death
        return
    states = ((pod.container.state, pod.failure), (pod.container.last_state, ""))
    for state, pod_reason in states:
        if state.terminated is not None and state.terminated.exit_code != 0:
            yield _of_container(state.terminated, pod_reason)


def _of_container(end: Terminated, pod_reason: str) -> Death:
    """The kubelet's facts with those of the stage's last words."""
    try:
        words = _LastWords.model_validate_json(end.message)
    except ValidationError:  # the last lines of a log, or another program's words
        words = _LastWords.model_construct(reason="", msg=end.message.strip())
    by_code = end.exit_code - SIGNALLED if end.exit_code > SIGNALLED else None
    # The kernel's word comes first: the stage only saw that a worker was killed.
    by_others = pod_reason or (OOM if end.reason == OOM else "")
    by_kubelet = "Killed" if by_code else REASONS.get(end.exit_code, end.reason or "Error")
    return Death(
        reason=by_others or words.reason or by_kubelet,
        time=end.finished_at,
        exit_code=end.exit_code,
        rank=words.rank,
        device=words.device,
        signal=words.signal or end.signal or by_code,
        message=words.msg,
    )


def _of_status(name: str, status: StageStatus) -> Iterator[Death]:
    """Of pods that were replaced, only the status knows."""
    last = status.last_failure
    if last is not None and last.pod == name:
        yield _of_record(last, last.time)
    for one in status.restarts.recent:
        if one.pod == name:
            yield Death(one.reason, time=one.time, exit_code=one.exit_code)


def _told(told: ReplicaStatus | None) -> Iterator[Death]:
    if told is not None and told.exit_code:
        yield _of_record(told, None)


def _of_record(record: LastFailure | ReplicaStatus, time: datetime | None) -> Death:
    return Death(
        reason=record.reason,
        time=time,
        exit_code=record.exit_code,
        rank=record.worker_rank,
        device=record.device,
        signal=record.signal,
        message=record.message,
    )


def _signal_name(number: int) -> str:
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"
