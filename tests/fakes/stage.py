"""A stage without an engine: the real codec on a real socket, with answers that a test scripts.

A script is called once for each `Submit` and says what happens to it. It runs as a task of its own.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import zmq
import zmq.asyncio

from diffusion_stage.errors import InvalidArgumentError, request_error
from diffusion_stage.server.allowlist import AllowList
from diffusion_stage.server.entrance import Door
from diffusion_stage.wire import codec, messages
from diffusion_stage.wire.messages import Accepted, Cancel, Chunk, Error, Progress, Result, Submit
from diffusion_stage.wire.sockets import server_socket
from diffusion_stage.wire.tensors import describe, frame

ANY_PORT = "tcp://127.0.0.1:*"
M = TypeVar("M")


def pixels(seed, size=8):
    """The image that every fake stage makes of a seed."""
    return np.random.default_rng(seed).integers(0, 256, (1, size, size, 3), dtype=np.uint8)


@dataclass(eq=False)
class Task:
    """A submit that arrived, and the ways to answer it."""

    stage: "FakeStage"
    client: bytes
    submit: Submit
    payload: list[bytes]
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def key(self):
        return {"request_id": self.submit.request_id, "attempt": self.submit.attempt}

    def say(self, message, payload=()):
        self.stage.say(self.client, message, payload)

    def accept(self):
        self.say(Accepted(**self.key, queue_depth=0))

    def progress(self, step, total_steps):
        self.say(Progress(**self.key, step=step, total_steps=total_steps))

    def chunk(self, index, array):
        self.say(Chunk(**self.key, index=index, outputs=[describe("part", array)]), [frame(array)])

    def result(self, array=None, *, kind="image"):
        array = pixels(self.submit.seed) if array is None else array
        outputs = [describe("images", array, kind=kind)]
        result = Result(**self.key, outputs=outputs, seed=self.submit.seed, metrics={"total": 1.0})
        self.say(result, [frame(array)])
        self.stage.results[self.submit.request_id] += 1

    def fail(self, reason, message="as scripted", *, field=None):
        error = request_error(reason, message, field=field)
        self.say(
            Error(
                **self.key,
                status=error.status,
                reason=error.reason,
                message=message,
                retryable=error.retryable,
                field=field,
            )
        )


async def answer(task):
    """What a stage does when all is well, in two steps."""
    task.accept()
    task.progress(1, 2)
    task.progress(2, 2)
    task.result()


async def hold(task):
    """Accepts, and answers nothing until the request is cancelled."""
    task.accept()
    await task.cancelled.wait()


def fail(reason, **given):
    async def script(task):
        task.fail(reason, **given)

    return script


def in_turn(*scripts):
    """Each submit gets the next script; the last one serves all that follow."""
    left = list(scripts)

    async def script(task):
        await (left.pop(0) if len(left) > 1 else left[0])(task)

    return script


class FakeStage:
    """Serves on loopback between `start` and `stop`; `die` and `start` again keep the port.

    `keys` are files of `tests.stage.curve`, read at `start`.
    """

    def __init__(self, name="stage-0", script=answer, *, ready=True, keys=None):
        self.name = name
        self.script = script
        self.ready = ready
        self.keys = keys
        self.address = ANY_PORT
        self.heard = []
        self.tasks = []
        self.results = Counter()
        self.clients = set()
        self.control: Callable[[messages.Control], object] | None = lambda control: {"queue": 0}
        self.greets = True
        self._news = asyncio.Event()
        self._scripts = set()
        self._open = {}
        self._task = None

    async def __aenter__(self):
        self.start()
        return self

    async def __aexit__(self, *error):
        self.die()

    def start(self):
        self._context = zmq.asyncio.Context()
        self._open_door()
        secret_key = self.keys and self.keys.pair.secret
        self._socket = server_socket(self._context, self.address, secret_key=secret_key)
        self.address = self._socket.get_string(zmq.LAST_ENDPOINT)
        self._task = asyncio.get_running_loop().create_task(self._serve())

    def _open_door(self):
        """Answers as a real stage does, in a loop of our own."""
        self._door = None
        if self.keys is not None:
            context = zmq.Context.shadow(self._context.underlying)
            self._door = Door(context, AllowList(self.keys.clients))
            self._door_task = asyncio.get_running_loop().create_task(self._keep_door())

    async def _keep_door(self):
        while True:
            if self._door.socket.poll(0):
                self._door.answer()
            await asyncio.sleep(0.01)

    @property
    def is_alive(self):
        return self._task is not None

    def die(self):
        """Ends as a killed process does: connections are cut, nobody is told."""
        if self._task is None:
            return
        for each in (self._task, *self._scripts):
            each.cancel()
        self._task = None
        self.clients.clear()
        self._open.clear()
        self._socket.close(linger=0)
        if self._door is not None:
            self._door_task.cancel()
            self._door.socket.close(linger=0)
        self._context.term()
        self._news.set()

    def say(self, client, message, payload=()):
        self.say_raw(client, codec.encode(message, payload))

    def say_raw(self, client, frames):
        if not self._socket.closed:
            self._socket.send_multipart([client, *frames], flags=zmq.NOBLOCK).result()

    def tell_all(self, message):
        for client in self.clients:
            self.say(client, message)

    def of(self, kind: type[M]) -> list[M]:
        """The messages of one type that arrived."""
        return [each for each in self.heard if isinstance(each, kind)]

    async def has_heard(self, kind: type[M], count=1) -> list[M]:
        """Waits for the `count`th message of a type."""
        await self.sees(lambda: len(self.of(kind)) >= count)
        return self.of(kind)

    async def has_heard_prompt(self, prompt):
        """Waits for the submit with that prompt."""
        await self.sees(lambda: any(t.submit.params["prompt"] == prompt for t in self.tasks))
        return next(t for t in self.tasks if t.submit.params["prompt"] == prompt)

    async def sees(self, condition: Callable[[], object]):
        """Waits until it is so, looking whenever something happened to this stage."""
        async with asyncio.timeout(10):
            while not condition():
                self._news.clear()
                await self._news.wait()

    async def flushed(self):
        """Waits until all clients have read what was said so far."""
        self.tell_all(messages.Ping(token="flushed"))
        count = len(self.of(messages.Ping)) + len(self.clients)
        await self.has_heard(messages.Ping, count)

    async def _serve(self):
        while True:
            client, *frames = await self._socket.recv_multipart()
            try:
                message, payload = codec.decode_client(frames)
            except InvalidArgumentError as error:
                self.say(
                    client, Error(status=error.status, reason=error.reason, message=str(error))
                )
                continue
            self.heard.append(message)
            self._news.set()
            self._handle(client, message, payload)

    def _handle(self, client, message, payload):
        match message:
            case messages.Hello():
                self.clients.add(client)
                if self.greets:
                    self.say(client, self.hello())
            case Submit():
                self._run(Task(self, client, message, payload))
            case Cancel():
                task = self._open.get((message.request_id, message.attempt))
                if task is not None:
                    task.cancelled.set()
            case messages.Control() if self.control is not None:
                reply = messages.ControlReply(
                    control_id=message.control_id, value=self.control(message)
                )
                self.say(client, reply)
            case messages.Ping() if not message.reply:
                self.say(client, messages.Ping(token=message.token, reply=True))

    def hello(self):
        return messages.Hello(
            name=self.name, model="fake/model", pipeline="FakePipeline", ready=self.ready
        )

    def _run(self, task):
        self.tasks.append(task)
        self._open[task.submit.request_id, task.submit.attempt] = task
        script: Awaitable[None] = self.script(task)
        running = asyncio.ensure_future(script)
        self._scripts.add(running)
        running.add_done_callback(self._scripts.discard)
