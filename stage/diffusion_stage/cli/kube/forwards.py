"""Ready replicas of a stage at ports of this machine, kept there while replicas come and go."""

import asyncio
import logging
import threading
from concurrent.futures import Future
from contextlib import suppress
from types import TracebackType
from typing import Self

from diffusion_stage.cli.kube.cluster import Scope, read_pods, read_stage
from diffusion_stage.cli.kube.errors import KubeError, NoReadyReplicaError
from diffusion_stage.cli.kube.forward import HOST, forward
from diffusion_stage.cli.kube.kubectl import Kubectl
from diffusion_stage.cli.kube.tasks import Tasks

AT_ONCE = 4  # each is a connection through the API server
AGAIN_S = 1.0

logger = logging.getLogger(__name__)


class Forwards:
    """Runs in a thread of its own from enter to exit, which ends every kubectl.

    A port stays the same: when its pod is lost, it leads to another ready one as soon as there is
    one, and whoever uses it only sees a connection that broke. Raises KubeError where no replica
    is ready or none can be reached.
    """

    def __init__(self, kubectl: Kubectl, stage: str) -> None:
        self._kubectl = kubectl
        self._stage = stage
        self._held: set[str] = set()
        self._opened: Future[list[int]] = Future()
        self._running: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[None]]] = Future()
        self._thread = threading.Thread(target=self._run, name="port forwards", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self._opened.result()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    @property
    def address(self) -> str:
        """As a client takes it."""
        return ",".join(f"tcp://{HOST}:{port}" for port in self._opened.result())

    def _stop(self) -> None:
        loop, task = self._running.result()
        with suppress(RuntimeError):  # the loop is closed: it has ended by itself
            loop.call_soon_threadsafe(task.cancel)
        self._thread.join()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except asyncio.CancelledError:
            logger.debug("the forwards have ended")
        except BaseException as error:
            if self._opened.done():
                raise
            self._opened.set_exception(error)  # whoever waits in `__enter__` gets it

    async def _serve(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._running.set_result((asyncio.get_running_loop(), task))
        stage = await read_stage(self._kubectl, self._stage)
        pods = (await self._ready())[:AT_ONCE]
        if not pods:
            raise NoReadyReplicaError(
                f"no replica of {self._stage} is ready: kubectl dstage status {self._stage}"
            )
        opened = [asyncio.get_running_loop().create_future() for _ in pods]
        async with Tasks() as tasks:
            for pod, port in zip(pods, opened, strict=True):
                tasks.start(self._keep(pod, stage.spec.ports.zmq, port))
            self._opened.set_result(await _ports(opened))
            await asyncio.Event().wait()  # until `_stop`

    async def _keep(self, pod: str, remote: int, opened: asyncio.Future[int]) -> None:
        """A port that leads to `pod` at first; without that one there is none."""
        local: int | None = None
        while True:
            self._held.add(pod)
            try:
                async with forward(self._kubectl, pod, remote, local=local) as way:
                    local = way.port
                    if not opened.done():
                        opened.set_result(local)
                    words = await way.ended()
            except KubeError as error:
                words = str(error)
                if local is None:
                    opened.set_exception(error)
                    return
            finally:
                self._held.discard(pod)
            logger.info("the way to %s is lost: %s", pod, words)
            pod = await self._next()

    async def _next(self) -> str:
        """Another ready pod, or the same one again, once there is one that no port leads to."""
        while True:
            await asyncio.sleep(AGAIN_S)
            try:
                free = [pod for pod in await self._ready() if pod not in self._held]
            except KubeError as error:
                logger.info("the pods cannot be read: %s", error)
                continue
            if free:
                return free[0]

    async def _ready(self) -> list[str]:
        pods = await read_pods(self._kubectl, Scope(self._stage))
        return [pod.name for pod in pods if pod.is_ready]


async def _ports(opened: list[asyncio.Future[int]]) -> list[int]:
    """Those that could be opened. Raises the first KubectlError where none could."""
    found = await asyncio.gather(*opened, return_exceptions=True)
    ports = [port for port in found if isinstance(port, int)]
    if not ports:
        await opened[0]
    return ports
