"""The client for programs without asyncio: the async one, in a thread of its own."""

import asyncio
import threading
from collections.abc import Coroutine, Generator, Iterable
from concurrent.futures import Future
from contextlib import aclosing, closing
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Self, TypeVar

from diffusion_stage.client.async_client import (
    CONNECT_TIMEOUT_S,
    CONTROL_TIMEOUT_S,
    REFRESH_S,
    STATUS_TIMEOUT_S,
    TIMEOUT_S,
    AsyncStageClient,
    OnProgress,
)
from diffusion_stage.client.calls import StreamEvent
from diffusion_stage.client.discovery import Resolve, resolve
from diffusion_stage.client.generation import Generation
from diffusion_stage.client.keys import CurveKeys
from diffusion_stage.client.status import ReplicaStatus
from diffusion_stage.errors import UnavailableError
from diffusion_stage.wire.messages import Progress

CLOSE_TIMEOUT_S = 5.0

T = TypeVar("T")


class StageClient:
    """As `AsyncStageClient`, with calls that block. Threads may share one.

    An interrupted call (Ctrl-C) cancels its request. `close` it, or use `with`.
    """

    def __init__(
        self,
        address: str | Iterable[str],
        *,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        refresh_s: float = REFRESH_S,
        resolve: Resolve = resolve,
        curve: CurveKeys | None = None,
    ) -> None:
        self._client = AsyncStageClient(
            address,
            connect_timeout_s=connect_timeout_s,
            refresh_s=refresh_s,
            resolve=resolve,
            curve=curve,
        )
        self._is_closed = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="stage client", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connections and the thread; requests under way fail with `UnavailableError`."""
        if self._is_closed:
            return
        self._do(self._client.close())
        self._is_closed = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSE_TIMEOUT_S)

    def generate(  # noqa: PLR0913  # one keyword for each thing that a caller may want
        self,
        prompt: str | list[str] | None = None,
        *,
        seed: int | None = None,
        output: str = "image",
        on_progress: OnProgress | None = None,
        deadline_s: float | None = None,
        timeout_s: float = TIMEOUT_S,
        priority: int = 0,
        request_id: str | None = None,
        **params: Any,
    ) -> Generation:
        """As `AsyncStageClient.generate`; `on_progress` is called in the thread that waits here."""
        events = self.stream(
            prompt,
            seed=seed,
            output=output,
            deadline_s=deadline_s,
            timeout_s=timeout_s,
            priority=priority,
            request_id=request_id,
            **params,
        )
        with closing(events):
            for event in events:
                if isinstance(event, Generation):
                    return event
                if isinstance(event, Progress) and on_progress is not None:
                    on_progress(event)
        raise AssertionError("a stream ends with a generation or an error")

    def stream(
        self, prompt: str | list[str] | None = None, **request: Any
    ) -> Generator[StreamEvent, None, None]:
        """As `AsyncStageClient.stream`."""
        arrived: SimpleQueue[StreamEvent | None] = SimpleQueue()

        async def pump() -> None:
            async with aclosing(self._client.stream(prompt, **request)) as events:
                async for event in events:
                    arrived.put(event)

        pumping = self._start(pump())
        pumping.add_done_callback(lambda _: arrived.put(None))
        try:
            while (event := arrived.get()) is not None:
                yield event
            pumping.result()
        finally:
            pumping.cancel()

    def control(
        self,
        method: str,
        /,
        *,
        replica: str | None = None,
        timeout_s: float = CONTROL_TIMEOUT_S,
        **args: Any,
    ) -> dict[str, Any]:
        """As `AsyncStageClient.control`."""
        return self._do(self._client.control(method, replica=replica, timeout_s=timeout_s, **args))

    def status(self, *, timeout_s: float = STATUS_TIMEOUT_S) -> list[ReplicaStatus]:
        """As `AsyncStageClient.status`."""
        return self._do(self._client.status(timeout_s=timeout_s))

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs `work` in the client's loop and waits; an interrupt cancels it there."""
        future = self._start(work)
        try:
            return future.result()
        finally:
            future.cancel()

    def _start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        if self._is_closed:
            work.close()
            raise UnavailableError("this client was closed")
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def _serve(self) -> None:
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
        finally:
            self._loop.close()
