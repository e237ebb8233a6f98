"""What both clients that own their stage do alike."""

import asyncio
import os
import signal
import sys

import numpy as np
import pytest

from diffusion_stage.client.generation import Generation, Part
from diffusion_stage.errors import (
    AlreadyExistsError,
    CancelledError,
    ConfigError,
    DeadlineExceededError,
    EngineDeadError,
    InternalError,
    InvalidArgumentError,
    ModelError,
)
from diffusion_stage.owned import InlineStageDiffusionClient, StageDiffusionClient
from diffusion_stage.wire.messages import Progress
from tests.fakes.pipelines import picture
from tests.stage.builders import make_config
from tests.stage.pids import wait_gone
from tests.stage.process import FAKE, ROOT

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

PROMPT = "a red circle"
KINDS = {
    "inline, uni": (InlineStageDiffusionClient, {"executor": "uni"}),
    "inline, mp": (InlineStageDiffusionClient, {"executor": "mp"}),
    "process": (StageDiffusionClient, {"executor": "mp"}),
}


@pytest.fixture(autouse=True)
def _children_find_the_fakes(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


@pytest.fixture(params=KINDS)
def make(request, fake_model):
    """Makes a client; not started."""
    kind, given = KINDS[request.param]

    def make(pipeline="Steps", **more):
        return kind(
            make_config(
                model=str(fake_model),
                pipeline_class=f"{FAKE}:{pipeline}",
                **given | {"step_execution": True, "streaming_output": True} | more,
            )
        )

    return make


async def test_the_life_of_a_stage(make):
    """From start to shutdown of one of each kind, so that it is loaded once."""
    async with make(worker_extension=f"{FAKE}:Extension") as stage:
        stage.check_health()
        made = await stage.generate(PROMPT, seed=3, request_id="a")
        np.testing.assert_array_equal(made.images[0], picture(PROMPT, 3))
        assert (made.request_id, made.seed, made.attempts) == ("a", 3, 1)
        await progress_and_parts_come_in_order(stage)
        await bad_input_costs_its_request_alone(stage)
        await an_id_in_use_is_refused(stage)
        await a_request_is_aborted(stage)
        await a_deadline_ends_a_request(stage)
        assert await stage.collective_rpc("echo", {"value": [1, "x"]}) == [[1, "x"]]
        with pytest.raises(InternalError, match="method 'reboot'; allowed: check_device, echo"):
            await stage.collective_rpc("reboot", {})
        together = await asyncio.gather(*(stage.generate(PROMPT, seed=n) for n in range(6)))
        for seed, each in enumerate(together):
            np.testing.assert_array_equal(each.images[0], picture(PROMPT, seed))
        under_way = asyncio.create_task(
            stage.generate(PROMPT, num_inference_steps=9_999, step_s=0.02)
        )
        await asyncio.sleep(0.1)
    with pytest.raises(Exception, match=r"cancelled|clos|ending|ended|lost"):
        await under_way
    with pytest.raises(EngineDeadError):
        stage.check_health()
    await stage.shutdown()


async def progress_and_parts_come_in_order(stage):
    events = [e async for e in stage.stream(PROMPT, seed=1, chunks=2, step_s=0.05)]
    parts = [event for event in events if isinstance(event, Part)]
    assert [(part.index, part.outputs["frames"].tolist()) for part in parts] == [
        (0, [[1.0, 1.0]]),
        (1, [[2.0, 2.0]]),
    ]
    assert any(isinstance(event, Progress) for event in events)
    assert isinstance(events[-1], Generation)
    made = await stage.generate(PROMPT, seed=1, chunks=2)
    np.testing.assert_array_equal(made.images[0], picture(PROMPT, 1))


async def bad_input_costs_its_request_alone(stage):
    with pytest.raises(InvalidArgumentError) as refused:
        await stage.generate(PROMPT, height="large")
    assert refused.value.field == "height"
    with pytest.raises(InternalError, match="AssertionError"):
        await stage.generate(PROMPT, fault="assertion", fault_at=1)
    await stage.generate(PROMPT)


async def an_id_in_use_is_refused(stage):
    first = asyncio.create_task(stage.generate(PROMPT, seed=5, step_s=0.05, request_id="x"))
    await asyncio.sleep(0.05)
    with pytest.raises(AlreadyExistsError):
        await stage.generate("something else", request_id="x")
    np.testing.assert_array_equal((await first).images[0], picture(PROMPT, 5))


async def a_request_is_aborted(stage):
    endless = {"num_inference_steps": 9_999, "step_s": 0.02}
    task = asyncio.create_task(stage.generate(PROMPT, request_id="x", **endless))
    await asyncio.sleep(0.1)
    stage.abort("x")
    stage.abort("nobody")
    with pytest.raises(CancelledError):
        await task
    await stage.generate(PROMPT, request_id="y")


async def a_deadline_ends_a_request(stage):
    with pytest.raises(DeadlineExceededError):
        await stage.generate(PROMPT, deadline_s=0.2, num_inference_steps=9_999, step_s=0.02)


@pytest.mark.parametrize(
    ("pipeline", "kind"), [("Pipeline", ConfigError), ("Unreadable", ModelError)]
)
async def test_a_failed_start_gives_its_cause(make, pipeline, kind):
    """RUNTIME-RULE-9."""
    stage = make(pipeline)
    with pytest.raises(kind):
        await stage.start()
    await stage.shutdown()


async def test_a_dead_worker_is_a_dead_stage(make, request):
    """A6 and RUNTIME-RULE-5: requests end with a typed error, and health is red."""
    if "uni" in request.node.callspec.id:
        pytest.skip("its worker is this process")
    async with make() as stage:
        (report,) = await stage.collective_rpc("report", {})
        endless = {"num_inference_steps": 9_999, "step_s": 0.02}
        task = asyncio.create_task(stage.generate(PROMPT, **endless))
        await asyncio.sleep(0.1)
        os.kill(report["pid"], signal.SIGKILL)
        with pytest.raises(EngineDeadError, match="killed by SIGKILL"):
            await asyncio.wait_for(task, 10)
        for _ in range(200):
            try:
                stage.check_health()
            except EngineDeadError:
                break
            await asyncio.sleep(0.05)
        with pytest.raises(EngineDeadError, match="killed by SIGKILL"):
            stage.check_health()
        with pytest.raises(EngineDeadError):
            await stage.generate(PROMPT)
    assert wait_gone([report["pid"]], timeout_s=10) == []


async def test_the_process_dies_with_its_owner(fake_model, tmp_path):
    """By the kernel's hand, whichever way the owner ends."""
    program = tmp_path / "owner.py"
    program.write_text(
        "import asyncio, os, sys\n"
        "from diffusion_stage.owned import StageDiffusionClient\n"
        "from tests.stage.builders import make_config\n"
        "async def main():\n"
        "    stage = StageDiffusionClient(make_config(model=sys.argv[1], "
        f"pipeline_class='{FAKE}:Pipeline'))\n"
        "    await stage.start()\n"
        "    (report,) = await stage.collective_rpc('report', {})\n"
        "    print(stage._process.pid, report['pid'], flush=True)\n"
        "    os.kill(os.getpid(), 9)\n"
        "asyncio.run(main())\n"
    )
    owner = await asyncio.create_subprocess_exec(
        sys.executable, str(program), str(fake_model), stdout=asyncio.subprocess.PIPE
    )
    said, _ = await owner.communicate()
    pids = [int(pid) for pid in said.split()]
    assert len(pids) == 2
    assert wait_gone(pids, timeout_s=10) == []


def test_a_stage_of_ones_own_takes_no_keys():
    """Its only client has none."""
    files = {"curve_secret_key_file": "/keys/secret-key", "curve_clients_file": "/keys/clients"}
    with pytest.raises(ConfigError, match="--curve-secret-key-file /keys/secret-key"):
        StageDiffusionClient(make_config(**files))
