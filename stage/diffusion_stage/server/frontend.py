"""The socket loop between clients and the engine; it never waits for either."""

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, assert_never

import msgspec
import zmq

from diffusion_stage.engine.engine import DiffusionEngine
from diffusion_stage.engine.streams import OutputStream
from diffusion_stage.errors import (
    AlreadyExistsError,
    InternalError,
    InvalidArgumentError,
    RequestError,
    ResourceExhaustedError,
)
from diffusion_stage.outputs import ChunkReady, Completed, DiffusionOutput, Failed, StepProgress
from diffusion_stage.server import replies
from diffusion_stage.server.entrance import Entrance
from diffusion_stage.server.health import Health, Phase
from diffusion_stage.server.metrics import Metrics
from diffusion_stage.server.outbox import ClientGoneError, Outbox
from diffusion_stage.validation import validate
from diffusion_stage.wire import codec
from diffusion_stage.wire import messages as w

logger = logging.getLogger(__name__)

PING_S = 1.0  # how soon the end of a client that waits for its turn is noticed
SWEEP_S = 60.0  # 〃 of one that waits for nothing
SENDING_POLL_MS = 2
IDLE_POLL_MS = 500
BURST = 64  # messages read before the engine's events get their turn


@dataclass(slots=True)
class _Live:
    """An admitted request of a client."""

    client: bytes
    attempt: int
    stream: OutputStream
    arrived_at: float
    has_stepped: bool = False


class Frontend:
    """Owns the ROUTER socket and its thread; `notify`, `announce` and `flush` are thread-safe.

    Raises `ConfigError` as `Entrance`.
    """

    def __init__(
        self,
        engine: DiffusionEngine,
        health: Health,
        metrics: Metrics,
        status: Callable[[], dict[str, Any]],
        *,
        name: str,
    ) -> None:
        self._engine = engine
        self._health = health
        self._metrics = metrics
        self._status = status
        self._name = name
        self._live: dict[str, _Live] = {}
        self._clients: set[bytes] = set()
        self._written: deque[OutputStream] = deque()
        self._errands: deque[Callable[[], None]] = deque()
        self._flushes: list[threading.Event] = []
        self._pinged_at = self._swept_at = time.monotonic()
        self._is_stopped = False
        self._entrance = Entrance(engine.config.serving)
        self._wakeup = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._outbox = Outbox(self._entrance.socket)
        self._thread = threading.Thread(target=self._run, name="frontend", daemon=True)

    @property
    def port(self) -> int:
        return self._entrance.port

    def start(self) -> None:
        self._thread.start()

    # From other threads.

    def notify(self, stream: OutputStream) -> None:
        self._written.append(stream)
        os.eventfd_write(self._wakeup, 1)

    def announce(self, message: w.Draining | w.EngineDead) -> None:
        """Tell every client."""

        def tell() -> None:
            for client in list(self._clients):
                self._send(client, message)

        self._do(tell)

    def flush(self, timeout_s: float) -> bool:
        """Wait until all that was written so far has left this process's buffers."""
        flushed = threading.Event()
        self._do(lambda: self._flushes.append(flushed))
        return flushed.wait(timeout_s)

    def stop(self, linger_s: float) -> None:
        """Close the socket after what is under way was sent, or `linger_s` passed."""

        def end() -> None:
            self._is_stopped = True

        self.flush(linger_s)
        self._do(end)
        self._thread.join()
        self._entrance.close(linger_s)
        os.close(self._wakeup)

    def _do(self, errand: Callable[[], None]) -> None:
        self._errands.append(errand)
        os.eventfd_write(self._wakeup, 1)

    # The loop.

    def _run(self) -> None:
        poller = self._entrance.poller
        poller.register(self._wakeup, zmq.POLLIN)
        while not self._is_stopped:
            ready = dict(poller.poll(IDLE_POLL_MS if self._outbox.is_empty else SENDING_POLL_MS))
            try:
                if self._wakeup in ready:
                    os.eventfd_read(self._wakeup)
                if self._entrance.socket in ready:
                    self._read()
                self._entrance.admit()
                self._turn()
            except Exception:
                logger.exception("the socket loop goes on after an error")

    def _turn(self) -> None:
        while self._written:
            self._pass_on(self._written.popleft())
        while self._errands:
            self._errands.popleft()()
        for client in self._outbox.progress():
            self._forget(client)
        self._ping(time.monotonic())
        if self._outbox.is_empty and not self._written:
            while self._flushes:
                self._flushes.pop().set()

    def _ping(self, now: float) -> None:
        """A connection that was closed is noticed by sending on it."""
        if now - self._pinged_at <= PING_S:
            return
        self._pinged_at = now
        clients = {live.client for live in self._live.values()}
        if now - self._swept_at > SWEEP_S:
            self._swept_at = now
            clients = self._clients.copy()
        for client in clients:
            self._send(client, w.Ping())

    def _read(self) -> None:
        for _ in range(BURST):
            try:
                client, frames, refusal = self._entrance.receive()
            except zmq.Again:
                return
            self._clients.add(client)
            self._answer(client, frames, refusal)

    def _answer(self, client: bytes, frames: Sequence[bytes], refusal: RequestError | None) -> None:
        """One message from a client: whatever it is, only its sender hears of what is wrong."""
        try:
            message, payload = codec.decode_client(frames)
        except InvalidArgumentError as error:
            self._send(client, replies.error(error, *codec.about(frames)))
            return
        if refusal is not None and isinstance(message, w.Submit | w.Control | w.Hello):
            self._turn_away(client, message, refusal)
        else:
            self._handle(client, message, payload)

    def _handle(
        self, client: bytes, message: w.ClientMessage, payload: Sequence[codec.Frame]
    ) -> None:
        match message:
            case w.Submit():
                self._submit(client, message, payload)
            case w.Cancel():
                self._cancel(client, message)
            case w.Control():
                self._control(client, message)
            case w.Hello():
                self._send(client, self._hello())
            case w.Ping(token=token, reply=is_reply):
                if not is_reply:
                    self._send(client, w.Ping(token=token, reply=True))
            case _:
                assert_never(message)

    def _turn_away(
        self, client: bytes, message: w.Submit | w.Control | w.Hello, error: RequestError
    ) -> None:
        match message:
            case w.Submit():
                logger.warning("request %s is refused: %s", message.request_id, error)
                self._refuse(client, message, error)
            case w.Control():
                reply = w.ControlReply(control_id=message.control_id, error=str(error))
                self._send(client, reply)
            case w.Hello():
                self._send(client, replies.error(error))

    def _submit(self, client: bytes, submit: w.Submit, payload: Sequence[codec.Frame]) -> None:
        now = time.monotonic()
        try:
            self._check_share(client)
            self._check_id(submit.request_id)
            request = validate(submit, payload, self._engine.admission(), now)
            stream = self._engine.add_request(request, self.notify)
        except RequestError as error:
            self._refuse(client, submit, error)
        except Exception as error:
            logger.exception("request %s could not be admitted", submit.request_id)
            self._refuse(client, submit, InternalError(f"{type(error).__name__}: {error}"))
        else:
            self._live[submit.request_id] = _Live(client, submit.attempt, stream, now)
            accepted = w.Accepted(
                request_id=submit.request_id,
                attempt=submit.attempt,
                queue_depth=self._engine.load().waiting,
            )
            self._send(client, accepted)

    def _cancel(self, client: bytes, cancel: w.Cancel) -> None:
        """The end comes on the request's stream, as that of any other; others' are left alone."""
        live = self._live.get(cancel.request_id)
        if live is not None and (live.client, live.attempt) == (client, cancel.attempt):
            self._engine.abort(live.stream)

    def _check_share(self, client: bytes) -> None:
        limit = self._engine.config.serving.max_client_requests
        live = sum(live.client == client for live in self._live.values())
        unread = self._outbox.waiting_for(client)
        if live + unread >= limit:
            raise ResourceExhaustedError(
                f"this client has {live} live requests and {unread} unread answers; "
                f"allowed: {limit}"
            )

    def _check_id(self, request_id: str) -> None:
        """The engine frees an id at its request's end, which its client may not have heard of."""
        if request_id in self._live:
            raise AlreadyExistsError(
                f"request_id {request_id!r:.200} is in use by a live request; "
                "allowed: an id that is not",
                field="request_id",
            )

    def _refuse(self, client: bytes, submit: w.Submit, error: RequestError) -> None:
        self._metrics.refused.labels(error.reason).inc()
        self._send(client, replies.error(error, submit.request_id, submit.attempt))

    def _control(self, client: bytes, control: w.Control) -> None:
        reply: Callable[..., w.ControlReply] = lambda **kw: w.ControlReply(  # noqa: E731
            control_id=control.control_id, **kw
        )
        match control.method:
            case "status":
                self._send(client, reply(value=self._status()))
            case "workers":
                self._call_workers(client, control, "report", {})
            case "collective_rpc":
                try:
                    call = msgspec.convert(control.args, w.WorkerCall)
                except msgspec.ValidationError as error:
                    self._send(client, reply(error=f"collective_rpc: {error}"))
                else:
                    self._call_workers(client, control, call.call, call.args, call.call_timeout_s)
            case method:
                allowed = "status, workers, collective_rpc"
                self._send(client, reply(error=f"method {method!r:.200}; allowed: {allowed}"))

    def _call_workers(
        self,
        client: bytes,
        control: w.Control,
        method: str,
        args: dict[str, Any],
        timeout_s: float | None = None,
    ) -> None:
        """The reply goes out when every rank has answered; nobody waits here."""
        future = self._engine.collective_rpc(method, args, timeout_s)

        def answer(done: Any) -> None:
            error = done.exception()
            said = {"error": str(error)} if error else {"value": done.result()}
            reply = w.ControlReply(control_id=control.control_id, **said)
            self._do(lambda: self._send(client, reply))

        future.add_done_callback(answer)

    def _hello(self) -> w.Hello:
        is_ready = self._health.phase is Phase.SERVING
        capabilities = self._engine.capabilities
        return w.Hello(
            name=self._name,
            model=self._engine.config.model.model,
            pipeline=capabilities.pipeline if capabilities else "",
            ready=is_ready,
            capabilities=msgspec.to_builtins(capabilities) if capabilities else {},
        )

    def _pass_on(self, stream: OutputStream) -> None:
        """Send what the engine wrote to a stream."""
        live = self._live.get(stream.request_id)
        if live is None or live.stream is not stream:
            stream.close()
            return
        request_id, attempt = stream.request_id, live.attempt
        for event in stream.take():
            match event:
                case StepProgress(step=step, total_steps=total):
                    if not live.has_stepped and step:
                        live.has_stepped = True
                        self._metrics.first_step.observe(time.monotonic() - live.arrived_at)
                    progress = w.Progress(
                        request_id=request_id, attempt=attempt, step=step, total_steps=total
                    )
                    self._send(live.client, progress)
                case ChunkReady(output=output):
                    self._count_bytes(output)
                    chunk = replies.chunk(event, request_id, attempt)
                    self._send(live.client, chunk, output.data, output.release)
                case Failed(error=error):
                    del self._live[request_id]
                    self._metrics.finished.labels(error.reason).inc()
                    self._send(live.client, replies.error(error, request_id, attempt))
                case Completed(output=output):
                    del self._live[request_id]
                    self._complete(live, output)

    def _complete(self, live: _Live, output: DiffusionOutput) -> None:
        total_s = time.monotonic() - live.arrived_at
        self._metrics.finished.labels("OK").inc()
        self._metrics.duration.observe(total_s)
        self._count_bytes(output)
        result = replies.result(output, live.stream.request_id, live.attempt, total_s)
        self._send(live.client, result, output.data, output.release)

    def _count_bytes(self, output: DiffusionOutput) -> None:
        self._metrics.sent_bytes.inc(sum(len(frame) for frame in output.data))

    def _send(
        self,
        client: bytes,
        message: w.StageMessage,
        payload: Sequence[codec.Frame] = (),
        release: Callable[[], None] | None = None,
    ) -> None:
        try:
            self._outbox.send(client, message, payload, release)
        except ClientGoneError:
            self._forget(client)
        except InvalidArgumentError as error:  # an id of the client's own makes the answer too long
            self._send(client, replies.error(error))

    def _forget(self, client: bytes) -> None:
        """A client's connection is closed: nobody waits for its requests any more.

        They are aborted, or go on to their ends where that is the policy, unheard.
        """
        self._clients.discard(client)
        self._outbox.drop(client)
        for request_id, live in list(self._live.items()):
            if live.client == client:
                del self._live[request_id]
                live.stream.close()
                if self._engine.config.engine.consumer_drop == "abort":
                    self._engine.abort(live.stream)
                    logger.info("request %s aborted: its client is gone", request_id)
