"""What keeps a replica from serving, and what happens next, in words for whoever is on call."""

import re
from dataclasses import dataclass

from diffusion_operator.api import CONTAINER
from diffusion_operator.failures import failure
from diffusion_operator.observe import Observation, Replica, Waiting

PULL_REASONS = (
    "ErrImageNeverPull",
    "ErrImagePull",
    "ImageInspectError",
    "ImagePullBackOff",
    "InvalidImageName",
    "RegistryUnavailable",
    "SignatureValidationFailed",
)
CRASH_LOOP = "CrashLoopBackOff"
ADVICE = {  # of the reasons that no restart removes
    "ConfigInvalid": "fix the spec",
    "ModelUnavailable": "fix spec.model, or put the model there",
}
URGENCY = ("ConfigInvalid", "ModelUnavailable", "ImagePull", "ContainerNotCreated", "CrashLoop")
BACK_OFF = re.compile(r"back-off (\S+) restarting")


@dataclass(frozen=True, slots=True)
class Trouble:
    """One replica that fails."""

    pod: str
    reason: str
    text: str


def troubles(observation: Observation) -> list[Trouble]:
    """Of all replicas, those first that wait for a person."""
    found = [one for replica in observation.replicas if (one := _trouble(replica)) is not None]
    return sorted(found, key=_urgency)


def pending(replica: Replica) -> str:
    """What a replica that does not fail is doing before it serves."""
    if replica.lost_node:
        return f"{replica.pod} was on {replica.node}, which does not answer"
    if replica.is_leaving:
        return f"{replica.pod} is stopping"
    if replica.unscheduled:
        return f"{replica.pod} has no node: {replica.unscheduled}"
    if replica.has_started:
        return f"{replica.pod} has started and is not ready"
    if replica.is_running:
        return f"{replica.pod} is loading the model"
    return f"{replica.pod} is being created"


def _urgency(trouble: Trouble) -> int:
    return URGENCY.index(trouble.reason) if trouble.reason in URGENCY else len(URGENCY)


def _trouble(replica: Replica) -> Trouble | None:
    if replica.is_leaving or replica.is_ready:
        return None
    if replica.pod_failure:
        text = f"{replica.pod}: {replica.pod_failure}; the StatefulSet replaces it"
        return Trouble(replica.pod, replica.pod_reason, text)
    if replica.waiting:
        return _cannot_start(replica, replica.waiting[0])
    if replica.ends and not replica.has_started:
        return _died(replica, "it starts again" if replica.is_running else "kubelet restarts it")
    return None


def _cannot_start(replica: Replica, waiting: Waiting) -> Trouble:
    where = f"{replica.pod}: container {waiting.container!r}"
    why = waiting.message or waiting.reason
    if waiting.reason in PULL_REASONS:
        return Trouble(replica.pod, "ImagePull", f"{where}: {why}; kubelet tries again")
    if waiting.reason != CRASH_LOOP:
        return Trouble(replica.pod, "ContainerNotCreated", f"{where}: {waiting.reason}: {why}")
    if waiting.container != CONTAINER or not replica.ends:
        return Trouble(replica.pod, "CrashLoop", f"{where}: {why}")
    pause = BACK_OFF.search(why)
    again = f"kubelet tries again {pause[1]} after the end" if pause else "kubelet tries again"
    died = _died(replica, again)
    return died if died.reason in ADVICE else Trouble(replica.pod, "CrashLoop", died.text)


def _died(replica: Replica, next_step: str) -> Trouble:
    end = failure(replica, replica.ends[0])
    said = f": {end.message.splitlines()[-1]}" if end.message else ""  # of a log, the last line
    advice = f"; {ADVICE[end.reason]}" if end.reason in ADVICE else ""
    return Trouble(replica.pod, end.reason, f"{end.describe()}{said}; {next_step}{advice}")
