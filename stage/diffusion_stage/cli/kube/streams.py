"""Log lines of replicas, read by one kubectl each."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

from diffusion_stage.cli.kube.errors import KubeError
from diffusion_stage.cli.kube.kubectl import Kubectl, lines, text
from diffusion_stage.cli.kube.objects import CONTAINER
from diffusion_stage.cli.kube.tasks import Tasks

HELD_LINES = 1000  # between reading and printing; kubectl waits when they are that many
AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a replica's log."""

    pod: str
    content: bytes


@dataclass(frozen=True, slots=True)
class End:
    """The log's end; `words` are kubectl's when it failed, else empty."""

    pod: str
    words: str


Queue = asyncio.Queue[Line | End]


async def read(kubectl: Kubectl, pod: str, options: Sequence[str], into: Queue) -> None:
    """All lines of the pod's stage container, then the end."""
    try:
        words = await _read(kubectl, pod, options, into)
    except KubeError as error:
        words = str(error)
    await into.put(End(pod, words))


async def _read(kubectl: Kubectl, pod: str, options: Sequence[str], into: Queue) -> str:
    async with kubectl.started("logs", pod, f"--container={CONTAINER}", *options) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        async for line in lines(process.stdout):
            await into.put(Line(pod, line))
        words = text(await process.stderr.read())
        code = await process.wait()
    return (words or f"kubectl ended with {code}") if code else ""


async def in_turn(
    kubectl: Kubectl, pods: Sequence[str], options: Sequence[str]
) -> AsyncGenerator[Line | End, None]:
    """The logs one after the other, while the next ones are read already."""
    turns = asyncio.Semaphore(AT_ONCE)  # first come, first served: the log at hand has its turn

    async def take_turn(pod: str, into: Queue) -> None:
        async with turns:
            await read(kubectl, pod, options, into)

    async with Tasks() as tasks:
        queues: list[Queue] = [asyncio.Queue(HELD_LINES) for _ in pods]
        for pod, queue in zip(pods, queues, strict=True):
            tasks.start(take_turn(pod, queue))
        for queue in queues:
            while isinstance(item := await queue.get(), Line):
                yield item
            yield item
