"""What a client and one stage said to each other: greeting, attempts under way, control calls.

No sockets and no clock in here: frames come in and go out through the owner, with the time.
"""

import asyncio
import itertools
import logging
from collections.abc import Callable, Sequence
from typing import Any, assert_never

import msgspec

from diffusion_stage.client.attempt import Attempt, Failure, Reply
from diffusion_stage.errors import (
    EngineDeadError,
    InternalError,
    InvalidArgumentError,
    RequestError,
    UnauthenticatedError,
    UnavailableError,
    request_error,
)
from diffusion_stage.wire.codec import Frame, decode_stage, encode
from diffusion_stage.wire.messages import (
    Accepted,
    Cancel,
    Chunk,
    ClientMessage,
    Control,
    ControlReply,
    Draining,
    EngineDead,
    Error,
    Hello,
    Ping,
    Progress,
    Result,
    StageMessage,
    Submit,
)

GREET_EVERY_S = 1.0
PING_AFTER_S = 10.0
GIVE_UP_AFTER_S = 30.0

Send = Callable[[Sequence[Frame]], bool]

logger = logging.getLogger(__name__)


class Session:
    """The state of one stage as its client knows it.

    `on_change` is called when the stage may have become ready, or has ceased to be.

    `stage` is the stage's last Hello; None while it has not answered ours. `name` is what it was
    last called, its address at first.
    """

    def __init__(
        self, address: str, *, client_name: str, send: Send, on_change: Callable[[], None]
    ) -> None:
        self.address = address
        self.name = address
        self.stage: Hello | None = None
        self.is_connected = False
        self.is_ending = False
        self.trouble: RequestError | None = None
        self._client_name = client_name
        self._send = send
        self._on_change = on_change
        self._attempts: dict[tuple[str, int], Attempt] = {}
        self._controls: dict[str, asyncio.Future[Any]] = {}
        self._control_ids = itertools.count(1)
        self._heard_at = 0.0
        self._pinged_at = 0.0
        self._greeted_at = 0.0

    @property
    def is_ready(self) -> bool:
        """Takes new requests, as far as it said."""
        return self.stage is not None and self.stage.ready and not self.is_ending

    @property
    def is_refused(self) -> bool:
        """Waiting alone helps nothing: another version, or no key that both sides know."""
        is_final = isinstance(self.trouble, InvalidArgumentError | UnauthenticatedError)
        return self.stage is None and is_final

    @property
    def in_flight(self) -> int:
        return len(self._attempts)

    def submit(self, submit: Submit, payload: Sequence[Frame], *, now: float) -> Attempt:
        """Sends an attempt. One that cannot be sent has failed already when it is returned.

        Raises `InvalidArgumentError` for a request that the wire does not carry.
        """
        frames = encode(submit, payload)
        attempt = Attempt(submit.request_id, submit.attempt)
        if self._send(frames):
            self._expect(now)
            self._attempts[submit.request_id, submit.attempt] = attempt
        else:
            attempt.deliver(Failure.of(UnavailableError(f"{self.name}: not connected")))
        return attempt

    def abandon(self, attempt: Attempt) -> None:
        """Wants no more replies; cancels the attempt when it has not ended."""
        if self._attempts.pop((attempt.request_id, attempt.number), None) is not None:
            self._tell(Cancel(request_id=attempt.request_id, attempt=attempt.number))

    def cancel_all(self) -> None:
        """Tells the stage that nobody waits for the attempts under way."""
        for request_id, number in self._attempts:
            self._tell(Cancel(request_id=request_id, attempt=number))

    def control(self, method: str, args: dict[str, Any], *, now: float) -> asyncio.Future[Any]:
        """The reply to come; the caller bounds the wait, and cancels it to give up."""
        control_id = str(next(self._control_ids))
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self._tell(Control(control_id=control_id, method=method, args=args)):
            self._expect(now)
            self._controls[control_id] = reply
            reply.add_done_callback(lambda _: self._controls.pop(control_id, None))
        else:
            reply.set_exception(UnavailableError(f"{self.name}: not connected"))
        return reply

    def opened(self, *, now: float) -> None:
        self.is_connected = True
        self.is_ending = False
        self.stage = None
        self._heard_at = now
        self._greet(now)

    def lost(self, why: str) -> None:
        """Ends what was under way: whether the stage still works at it can no longer be known."""
        self._end(UnavailableError(f"{self.name}: {why}"))

    def refused(self, why: str) -> None:
        """Logged once, however often it is tried again."""
        error = UnauthenticatedError(f"{self.name}: {why}")
        if str(error) != str(self.trouble):
            logger.warning("%s", error)
        self._end(error)

    def _end(self, error: RequestError) -> None:
        self.trouble = error
        self.is_connected = False
        self.stage = None
        self._fail_all(error)
        self._on_change()

    def tick(self, *, now: float) -> None:
        """Greets until the stage is ready; notices one that owes an answer and says nothing."""
        if not self.is_connected or self.is_ending:
            return
        if not self.is_ready and now - self._greeted_at >= GREET_EVERY_S:
            self._greet(now)
        if not self._attempts and not self._controls:
            return
        silent_s = now - self._heard_at
        if silent_s >= GIVE_UP_AFTER_S:
            self._give_up(silent_s)
        elif silent_s >= PING_AFTER_S and now - self._pinged_at >= PING_AFTER_S:
            self._pinged_at = now
            self._tell(Ping())

    def received(self, frames: Sequence[Frame], *, now: float) -> None:
        self._heard_at = now
        try:
            message, payload = decode_stage(frames)
        except InvalidArgumentError as error:
            logger.warning("%s sent what is no message: %s", self.name, error)
            return
        self._handle(message, payload)

    def _handle(self, message: StageMessage, payload: Sequence[Frame]) -> None:
        match message:
            case Hello():
                self.stage = message
                self.name = message.name
                self.trouble = None
                self._on_change()
            case Accepted() | Progress() | Chunk() | Result():
                self._deliver(message.request_id, message.attempt, Reply(message, payload))
            case Error():
                self._failed(message)
            case ControlReply():
                self._replied(message)
            case Ping():
                self._pinged(message)
            case Draining() | EngineDead():
                self._ends(message)
            case _:
                assert_never(message)

    def _deliver(self, request_id: str, number: int, reply: Reply | Failure) -> None:
        attempt = self._attempts.get((request_id, number))
        if attempt is None:
            logger.debug("%s answers an abandoned attempt: %s/%d", self.name, request_id, number)
            return
        attempt.deliver(reply)
        if attempt.is_ended:
            del self._attempts[request_id, number]

    def _failed(self, message: Error) -> None:
        failure = _failure(message)
        if isinstance(failure.error, UnavailableError) and self.stage is not None:
            self.stage = msgspec.structs.replace(self.stage, ready=False)  # until it says Hello
        if isinstance(failure.error, UnauthenticatedError):
            self.stage = None  # 〃
        if message.request_id is not None:
            self._deliver(message.request_id, message.attempt, failure)
            return
        if str(failure.error) != str(self.trouble):
            logger.warning("%s: %s", self.name, failure.error)
        self.trouble = failure.error
        self._on_change()

    def _replied(self, message: ControlReply) -> None:
        reply = self._controls.get(message.control_id)
        if reply is None or reply.done():
            return
        if message.error is None:
            reply.set_result(message.value)
        else:
            reply.set_exception(InternalError(f"{self.name}: {message.error}"))

    def _pinged(self, message: Ping) -> None:
        if not message.reply:
            self._tell(Ping(token=message.token, reply=True))

    def _ends(self, message: Draining | EngineDead) -> None:
        """A draining stage still answers what it accepted; a dead one answers nothing more."""
        self.is_ending = True
        if isinstance(message, EngineDead):
            self._fail_all(EngineDeadError(f"{self.name}: {message.reason}: {message.message}"))
        self._on_change()

    def _give_up(self, silent_s: float) -> None:
        error = UnavailableError(f"{self.name}: no word from it for {silent_s:.0f} s")
        logger.warning("%s", error)
        self.trouble = error
        self.stage = None  # until it answers a Hello again
        self.cancel_all()
        self._fail_all(error)
        self._on_change()

    def _fail_all(self, error: RequestError) -> None:
        attempts, self._attempts = self._attempts, {}
        for attempt in attempts.values():
            attempt.deliver(Failure.of(error))
        for reply in list(self._controls.values()):
            if not reply.done():
                reply.set_exception(error)

    def _expect(self, now: float) -> None:
        """The stage's time to answer starts now if it owed nothing before."""
        if not self._attempts and not self._controls:
            self._heard_at = now

    def _greet(self, now: float) -> None:
        self._greeted_at = now
        self._tell(Hello(name=self._client_name))

    def _tell(self, message: ClientMessage) -> bool:
        return self._send(encode(message))


def _failure(message: Error) -> Failure:
    error = request_error(message.reason, message.message, field=message.field)
    return Failure(error, message.retryable)
