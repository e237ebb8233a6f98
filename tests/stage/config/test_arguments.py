"""Flags to configuration; each wrong one is named, with its value and what is allowed."""

import argparse
import shlex

import pytest

from diffusion_stage.config.arguments import GROUPS, add_arguments, parse_serve
from diffusion_stage.config.stage import StageConfig
from diffusion_stage.errors import ConfigError

MODEL = ["--model", "/models/m"]
RENDERED = """
    --model hf://org/name --revision v1 --port 6000 --admin-port 9000 --device cpu --num-gpus 2
    --data-parallel-size 2 --executor mp --dtype bfloat16 --max-num-seqs 4 --step-execution
    --scheduling-policy lookahead --request-batch-max-wait-ms 5 --consumer-drop detach
    --streaming-output --max-queue 7 --no-warmup --startup-timeout-s 60 --drain-timeout-s 0
    --hang-timeout-s 12.5 --termination-log /tmp/t
"""


def test_the_model_alone_is_enough():
    assert parse_serve(MODEL) == StageConfig(model={"model": "/models/m"})


def test_every_field_of_every_group_is_a_flag():
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    flags = set(parser._option_string_actions)
    names = [name for group in GROUPS.values() for name in group.model_fields]
    assert {f"--{name.replace('_', '-')}" for name in names} <= flags
    assert len(names) == len(set(names)), "a field's name is unique among all groups"


def test_what_the_operator_renders_is_understood():
    config = parse_serve(shlex.split(RENDERED))
    assert (config.model.revision, config.model.dtype) == ("v1", "bfloat16")
    assert (config.parallel.num_gpus, config.parallel.data_parallel_size) == (2, 2)
    assert (config.engine.scheduling_policy, config.engine.consumer_drop) == ("lookahead", "detach")
    assert config.engine.request_batch_max_wait_ms == 5
    assert (config.engine.max_queue, config.engine.warmup) == (7, False)
    assert config.engine.step_execution
    assert config.engine.streaming_output
    assert (config.serving.port, config.serving.admin_port) == (6000, 9000)
    assert (config.timeouts.drain_timeout_s, config.timeouts.hang_timeout_s) == (0, 12.5)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ([], ["--model is required"]),
        ([*MODEL, "--num-gpus", "0"], ["--num-gpus '0'", "greater than or equal to 1"]),
        ([*MODEL, "--num-gpus", "two"], ["--num-gpus 'two'", "integer"]),
        ([*MODEL, "--max-num-seqs", "257"], ["--max-num-seqs '257'", "less than or equal to 256"]),
        ([*MODEL, "--max-queue", "0"], ["--max-queue '0'", "greater than or equal to 1"]),
        ([*MODEL, "--dtype", "int8"], ["--dtype 'int8'", "'float32', 'float16' or 'bfloat16'"]),
        ([*MODEL, "--device", "tpu"], ["--device 'tpu'", "'auto', 'cpu' or 'cuda'"]),
        ([*MODEL, "--executor", "ray"], ["--executor 'ray'", "'uni' or 'mp'"]),
        ([*MODEL, "--port", "65536"], ["--port '65536'", "less than or equal to 65535"]),
        ([*MODEL, "--port", "-1"], ["--port '-1'", "greater than or equal to 0"]),
        ([*MODEL, "--startup-timeout-s", "0"], ["--startup-timeout-s '0'", "greater than 0"]),
        ([*MODEL, "--hang-timeout-s", "nan"], ["--hang-timeout-s 'nan'"]),
        ([*MODEL, "--drain-timeout-s", "-1"], ["--drain-timeout-s '-1'", "equal to 0"]),
        ([*MODEL, "--bogus"], ["--bogus"]),
        ([*MODEL, "--num-gpu", "2"], ["--num-gpu"]),
        ([*MODEL, "stray"], ["stray"]),
        ([*MODEL, "--port"], ["--port", "expected one argument"]),
    ],
)
def test_a_wrong_flag_is_named_with_its_value_and_what_is_allowed(flags, words):
    with pytest.raises(ConfigError) as refused:
        parse_serve(flags)
    assert [word for word in words if word not in str(refused.value)] == []
    assert refused.value.exit_code == 64


def test_all_wrong_values_are_told_at_once():
    with pytest.raises(ConfigError) as refused:
        parse_serve([*MODEL, "--port", "x", "--num-gpus", "0", "--dtype", "int8"])
    assert all(flag in str(refused.value) for flag in ("--port", "--num-gpus", "--dtype"))


def test_configuration_does_not_change():
    config = parse_serve(MODEL)
    with pytest.raises(ValueError, match="frozen"):
        config.engine.max_queue = 3
