"""The client for asyncio programs."""

import asyncio
import itertools
import os
import platform
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import aclosing, contextmanager
from types import TracebackType
from typing import Any, Self

from diffusion_stage.client.addresses import parse
from diffusion_stage.client.calls import Call, StreamEvent, follow
from diffusion_stage.client.discovery import Discovery, Resolve, resolve
from diffusion_stage.client.generation import Generation, Part, whole
from diffusion_stage.client.inputs import plain
from diffusion_stage.client.keys import CurveKeys
from diffusion_stage.client.pool import Pool
from diffusion_stage.client.session import Session
from diffusion_stage.client.status import ReplicaStatus, status_of
from diffusion_stage.client.submission import Submission, prepare
from diffusion_stage.errors import AlreadyExistsError, RequestError, UnavailableError
from diffusion_stage.wire.messages import Progress

TIMEOUT_S = 600.0
CONNECT_TIMEOUT_S = 60.0
CONTROL_TIMEOUT_S = 30.0
STATUS_TIMEOUT_S = 5.0
REFRESH_S = 5.0

OnProgress = Callable[[Progress], object]


class AsyncStageClient:
    """Sends requests to the replicas of a stage, each to the one with the fewest under way.

    `address` is `tcp://HOST:PORT` (one or several, as a list or with commas between), or a Service:
    `NAME`, `NAME.NAMESPACE` or `dstage://NAME.NAMESPACE:PORT`, whose replicas are found in DNS and
    looked up again every `refresh_s`. While no replica ever answered, calls fail after
    `connect_timeout_s`; one that is loading is waited for. Belongs to one event loop; `close` it,
    or use `async with`. Raises `InvalidArgumentError` for a malformed address.

    With `curve` it speaks only with stages that have one of those keys, and encrypted. While every
    replica refuses its key, or has none that it knows, calls raise `UnauthenticatedError`: at once
    if no replica ever answered, else after two minutes, in which keys that change may arrive.
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
        self._connect_timeout_s = connect_timeout_s
        self._under_way: set[str] = set()
        self._numbers = itertools.count(1)
        self._pool = Pool(
            Discovery(parse(address), resolve),
            client_name=f"{platform.node()}-{os.getpid()}",
            refresh_s=refresh_s,
            curve=curve,
        )

    async def __aenter__(self) -> Self:
        self._pool.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends the connections; requests under way fail with `UnavailableError`."""
        await self._pool.close()

    async def generate(  # noqa: PLR0913  # one keyword for each thing that a caller may want
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
        """One request and its one outcome; `params` are arguments of the pipeline's call.

        PIL images and numpy arrays among them travel as payload. A failure that another attempt may
        mend is retried, on another replica first, until `timeout_s`. The stage keeps `deadline_s`
        too: it starts nothing that would be late. `output` is `image`, `tensor` or `latent`. What a
        streaming stage sends in parts comes back whole.
        `on_progress` is called in the event loop, so it must not block. Cancelling the task cancels
        the request. Raises `RequestError`.
        """
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
        parts: list[Part] = []
        async with aclosing(events):
            async for event in events:
                if isinstance(event, Generation):
                    return whole(event, parts, output=output)
                if isinstance(event, Part):
                    parts.append(event)
                if isinstance(event, Progress) and on_progress is not None:
                    on_progress(event)
        raise AssertionError("a stream ends with a generation or an error")

    async def stream(
        self,
        prompt: str | list[str] | None = None,
        *,
        timeout_s: float = TIMEOUT_S,
        **request: Any,
    ) -> AsyncGenerator[StreamEvent, None]:
        """Every `Progress` and `Part` as it comes, and the `Generation` last, with what is left.

        `request` is what `generate` takes. Progress starts anew with each attempt. Closing the
        iterator cancels the request. Raises `RequestError`.
        """
        async with aclosing(self.follow(prepare(prompt, **request), timeout_s)) as events:
            async for event in events:
                yield event

    async def follow(
        self, submission: Submission, timeout_s: float = TIMEOUT_S, *, is_retried: bool = True
    ) -> AsyncGenerator[StreamEvent, None]:
        """As `stream`, of a request that is prepared already; `is_retried` False: once only."""
        self._pool.start()
        deadline_s = submission.submit.deadline_s
        now = asyncio.get_running_loop().time()
        call = Call(
            submit=submission.submit,
            payload=submission.payload,
            asked_at=now,
            expires_at=now + (timeout_s if deadline_s is None else min(timeout_s, deadline_s)),
            meet_until=now + self._connect_timeout_s,
            numbers=self._numbers,
            is_retried=is_retried,
        )
        with self._claim(submission.submit.request_id):
            async with aclosing(follow(call, self._pool)) as events:
                async for event in events:
                    yield event

    async def control(
        self,
        method: str,
        /,
        *,
        replica: str | None = None,
        timeout_s: float = CONTROL_TIMEOUT_S,
        **args: Any,
    ) -> dict[str, Any]:
        """Calls a control method of every connected replica, or of the one named; replies by name.

        Raises the first replica's `RequestError`, and `UnavailableError` when none is connected.
        """
        sessions = [
            each
            for each in await self._sessions(CONTROL_TIMEOUT_S)
            if each.stage is not None and replica in (None, each.name, each.address)
        ]
        if not sessions:
            raise UnavailableError(f"no such stage is connected: {self._pool.describe()}")
        plain_args = {name: plain(name, value) for name, value in args.items()}
        replies = (_control(each, method, plain_args, timeout_s) for each in sessions)
        return dict(zip([s.name for s in sessions], await asyncio.gather(*replies), strict=True))

    async def status(self, *, timeout_s: float = STATUS_TIMEOUT_S) -> list[ReplicaStatus]:
        """Every replica that is known after at most `timeout_s`, connected or not."""
        sessions = await self._sessions(timeout_s)
        found = await asyncio.gather(*(_status(each, timeout_s) for each in sessions))
        return sorted(found, key=lambda each: (each.name, each.address))

    async def _sessions(self, timeout_s: float) -> list[Session]:
        self._pool.start()
        await self._pool.settle(asyncio.get_running_loop().time() + timeout_s)
        return [each.session for each in self._pool.replicas.values()]

    @contextmanager
    def _claim(self, request_id: str) -> Iterator[None]:
        if request_id in self._under_way:
            raise AlreadyExistsError(
                f"request_id {request_id!r} is under way already", field="request_id"
            )
        self._under_way.add(request_id)
        try:
            yield
        finally:
            self._under_way.discard(request_id)


async def _control(session: Session, method: str, args: dict[str, Any], timeout_s: float) -> Any:
    reply = session.control(method, args, now=asyncio.get_running_loop().time())
    try:
        return await asyncio.wait_for(reply, timeout_s)
    except TimeoutError:
        raise UnavailableError(f"{session.name}: no reply to {method} in {timeout_s:g} s") from None


async def _status(session: Session, timeout_s: float) -> ReplicaStatus:
    if session.stage is None:
        return status_of(session)
    try:
        details = await _control(session, "status", {}, timeout_s)
    except RequestError as error:
        return status_of(session, trouble=str(error))
    return status_of(session, details=details)
