"""`python -m benchmarks.inline MODEL`: requests through an engine with the `uni` executor.

Speaks as `benchmarks.plain` does. The engine's loop, and so each forward, runs in the main thread.
"""

import hashlib
import json
import queue
import sys
import threading
import time
from typing import Any

from diffusion_stage.config.stage import EngineConfig, ModelConfig, ParallelConfig, StageConfig
from diffusion_stage.engine.engine import DiffusionEngine
from diffusion_stage.engine.streams import OutputStream
from diffusion_stage.outputs import Completed, Failed
from diffusion_stage.validation import validate
from diffusion_stage.wire.messages import Submit


class Asker:
    """Asks for one image after the other, from a thread."""

    def __init__(self, engine: DiffusionEngine) -> None:
        self._engine = engine
        self._ends: queue.SimpleQueue[Completed] = queue.SimpleQueue()

    def run(self) -> None:
        for number, line in enumerate(sys.stdin):
            seconds, digest = self._ask(f"{number}", json.loads(line))
            print(json.dumps({"seconds": seconds, "digest": digest}), flush=True)

    def _ask(self, request_id: str, arguments: dict[str, Any]) -> tuple[float, str]:
        seed = arguments.pop("seed")
        start = time.perf_counter()
        submit = Submit(request_id=request_id, params=arguments, seed=seed)
        request = validate(submit, [], self._engine.admission(), time.monotonic())
        self._engine.add_request(request, self._note)
        output = self._ends.get().output
        seconds = time.perf_counter() - start
        digest = hashlib.sha256(output.data[0]).hexdigest()
        output.release()
        return seconds, digest

    def _note(self, stream: OutputStream) -> None:
        for event in stream.take():
            match event:
                case Completed():
                    self._ends.put(event)
                case Failed(error=error):
                    raise error


def main(model: str) -> None:
    config = StageConfig(
        model=ModelConfig(model=model),
        parallel=ParallelConfig(device="cpu"),
        engine=EngineConfig(executor="uni"),
    )
    engine = DiffusionEngine.make_engine(config)
    print("ready", flush=True)
    threading.Thread(target=Asker(engine).run, daemon=True).start()
    engine.run(lambda: False)


if __name__ == "__main__":
    main(sys.argv[1])
