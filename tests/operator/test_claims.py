import pytest

from diffusion_operator.claims import claim_names, claim_warning
from tests.operator.builders import make_stage

CACHE = {"persistentVolumeClaim": {"claimName": "cache"}}


def stage(uri="pvc://weights/flux", **spec):
    return make_stage(model={"uri": uri, "cache": CACHE}, **spec)


def claim(*modes):
    return {"spec": {"accessModes": list(modes)}}


def reason(*modes, replicas=2):
    found = claim_warning(stage(replicas=replicas), {"weights": claim(*modes)})
    return found and found.reason


def test_shared_claims_are_those_of_the_model_and_of_the_cache_each_once():
    assert claim_names(stage()) == ["weights", "cache"]
    assert claim_names(stage("pvc://cache")) == ["cache"]
    assert claim_names(make_stage()) == []


def test_a_claim_that_is_not_there_is_named():
    found = claim_warning(stage(replicas=1), {"weights": None})
    assert found.reason == "ModelClaimMissing"
    assert "weights" in found.message


@pytest.mark.parametrize("modes", [("ReadWriteOnce",), ("ReadWriteOncePod",)])
def test_a_claim_for_one_is_a_conflict_for_two(modes):
    assert reason(*modes) == "ModelCacheConflict"
    assert reason(*modes, replicas=1) is None


@pytest.mark.parametrize("modes", [("ReadOnlyMany",), ("ReadWriteOnce", "ReadWriteMany"), ()])
def test_a_claim_for_many_is_none(modes):
    assert reason(*modes) is None
