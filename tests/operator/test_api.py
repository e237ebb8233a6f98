import pytest
from pydantic import ValidationError

from diffusion_operator.api import Stage
from tests.operator.builders import make_spec, make_stage

RAW = {
    "metadata": {"namespace": "ns", "name": "flux", "uid": "u", "generation": 7},
    "spec": {"image": "i", "model": {"uri": "/m"}},
}


def test_a_stage_is_parsed_from_what_the_api_server_sends():
    stage = Stage.parse(RAW)
    assert (stage.namespace, stage.name, stage.uid, stage.generation) == ("ns", "flux", "u", 7)
    assert stage.spec.accelerator.count == 1


def test_a_field_of_a_later_version_is_named():
    with pytest.raises(ValidationError, match=r"engine\.sideways"):
        make_spec(engine={"sideways": True})


def test_no_pod_runs_where_the_stage_is_suspended_or_held():
    assert make_stage(replicas=3).pods == 3
    assert make_stage(replicas=3, suspend=True).pods == 0
    assert make_stage(replicas=3, held=True).pods == 0


@pytest.mark.parametrize(("generation", "is_held"), [(7, True), (6, False)])
def test_a_hold_ends_with_the_generation_that_it_was_set_for(generation, is_held):
    raw = RAW | {"status": {"hold": {"generation": generation, "since": "t"}}}
    assert Stage.parse(raw).is_held is is_held
