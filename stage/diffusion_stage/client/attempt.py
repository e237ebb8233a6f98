"""One try of a request on one replica, and the replies to it."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from diffusion_stage.errors import RequestError
from diffusion_stage.wire.codec import Frame
from diffusion_stage.wire.messages import Accepted, Chunk, Progress, Result


@dataclass(frozen=True, slots=True)
class Reply:
    """A message about an attempt and its payload frames."""

    message: Accepted | Progress | Chunk | Result
    payload: Sequence[Frame] = ()


@dataclass(frozen=True, slots=True)
class Failure:
    """The end of an attempt by an error; whether another may succeed is what the stage says."""

    error: RequestError
    retryable: bool

    @classmethod
    def of(cls, error: RequestError) -> "Failure":
        return cls(error, error.retryable)


class Attempt:
    """Replies in order of arrival. The last one is a `Result` or a `Failure`, and there is one."""

    def __init__(self, request_id: str, number: int) -> None:
        self.request_id = request_id
        self.number = number
        self.is_ended = False
        self._replies: asyncio.Queue[Reply | Failure] = asyncio.Queue()

    def deliver(self, reply: Reply | Failure) -> None:
        if self.is_ended:
            return
        self.is_ended = isinstance(reply, Failure) or isinstance(reply.message, Result)
        self._replies.put_nowait(reply)

    async def reply(self) -> Reply | Failure:
        """The next reply; the caller bounds the wait."""
        return await self._replies.get()
