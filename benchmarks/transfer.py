"""P6: an output of 97 MB from the worker to the stage process, and on to the client."""

import itertools
import json
import statistics
import tempfile
import time
from pathlib import Path

from benchmarks.blocks import alternate, median_of
from benchmarks.memcpy import SIZE_BYTES, Memcpy, touch
from benchmarks.processes import StageProcess
from benchmarks.result import Result, figure, ratio
from diffusion_stage.client import StageClient
from diffusion_stage.config.arguments import parse_serve
from diffusion_stage.config.resolve import resolve
from diffusion_stage.executor.multiproc import MultiprocDiffusionExecutor
from diffusion_stage.outputs import DiffusionOutput
from diffusion_stage.request import DiffusionRequest
from diffusion_stage.scheduler.output import (
    CachedRequestData,
    DiffusionSchedulerOutput,
    NewRequestData,
)

REPEATS = 5
WARM_UP = 3
WAIT_S = 60.0
GIGABYTE = 1e9
PIPELINE = "benchmarks.video:VideoPipeline"


class Pod:
    """Stands for the stage process: an executor with one worker, without engine or server."""

    def __init__(self, model: Path) -> None:
        config = parse_serve(
            ["--model", str(model), "--pipeline-class", PIPELINE, "--device", "cpu"]
        )
        self._steps = itertools.count()
        self._executor = MultiprocDiffusionExecutor(config, resolve(config), lambda *_: None)
        self._executor.start()

    def measure(self) -> float:
        """Seconds from the end of the forward until each page of its output was read here."""
        start = time.perf_counter()
        output = self._execute()
        for view in output.data:
            touch(memoryview(view))
        seconds = time.perf_counter() - start - output.metrics["forward_ms"] / 1000
        output.release()
        return seconds

    def _execute(self) -> DiffusionOutput:
        step = next(self._steps)
        request = DiffusionRequest(request_id=str(step), attempt=1, params={"prompt": ""}, seed=0)
        wave = DiffusionSchedulerOutput(
            step_id=step,
            scheduled_new_reqs=(NewRequestData(request.request_id, request),),
            scheduled_cached_reqs=CachedRequestData(),
            finished_req_ids=frozenset(),
            num_running_reqs=1,
            num_waiting_reqs=0,
        )
        done = self._executor.execute_batch(wave)
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            for runner in done.outputs:
                if runner.error is not None:
                    raise runner.error
                if runner.result is not None:
                    return runner.result
            done = self._executor.wait(WAIT_S)
        raise TimeoutError(f"no output within {WAIT_S:.0f} s")

    def close(self) -> None:
        self._executor.shutdown()


class Network:
    """A client of a stage, over ZMQ on the loopback."""

    def __init__(self, client: StageClient) -> None:
        self._client = client

    def measure(self) -> float:
        """Gigabytes a second from the end of the forward until the client has the output."""
        start = time.perf_counter()
        generation = self._client.generate("")
        touch(generation.outputs["frames"])
        seconds = time.perf_counter() - start - generation.metrics["forward_ms"] / 1000
        return SIZE_BYTES / seconds / GIGABYTE


def run(blocks: int) -> list[Result]:
    """The folder of the model holds an index alone: the pipeline has no parts."""
    with tempfile.TemporaryDirectory() as name:
        model = Path(name)
        index = {"_class_name": "VideoPipeline", "_diffusers_version": "0.35.0"}
        (model / "model_index.json").write_text(json.dumps(index))
        return [_pod(model, blocks), _zmq(model, blocks)]


def _pod(model: Path, blocks: int) -> Result:
    memcpy = Memcpy()
    pod = Pod(model)
    try:
        alternate(pod.measure, memcpy.measure, blocks=WARM_UP)
        pairs = alternate(
            median_of(pod.measure, REPEATS), median_of(memcpy.measure, REPEATS), blocks=blocks
        )
    finally:
        pod.close()
    return ratio(
        "P6.pod",
        "97 MB from worker to stage process ÷ memcpy of as much",
        pairs,
        baseline=lambda seconds: f"memcpy {SIZE_BYTES / seconds / GIGABYTE:.1f} GB/s",
        limit=None,
    )


def _zmq(model: Path, blocks: int) -> Result:
    memcpy = Memcpy()
    with (
        StageProcess(model, "--pipeline-class", PIPELINE) as stage,
        StageClient(stage.address) as client,
    ):
        network = Network(client)
        alternate(network.measure, memcpy.measure, blocks=WARM_UP)
        pairs = alternate(
            median_of(network.measure, REPEATS), median_of(memcpy.measure, REPEATS), blocks=blocks
        )
    copied_s = statistics.median(pair.baseline for pair in pairs)
    return figure(
        "P6.zmq",
        "97 MB from worker to client over ZMQ",
        [pair.ours for pair in pairs],
        unit="GB/s",
        baseline=f"memcpy {SIZE_BYTES / copied_s / GIGABYTE:.1f} GB/s",
    )
