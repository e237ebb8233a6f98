"""What will be run, or why it will not."""

import pytest

from diffusion_stage.config.resolve import ExecutionMode, check, resolve
from diffusion_stage.errors import ConfigError
from tests.stage.builders import CAPABILITIES, make_config


def test_one_device_runs_one_request_at_a_time():
    runtime = resolve(make_config())
    assert runtime.mode is ExecutionMode.REQUEST_SINGLE
    assert (runtime.world_size, runtime.max_num_running_reqs) == (1, 1)


def test_more_than_one_request_at_a_time_is_one_call_for_all():
    runtime = resolve(make_config(max_num_seqs=4))
    assert runtime.mode is ExecutionMode.REQUEST_FUSED
    assert runtime.max_num_running_reqs == 4


@pytest.mark.parametrize("given", [{"step_execution": True}, {"streaming_output": True}])
def test_streaming_implies_steps(given):
    runtime = resolve(make_config(num_gpus=2, max_num_seqs=4, **given))
    assert runtime.mode is ExecutionMode.STEP
    assert runtime.max_num_running_reqs == 8
    assert runtime.is_streaming == ("streaming_output" in given)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"step_execution": True}, "FakePipeline does not run step by step"),
        ({"max_num_seqs": 3}, "--max-num-seqs 3: FakePipeline declares no request batches"),
    ],
)
def test_a_pipeline_that_cannot_run_so_is_told_at_the_start(given, words):
    """A14: not at the first request."""
    with pytest.raises(ConfigError, match=words):
        check(resolve(make_config(**given)), CAPABILITIES)


@pytest.mark.parametrize("given", [{}, {"data_parallel_size": 3}])
def test_several_devices_share_work_as_data_parallel_ranks(given):
    runtime = resolve(make_config(num_gpus=3, **given))
    assert runtime.mode is ExecutionMode.REQUEST_DATA_PARALLEL
    assert (runtime.world_size, runtime.data_parallel_size) == (3, 3)
    assert runtime.max_num_running_reqs == 3


def test_the_answer_is_one_line_to_read():
    assert str(resolve(make_config(num_gpus=2))) == (
        "mode: request, data parallel; 2 worker(s), data parallel 2, 2 request(s) at a time"
    )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"max_num_seqs": 4, "num_gpus": 2}, "--max-num-seqs 4 .*allowed: 1, or --step-execution"),
        (
            {"step_execution": True, "request_batch_max_wait_ms": 5},
            "--request-batch-max-wait-ms 5.0 with step execution",
        ),
        ({"executor": "uni", "num_gpus": 2}, "--executor uni with --num-gpus 2; allowed: one"),
        ({"data_parallel_size": 2}, "--data-parallel-size 2 with --num-gpus 1; they must be equal"),
        ({"num_gpus": 4, "data_parallel_size": 2}, "--data-parallel-size 2 with --num-gpus 4"),
        ({"tensor_parallel_size": 2}, "--tensor-parallel-size 2: .*allowed: 1"),
        ({"sequence_parallel_size": 2}, "--sequence-parallel-size 2: .*allowed: 1"),
        ({"pipeline_parallel_size": 2}, "--pipeline-parallel-size 2: .*allowed: 1"),
        ({"cfg_parallel_size": 2}, "--cfg-parallel-size 2: .*allowed: 1"),
    ],
)
def test_what_this_version_does_not_run_is_refused_by_its_flag(given, words):
    with pytest.raises(ConfigError, match=words):
        resolve(make_config(**given))


def test_cpu_workers_share_the_cores(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr("diffusion_stage.config.resolve.available_cpus", lambda: 8)
    assert resolve(make_config(num_gpus=2)).threads_per_worker == 4
    assert resolve(make_config(num_gpus=16)).threads_per_worker == 1


@pytest.mark.parametrize("given", [{"device": "cuda"}, {}])
def test_threads_are_left_alone_on_gpus_and_where_the_environment_says(given, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert resolve(make_config(**given)).threads_per_worker is None


@pytest.mark.parametrize("given", ["curve_secret_key_file", "curve_clients_file"])
def test_one_of_the_key_files_without_the_other_is_refused_with_both_flags(given):
    with pytest.raises(ConfigError) as wrong:
        resolve(make_config(**{given: "/keys/file"}))
    assert f"--{given.replace('_', '-')} /keys/file" in str(wrong.value)
    assert "--curve-secret-key-file " in str(wrong.value)
    assert "--curve-clients-file " in str(wrong.value)
    assert str(wrong.value).endswith("allowed: both, or neither")
