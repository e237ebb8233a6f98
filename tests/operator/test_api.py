import pytest
from pydantic import ValidationError

from diffusion_operator.api import Parallelism, Stage
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


def test_a_suspended_stage_wants_no_pods():
    assert make_spec(replicas=3).pods == 3
    assert make_spec(replicas=3, suspend=True).pods == 0


def test_degrees_of_parallelism_multiply():
    assert Parallelism(data=2, tensor=3, cfg=2).devices == 12


def test_names_of_a_stage_follow_from_its_own():
    stage = make_stage()
    assert stage.headless == "flux-pods"
    assert stage.selector == {"diffusionstage.io/stage": "flux"}
