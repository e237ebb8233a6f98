import pytest

from diffusion_operator.desired.arguments import arguments
from tests.operator.builders import make_spec


def test_a_short_spec_renders_only_what_is_always_given():
    assert arguments(make_spec()) == [
        "serve",
        "--model=/models/m",
        "--port=5555",
        "--admin-port=8080",
        "--device=cuda",
        "--num-gpus=1",
        "--startup-timeout-s=3600",
        "--drain-timeout-s=300",
        "--hang-timeout-s=300",
    ]


EVERYTHING = {
    "model": {"uri": "hf://org/name", "revision": "main"},
    "ports": {"zmq": 6000, "admin": 9000},
    "accelerator": {"count": 48},
    "parallelism": {"data": 2, "tensor": 2, "sequence": 2, "pipeline": 3, "cfg": 2},
    "engine": {
        "dtype": "bfloat16",
        "executor": "mp",
        "maxNumSeqs": 8,
        "stepExecution": True,
        "streamingOutput": True,
        "schedulingPolicy": "lookahead",
        "requestBatchMaxWaitMs": 5,
        "consumerDrop": "detach",
        "maxQueue": 9,
        "warmup": False,
    },
    "engineArgs": ["--port=1", "last"],
    "startup": {"timeoutSeconds": 10},
    "drain": {"timeoutSeconds": 20},
    "failurePolicy": {"hangTimeoutSeconds": 30},
}


def test_every_field_has_its_flag_and_the_users_arguments_come_last():
    assert arguments(make_spec(**EVERYTHING))[1:] == [
        "--model=hf://org/name",
        "--revision=main",
        "--port=6000",
        "--admin-port=9000",
        "--device=cuda",
        "--num-gpus=48",
        "--data-parallel-size=2",
        "--tensor-parallel-size=2",
        "--sequence-parallel-size=2",
        "--pipeline-parallel-size=3",
        "--cfg-parallel-size=2",
        "--dtype=bfloat16",
        "--executor=mp",
        "--max-num-seqs=8",
        "--step-execution",
        "--streaming-output",
        "--scheduling-policy=lookahead",
        "--request-batch-max-wait-ms=5",
        "--consumer-drop=detach",
        "--max-queue=9",
        "--no-warmup",
        "--startup-timeout-s=10",
        "--drain-timeout-s=20",
        "--hang-timeout-s=30",
        "--port=1",
        "last",
    ]


@pytest.mark.parametrize(
    ("accelerator", "device"),
    [
        ({"count": 0}, "cpu"),
        ({"count": 1}, "cuda"),
        ({"count": 2, "resourceName": "amd.com/gpu"}, "cuda"),
        ({"count": 1, "resourceName": "gpu.intel.com/xe"}, "auto"),
    ],
)
def test_the_device_follows_from_the_resource(accelerator, device):
    assert f"--device={device}" in arguments(make_spec(accelerator=accelerator))


@pytest.mark.parametrize(
    ("parallelism", "workers"), [(None, 1), ({"data": 2}, 2), ({"data": 2, "cfg": 2}, 4)]
)
def test_in_cpu_mode_the_parallelism_says_how_many_workers_run(parallelism, workers):
    given = {} if parallelism is None else {"parallelism": parallelism}
    assert f"--num-gpus={workers}" in arguments(make_spec(accelerator={"count": 0}, **given))


def test_flags_that_say_the_stages_own_default_are_left_out():
    switched_off = {"stepExecution": False, "streamingOutput": False, "warmup": True}
    assert arguments(make_spec(engine=switched_off)) == arguments(make_spec())
