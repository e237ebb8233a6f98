"""T06: a stage whose devices are all at work answers its probes, and is not restarted."""

import time

import pytest

from diffusion_operator.desired.probes import probes
from tests.stage.life.figures import show

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]

LIVENESS = probes(startup_timeout_s=60)["livenessProbe"]
PROBES = 50
LOAD = [str(number) for number in range(8)]
PARAMS = {"prompt": "a red circle", "height": 64, "width": 64, "num_inference_steps": 1000}


@pytest.mark.parametrize("executor", ["uni", pytest.param("mp", marks=pytest.mark.slow)])
def test_a_busy_stage_is_live_in_time(serve, icons_model, executor):
    """With `uni` the forward runs in the process that answers."""
    workers = {"uni": 1, "mp": 2}[executor]
    stage = serve(None, model=icons_model, executor=executor, num_gpus=workers).wait_ready()
    took_s = []
    with stage.client() as client:
        for number, request_id in enumerate(LOAD):
            client.accepted(request_id, seed=number, **PARAMS)
        client.step_of(LOAD[0])
        for _ in range(PROBES):
            asked_at = time.monotonic()
            assert stage.get(LIVENESS["httpGet"]["path"], LIVENESS["timeoutSeconds"])[0] == 200
            took_s.append(time.monotonic() - asked_at)
            time.sleep(0.02)
        assert stage.status["load"]["running"] == workers
    show(f"liveness of a busy stage ({executor})", took_s)
