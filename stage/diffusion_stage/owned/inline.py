"""A stage in the caller's own process: no socket, and with `uni` no second process."""

import asyncio
import threading
import time
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any

from diffusion_stage.client.calls import StreamEvent
from diffusion_stage.client.generation import Generation, Part, arrays
from diffusion_stage.client.submission import Submission
from diffusion_stage.config.stage import StageConfig
from diffusion_stage.engine.engine import DiffusionEngine
from diffusion_stage.engine.streams import OutputStream
from diffusion_stage.errors import EngineDeadError, FatalError
from diffusion_stage.outputs import ChunkReady, Completed, DiffusionOutput, Failed, StepProgress
from diffusion_stage.owned.interface import OwnedStage
from diffusion_stage.validation import validate
from diffusion_stage.wire.messages import Progress

NAME = "inline"


class InlineStageDiffusionClient(OwnedStage):
    """Hosts a `DiffusionEngine` whose loop, and with `uni` whose forwards, run in a thread.

    A crash of native code in a `uni` engine takes the caller's process along; `mp` keeps them
    apart. Start-up and shutdown do not block the event loop.
    """

    def __init__(self, config: StageConfig) -> None:
        super().__init__()
        self._config = config
        self._engine: DiffusionEngine | None = None
        self._thread: threading.Thread | None = None
        self._death: FatalError | None = None

    async def start(self) -> None:
        self._engine = await asyncio.to_thread(DiffusionEngine.make_engine, self._config)
        self._thread = threading.Thread(target=self._run, args=[self._engine], name="engine")
        self._thread.start()

    def _run(self, engine: DiffusionEngine) -> None:
        try:
            engine.run(lambda: False)
        except FatalError as error:
            self._death = error
            engine.close(grace_s=0)

    @property
    def _live(self) -> DiffusionEngine:
        if self._engine is None:
            raise EngineDeadError("the stage is not started")
        return self._engine

    async def _events(self, submission: Submission) -> AsyncGenerator[StreamEvent, None]:
        engine, submit = self._live, submission.submit
        loop = asyncio.get_running_loop()
        written = asyncio.Event()

        def notify(_stream: OutputStream) -> None:
            with suppress(RuntimeError):  # the event loop is closed: nobody reads any more
                loop.call_soon_threadsafe(written.set)

        request = validate(submit, submission.payload, engine.admission(), time.monotonic())
        stream = engine.add_request(request, notify)
        try:
            while True:
                await written.wait()
                written.clear()
                for event in stream.take():
                    yield self._event(event, submission)
        finally:
            engine.abort(stream)
            stream.close()

    def _event(
        self, event: StepProgress | ChunkReady | Completed | Failed, submission: Submission
    ) -> StreamEvent:
        request_id = submission.submit.request_id
        match event:
            case StepProgress(step=step, total_steps=total):
                return Progress(request_id=request_id, attempt=1, step=step, total_steps=total)
            case ChunkReady(index=index, output=output):
                return Part(index, _copied(output))
            case Failed(error=error):
                raise error.with_traceback(None)
            case Completed(output=output):
                return Generation(
                    request_id=request_id,
                    outputs=_copied(output),
                    kinds={spec.name: spec.kind for spec in output.specs},
                    seed=output.seed,
                    attempts=1,
                    replica=NAME,
                    model=self._config.model.model,
                    rank=output.rank,
                    metrics=output.metrics,
                )

    async def collective_rpc(
        self, method: str, args: dict[str, Any], *, timeout_s: float = 30.0
    ) -> list[Any]:
        self.check_health()
        return await asyncio.wrap_future(self._live.collective_rpc(method, args, timeout_s))

    def check_health(self) -> None:
        self._live.check_health()

    async def shutdown(self) -> None:
        if self._engine is None or self._thread is None:
            return
        await asyncio.to_thread(self._engine.close)
        await asyncio.to_thread(self._thread.join)


def _copied(output: DiffusionOutput) -> dict[str, Any]:
    """The arrays, in memory of their own: the output's is lent."""
    try:
        found = arrays(output.specs, output.data, sender=NAME)
        return {name: array.copy() for name, array in found.items()}
    finally:
        output.release()
