"""What both clients that own their stage offer, and what they share."""

import abc
import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from types import TracebackType
from typing import Any, Self

from diffusion_stage.client.calls import StreamEvent
from diffusion_stage.client.generation import Generation, Part, whole
from diffusion_stage.client.submission import Submission, prepare
from diffusion_stage.errors import AlreadyExistsError, CancelledError


class OwnedStage(abc.ABC):
    """One stage, from `start` to `shutdown`; use `async with`. Belongs to one event loop.

    Calls raise `EngineDeadError` once the stage has died, and requests under way end with it:
    whoever owns the stage decides what to do about that. Nothing is restarted here.
    """

    def __init__(self) -> None:
        self._under_way: dict[str, asyncio.Task[None]] = {}

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.shutdown()

    @abc.abstractmethod
    async def start(self) -> None:
        """Returns when the stage is loaded and warm. Raises the `FatalError` of a failed start."""

    @abc.abstractmethod
    def _events(self, submission: Submission) -> AsyncGenerator[StreamEvent, None]:
        """As `stream`; closing it cancels the request."""

    @abc.abstractmethod
    async def collective_rpc(
        self, method: str, args: dict[str, Any], *, timeout_s: float = 30.0
    ) -> list[Any]:
        """Call a worker method on every rank; the values come in rank order.

        Raises `InternalError` when a rank fails, `DeadlineExceededError` when time is up.
        """

    @abc.abstractmethod
    def check_health(self) -> None:
        """Raises `EngineDeadError` once the stage cannot serve any more."""

    @abc.abstractmethod
    async def shutdown(self) -> None:
        """End the stage; requests under way fail. Idempotent, bounded."""

    async def generate(self, prompt: str | list[str] | None = None, **request: Any) -> Generation:
        """One request and its one outcome; `request` as for `stream`."""
        parts: list[Part] = []
        async with aclosing(self.stream(prompt, **request)) as events:
            async for event in events:
                if isinstance(event, Generation):
                    return whole(event, parts, output=request.get("output", "image"))
                if isinstance(event, Part):
                    parts.append(event)
        raise AssertionError("a stream ends with a generation or an error")

    async def stream(
        self, prompt: str | list[str] | None = None, **request: Any
    ) -> AsyncGenerator[StreamEvent, None]:
        """Every `Progress` and `Part` as it comes, and the `Generation` last, with what is left.

        `request` is `seed`, `output`, `deadline_s`, `priority`, `request_id` and arguments of the
        pipeline's call. Closing the iterator cancels the request. Raises `RequestError`;
        `AlreadyExistsError` for an id that is under way, which goes on.
        """
        submission = prepare(prompt, **request)
        request_id = submission.submit.request_id
        if request_id in self._under_way:
            raise AlreadyExistsError(
                f"request_id {request_id!r} is under way already", field="request_id"
            )
        told: asyncio.Queue[StreamEvent | Exception] = asyncio.Queue()
        task = asyncio.create_task(self._pass_on(submission, told))
        self._under_way[request_id] = task
        try:
            while True:
                event = await told.get()
                if isinstance(event, Exception):
                    raise event
                yield event
                if isinstance(event, Generation):
                    return
        finally:
            self._under_way.pop(request_id, None)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _pass_on(
        self, submission: Submission, told: "asyncio.Queue[StreamEvent | Exception]"
    ) -> None:
        try:
            async with aclosing(self._events(submission)) as events:
                async for event in events:
                    told.put_nowait(event)
        except asyncio.CancelledError:
            told.put_nowait(CancelledError("cancelled by its caller"))
        except Exception as error:  # for whoever reads the stream
            told.put_nowait(error)

    def abort(self, request_id: str) -> None:
        """End a request with `CancelledError`; one that is not under way is none to end."""
        task = self._under_way.get(request_id)
        if task is not None:
            task.cancel()
