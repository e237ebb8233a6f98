"""Which requests may share a batch."""

import numpy as np
import pytest

from diffusion_stage.capabilities import BatchFields, Capabilities, Parameter
from diffusion_stage.request import InputTensor
from diffusion_stage.scheduler.compatibility import BatchRule
from diffusion_stage.wire.tensors import describe, frame
from tests.stage.builders import make_request

FIELDS = BatchFields(key=("height", "kwargs"), free=("prompt", "latents"))
CAPABILITIES = Capabilities(
    pipeline="P",
    parameters={"height": Parameter(default=64), "other": Parameter()},
    has_step_callback=True,
    has_output_type=True,
    step_batch=FIELDS,
    request_batch=FIELDS,
)
LATENTS = np.zeros((1, 2), np.float32)


def tensor(name):
    return InputTensor(describe(name, LATENTS), bytes(frame(LATENTS)))


def key(rule, request_id="a", **given):
    return rule.key(make_request(request_id, **given))


@pytest.fixture
def rule():
    return BatchRule.for_steps(CAPABILITIES)


def test_requests_that_agree_in_the_key_may_share_a_batch(rule):
    one = key(rule, "a", params={"prompt": "x", "kwargs": {"a": 1, "b": 2}})
    other = key(rule, "b", params={"prompt": "y", "kwargs": {"b": 2, "a": 1}}, seed=9)
    assert one == other


def test_a_missing_parameter_counts_as_its_default(rule):
    assert key(rule, params={}) == key(rule, params={"height": 64})
    assert key(rule, params={}) != key(rule, params={"height": 32})


def test_values_of_another_type_are_other_values(rule):
    assert key(rule, params={"height": 1}) != key(rule, params={"height": True})


def test_a_parameter_that_nobody_declared_keeps_its_request_alone(rule):
    """A12: default-deny, also for two requests that agree in it."""
    given = {"height": 64, "other": 1}
    assert key(rule, "a", params=given) != key(rule, "b", params=given)
    assert key(rule, "a", params=given) == key(rule, "a", params=given)


def test_tensors_may_differ_where_that_is_declared(rule):
    assert key(rule, inputs=(tensor("latents"),)) == key(rule, "b")
    assert key(rule, inputs=(tensor("other"),)) != key(rule, "b", inputs=(tensor("other"),))


def test_one_call_gives_one_kind_of_output_and_takes_the_same_tensors(rule):
    """7.3/27: requests with other numbers of inputs are never fused."""
    call = BatchRule.for_calls(CAPABILITIES)
    assert key(call, output="image") != key(call, output="latent")
    assert key(rule, output="image") == key(rule, output="latent")
    assert key(call, inputs=(tensor("latents"),)) != key(call)


def test_there_is_no_rule_where_nothing_is_declared():
    bare = Capabilities(pipeline="P", parameters={}, has_step_callback=False, has_output_type=False)
    assert BatchRule.for_steps(bare) is BatchRule.for_calls(bare) is None
