"""One request from the caller's side: attempts, one after another, until one outcome."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import assert_never

import msgspec

from diffusion_stage.client.attempt import Attempt, Failure, Reply
from diffusion_stage.client.generation import Generation, Part, arrays
from diffusion_stage.client.pool import Pool
from diffusion_stage.client.replica import Replica
from diffusion_stage.client.retry import Retry
from diffusion_stage.errors import DeadlineExceededError, UnavailableError
from diffusion_stage.wire.codec import Frame
from diffusion_stage.wire.messages import Accepted, Chunk, Hello, Progress, Result, Submit

logger = logging.getLogger(__name__)

ACCEPT_TIMEOUT_S = 30.0
SHORTEST_DEADLINE_S = 0.001

StreamEvent = Progress | Part | Generation


@dataclass(frozen=True, slots=True)
class Call:
    """What was asked for; times are of the event loop's clock.

    `numbers` gives each attempt one that no other attempt of the client has, so that a late answer
    to a former request of the same id is never taken for one to this.
    """

    submit: Submit
    payload: tuple[Frame, ...]
    asked_at: float
    expires_at: float
    meet_until: float
    numbers: Iterator[int]
    is_retried: bool = True


async def follow(call: Call, pool: Pool) -> AsyncGenerator[StreamEvent, None]:
    """Progress and parts as they come, at last the `Generation`. Raises `RequestError`.

    A part comes once: the seed is the call's, so a later attempt repeats what an earlier one sent.
    When the iterator is closed early, the attempt under way is cancelled.
    """
    retry = Retry()
    next_part = 0
    while True:
        replica = await _choose(call, pool, retry)
        retry.attempts += 1
        async with aclosing(_attempt(call, replica, retry)) as events:
            async for event in events:
                if isinstance(event, Failure):
                    now = asyncio.get_running_loop().time()
                    is_mendable = retry.failed(replica.session.address, event, now=now)
                    if not (is_mendable and call.is_retried):
                        raise event.error
                    logger.warning(
                        "request %s: attempt %d at %s failed, another follows: %s",
                        call.submit.request_id,
                        retry.attempts,
                        replica.session.name,
                        event.error,
                    )
                    break
                if isinstance(event, Part):
                    if event.index < next_part:
                        continue
                    next_part = event.index + 1
                yield event
            else:
                return


async def _choose(call: Call, pool: Pool, retry: Retry) -> Replica:
    """Raises the error of the last attempt when time is up, for it says more than the wait."""
    try:
        return await pool.choose(
            not_before=retry.not_before, until=call.expires_at, meet_until=call.meet_until
        )
    except UnavailableError as error:
        last = retry.last_error
        if last is None:
            raise
        message = f"{last} (attempt {retry.attempts}; then: {error})"
        raise type(last)(message, field=last.field) from None


async def _attempt(
    call: Call, replica: Replica, retry: Retry
) -> AsyncGenerator[StreamEvent | Failure, None]:
    """Ends with a `Generation` or a `Failure`. Raises `DeadlineExceededError` when time is up."""
    loop = asyncio.get_running_loop()
    stage = replica.session.stage
    assert stage is not None, "only a stage that said Hello is chosen"
    submit = _numbered(call, next(call.numbers), now=loop.time())
    attempt = replica.session.submit(submit, call.payload, now=loop.time())
    accept_by = loop.time() + ACCEPT_TIMEOUT_S
    try:
        reply = await _reply(attempt, min(accept_by, call.expires_at))
        if reply is None and accept_by < call.expires_at:
            yield _not_accepted(stage.name)
            return
        while reply is not None:
            event = _event(reply, stage, retry.attempts)
            if event is not None:
                yield event
            if attempt.is_ended and isinstance(event, Generation | Failure):
                return
            reply = await _reply(attempt, call.expires_at)
        raise _overdue(stage.name, call)
    finally:
        replica.session.abandon(attempt)


def _numbered(call: Call, number: int, *, now: float) -> Submit:
    """The submit of attempt `number`; the deadline counts from the call, not from the attempt."""
    left_s = call.submit.deadline_s
    if left_s is not None:
        left_s = max(left_s - (now - call.asked_at), SHORTEST_DEADLINE_S)
    return msgspec.structs.replace(call.submit, attempt=number, deadline_s=left_s)


async def _reply(attempt: Attempt, until: float) -> Reply | Failure | None:
    """The next reply, None when there is none in time."""
    try:
        async with asyncio.timeout_at(until):
            return await attempt.reply()
    except TimeoutError:
        return None


def _not_accepted(name: str) -> Failure:
    what = f"{name}: the request was not accepted within {ACCEPT_TIMEOUT_S:g} s"
    return Failure.of(UnavailableError(what))


def _overdue(name: str, call: Call) -> DeadlineExceededError:
    return DeadlineExceededError(f"{name}: no result within {call.expires_at - call.asked_at:g} s")


def _event(reply: Reply | Failure, stage: Hello, attempts: int) -> StreamEvent | Failure | None:
    if isinstance(reply, Failure):
        return reply
    match reply.message:
        case Accepted():
            return None
        case Progress() as progress:
            return progress
        case Chunk() as chunk:
            return Part(chunk.index, arrays(chunk.outputs, reply.payload, sender=stage.name))
        case Result() as result:
            return Generation(
                request_id=result.request_id,
                outputs=arrays(result.outputs, reply.payload, sender=stage.name),
                kinds={spec.name: spec.kind for spec in result.outputs},
                seed=result.seed,
                attempts=attempts,
                replica=stage.name,
                model=stage.model,
                rank=result.rank,
                metrics=result.metrics,
            )
        case _:
            assert_never(reply.message)
