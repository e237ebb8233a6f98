"""Reading stages, their pods and their Events with kubectl."""

import asyncio
import json
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from diffusion_stage.cli.kube.admin import Answer, answer
from diffusion_stage.cli.kube.errors import KubectlError
from diffusion_stage.cli.kube.kubectl import Kubectl
from diffusion_stage.cli.kube.objects import KIND, RESOURCE, STAGE_LABEL, Event, Pod, Stage
from diffusion_stage.cli.kube.tree import StageTree, tree

ASKED_AT_ONCE = 8
ADMIN_TIMEOUT_S = 5.0
EVENTS = "events.events.k8s.io"

T = TypeVar("T", Stage, Pod, Event)


@dataclass(frozen=True, slots=True)
class Scope:
    """One stage, or all of a namespace, or all."""

    name: str | None = None
    is_everywhere: bool = False

    @property
    def flags(self) -> tuple[str, ...]:
        return ("--all-namespaces",) if self.is_everywhere else ()


async def read_trees(kubectl: Kubectl, scope: Scope) -> list[StageTree]:
    """Raises KubectlError where the stages cannot be read; what else cannot is a note."""
    notes: list[str] = []
    stages, pods, events = await asyncio.gather(
        read_stages(kubectl, scope),
        _or_note(read_pods(kubectl, scope), "pods", notes),
        _or_note(_read_events(kubectl, scope), "Events", notes),
    )
    turns = asyncio.Semaphore(ASKED_AT_ONCE)
    answers = await asyncio.gather(*(_ask_all(kubectl, stage, pods, turns) for stage in stages))
    return [
        tree(stage, pods, events, answers=said, notes=notes)
        for stage, said in zip(stages, answers, strict=True)
    ]


async def read_stage(kubectl: Kubectl, name: str) -> Stage:
    """Raises NotFoundError."""
    (stage,) = await read_stages(kubectl, Scope(name))
    return stage


async def read_stages(kubectl: Kubectl, scope: Scope) -> list[Stage]:
    if scope.name is not None:
        return [Stage.model_validate_json(await _get(kubectl, RESOURCE, scope.name))]
    return _items(Stage, await _get(kubectl, RESOURCE, *scope.flags))


async def read_pods(kubectl: Kubectl, scope: Scope) -> list[Pod]:
    selector = STAGE_LABEL if scope.name is None else f"{STAGE_LABEL}={scope.name}"
    return _items(Pod, await _get(kubectl, "pods", *scope.flags, f"--selector={selector}"))


async def _read_events(kubectl: Kubectl, scope: Scope) -> list[Event]:
    fields = f"regarding.kind={KIND}" + (f",regarding.name={scope.name}" if scope.name else "")
    return _items(Event, await _get(kubectl, EVENTS, *scope.flags, f"--field-selector={fields}"))


async def _get(kubectl: Kubectl, *what: str) -> str:
    return await kubectl.read("get", *what, "--output=json")


def _items(kind: type[T], text: str) -> list[T]:
    return [kind.model_validate(one) for one in json.loads(text)["items"]]


async def _or_note(read: Awaitable[list[T]], what: str, notes: list[str]) -> list[T]:
    """What cannot be read costs nothing else."""
    try:
        return await read
    except KubectlError as error:
        notes.append(f"{what} cannot be read: {error}")
        return []


async def _ask_all(
    kubectl: Kubectl, stage: Stage, pods: Sequence[Pod], turns: asyncio.Semaphore
) -> dict[str, Answer]:
    """Answers by pod, of all whose container runs; without pods, of all that should listen."""
    ours = [pod for pod in pods if pod.belongs_to(stage.metadata)]
    names = [pod.name for pod in ours if pod.is_running]
    if not ours:
        names = [one.name for one in stage.status.endpoints]
    answers = await asyncio.gather(*(_ask(kubectl, stage, name, turns) for name in names))
    return dict(zip(names, answers, strict=True))


async def _ask(kubectl: Kubectl, stage: Stage, pod: str, turns: asyncio.Semaphore) -> Answer:
    """Through the API server, which reaches pods where this machine does not."""
    place = f"namespaces/{stage.metadata.namespace}/pods/{pod}:{stage.spec.ports.admin}"
    async with turns:
        try:
            said = await kubectl.read(
                *("get", "--raw", f"/api/v1/{place}/proxy/status"), timeout_s=ADMIN_TIMEOUT_S
            )
        except KubectlError as error:
            return Answer(trouble=f"no answer: {error.words}")
    return answer(said)
