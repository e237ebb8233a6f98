"""The logs of a stage's replicas as they grow, those of replicas that come later too."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from datetime import UTC, datetime

from diffusion_stage.cli.kube.errors import KubeError
from diffusion_stage.cli.kube.kubectl import Kubectl
from diffusion_stage.cli.kube.objects import Pod
from diffusion_stage.cli.kube.streams import HELD_LINES, End, Line, Queue, read
from diffusion_stage.cli.kube.tasks import Tasks

LOOK_EVERY_S = 2.0
FOLLOWED = 64

Incarnation = tuple[str, str]
"""Of a replica: the pod's uid and the container's id."""


class Follower:
    """Meets each container once. `look` reads the pods to be followed.

    `options` are those of the containers that are there at first; of a later one, every line is
    shown. A stream that breaks off while its container runs is taken up where it ended.
    """

    def __init__(
        self, kubectl: Kubectl, look: Callable[[], Awaitable[list[Pod]]], options: Sequence[str]
    ) -> None:
        self._kubectl = kubectl
        self._look = look
        self._options = tuple(options)
        self._queue: Queue = asyncio.Queue(HELD_LINES)
        self._following: set[Incarnation] = set()
        self._ended: dict[Incarnation, datetime] = {}

    async def lines(self, pods: Sequence[Pod]) -> AsyncGenerator[Line | End, None]:
        """Of `pods`, and of all that a later look finds; without an end."""
        async with Tasks() as tasks:
            self._meet(pods, tasks, self._options)
            tasks.start(self._keep_looking(tasks))
            while True:
                yield await self._queue.get()

    async def _keep_looking(self, tasks: Tasks) -> None:
        trouble = ""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            before = trouble
            try:
                self._meet(await self._look(), tasks, ())
                trouble = ""
            except KubeError as error:
                trouble = str(error)
            if trouble not in ("", before):
                await self._queue.put(End("pods", trouble))

    def _meet(self, pods: Sequence[Pod], tasks: Tasks, options: Sequence[str]) -> None:
        for pod in pods:
            key = (pod.metadata.uid, pod.container.container_id)
            if not pod.container.container_id or key in self._following:
                continue
            ended_at = self._ended.get(key)
            if ended_at is not None and not pod.is_running:
                continue
            if len(self._following) >= FOLLOWED:
                raise KubeError(f"more than {FOLLOWED} logs: choose one with --replica")
            since = () if ended_at is None else (f"--since-time={ended_at.isoformat()}",)
            self._following.add(key)
            tasks.start(self._follow(pod.name, key, since or options))

    async def _follow(self, pod: str, key: Incarnation, options: Sequence[str]) -> None:
        await read(self._kubectl, pod, ("--follow", *options), self._queue)
        self._ended[key] = datetime.now(UTC)
        self._following.discard(key)
