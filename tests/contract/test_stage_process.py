"""What the operator tells a stage process, and what it reads of its end."""

import pytest

from diffusion_operator.desired.arguments import arguments
from diffusion_operator.desired.pod import TERMINATION_LOG
from diffusion_operator.failures import REASONS, failures
from diffusion_stage import errors
from diffusion_stage.config.arguments import parse_serve
from diffusion_stage.server import termination
from tests.operator.builders import ended, make_pod, make_spec, observed


def parsed(**spec):
    command, *argv = arguments(make_spec(**spec))
    assert command == "serve"
    return parse_serve(argv)


def test_what_the_operator_renders_for_a_short_spec_is_a_configuration():
    config = parsed()
    assert config.model.model == "/models/m"
    assert config.parallel.device == "cuda"
    assert config.serving.termination_log == TERMINATION_LOG


PATHS = {"diffusion_model_runner_cls", "engine_class", "worker_extension"}  # through engineArgs
ENGINE = {
    "dtype": "bfloat16",
    "executor": "uni",
    "maxNumSeqs": 8,
    "stepExecution": True,
    "streamingOutput": True,
    "schedulingPolicy": "lookahead",
    "requestBatchMaxWaitMs": 5,
    "consumerDrop": "detach",
    "maxQueue": 9,
    "warmup": False,
}


def test_every_field_of_the_spec_arrives():
    config = parsed(
        model={"uri": "hf://org/name", "revision": "main"},
        ports={"zmq": 6000, "admin": 6001},
        accelerator={"count": 24},
        parallelism={"data": 3, "tensor": 2, "sequence": 2, "pipeline": 1, "cfg": 2},
        engine=ENGINE,
        startup={"timeoutSeconds": 11},
        drain={"timeoutSeconds": 12},
        failurePolicy={"hangTimeoutSeconds": 13},
    )
    assert config.model.model_dump(exclude={"pipeline_class"}) == {
        "model": "hf://org/name",
        "revision": "main",
        "dtype": "bfloat16",
    }
    assert list(config.parallel.model_dump().values()) == ["cuda", 24, 3, 2, 2, 1, 2]
    assert config.engine.model_dump(exclude=PATHS) == {
        "executor": "uni",
        "max_num_seqs": 8,
        "scheduling_policy": "lookahead",
        "request_batch_max_wait_ms": 5,
        "consumer_drop": "detach",
        "max_queue": 9,
        "step_execution": True,
        "streaming_output": True,
        "warmup": False,
    }
    assert (config.serving.port, config.serving.admin_port) == (6000, 6001)
    assert list(config.timeouts.model_dump().values()) == [11, 12, 13]


def test_what_the_spec_leaves_open_is_the_stages_own_choice():
    assert parsed().engine == type(parsed().engine)()


def test_the_users_arguments_win():
    assert parsed(engineArgs=["--max-queue=7"], engine={"maxQueue": 9}).engine.max_queue == 7


def test_both_name_each_exit_code_alike():
    said = {end.exit_code: end.reason for end in errors.FatalError.__subclasses__()}
    assert said == REASONS


@pytest.mark.parametrize("reason", sorted(REASONS.values()))
def test_the_report_of_a_stage_is_understood(tmp_path, reason):
    error = errors.fatal_error(reason)("it broke", rank=1, device="cpu:1", signal=9, step=7)
    log = tmp_path / "termination-log"
    termination.write(str(log), error, phase="serving", inflight=4, uptime_s=81.2)
    pod = make_pod(1, last=ended(error.exit_code, message=log.read_text()))
    [found] = failures(observed(pod))
    assert found.describe() == f"flux-1: {reason} (exit {error.exit_code}, rank 1, cpu:1, signal 9)"
    assert found.message == "it broke"
