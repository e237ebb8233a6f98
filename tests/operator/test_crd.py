from copy import deepcopy
from pathlib import Path

import pytest

from diffusion_operator import crd
from diffusion_operator.errors import ApiError

CHARTS = Path(__file__).parents[2] / "charts" / "diffusion-operator" / "crds"
OURS = crd.packaged()
NAME = OURS["metadata"]["name"]


def served(manifest, *, told="True"):
    """As the API server answers: with what it fills in by itself."""
    live = deepcopy(manifest)
    live["metadata"] |= {"uid": "u", "generation": 1}
    live["spec"]["conversion"] = {"strategy": "None"}
    live["status"] = {"conditions": [{"type": "Established", "status": told}]}
    return live


def spec_of(manifest):
    [version] = manifest["spec"]["versions"]
    return version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]


class FakeCluster:
    """Answers each `get` with the next of `found`."""

    def __init__(self, *found):
        self.found = list(found)
        self.applied = []

    async def get(self, api_version, kind, namespace, name):
        assert (api_version, kind, namespace, name) == (crd.API_VERSION, crd.KIND, None, NAME)
        answer = self.found.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def apply(self, manifest):
        self.applied.append(manifest)


def test_the_packaged_crd_is_the_charts():
    assert crd.packaged() == crd.yaml.safe_load((CHARTS / "diffusionstages.yaml").read_text())


def test_what_the_api_server_fills_in_is_no_difference():
    assert crd.difference(served(OURS), OURS) == ""


def test_a_field_of_ours_that_is_missing_is_named():
    old = served(OURS)
    del spec_of(old)["engine"]
    assert crd.difference(old, OURS) == "v1alpha1.spec.engine is missing"


def test_a_field_that_is_not_ours_is_named():
    new = served(OURS)
    spec_of(new)["colour"] = {"type": "string"}
    assert crd.difference(new, OURS) == "v1alpha1.spec.colour is not known here"


def test_a_bound_that_differs_is_told_with_both_values():
    old = served(OURS)
    spec_of(old)["replicas"]["maximum"] = 7
    assert crd.difference(old, OURS) == "v1alpha1.spec.replicas.maximum is 7 instead of 1000"


def test_a_list_that_differs_is_not_spelled_out():
    old = served(OURS)
    old["spec"]["names"]["shortNames"] = ["ds"]
    told = crd.difference(old, OURS)
    assert told == "spec.names.shortNames is another list"


def test_of_many_differences_the_first_are_told_and_the_rest_counted():
    old = served(OURS)
    spec_of(old).clear()
    told = crd.difference(old, OURS)
    assert told.count("is missing") == crd.TOLD
    assert told.endswith(f"and {len(spec_of(OURS)) - crd.TOLD} more")


async def test_there_is_no_trouble_with_the_crd_of_this_version():
    assert await crd.trouble(FakeCluster(served(OURS))) == ""


async def test_an_older_crd_is_told_with_its_name_and_the_command_that_helps():
    old = served(OURS)
    del spec_of(old)["engine"]
    told = await crd.trouble(FakeCluster(old))
    assert told.startswith(f"the CRD {NAME} is of another version than this operator")
    assert "v1alpha1.spec.engine is missing" in told
    assert "kubectl apply --server-side --force-conflicts" in told


async def test_a_cluster_without_the_crd_is_told_of():
    assert (await crd.trouble(FakeCluster(None))).startswith(f"there is no CRD {NAME}: helm show")


async def test_who_may_not_read_crds_is_told_nothing():
    assert await crd.trouble(FakeCluster(ApiError("forbidden", status=403))) == ""


async def test_a_server_that_does_not_answer_is_told_of():
    told = await crd.trouble(FakeCluster(ApiError("away", status=0)))
    assert told == f"cannot read the CRD {NAME}: away"


async def test_applying_waits_until_it_is_served_and_tells_what_was_different(monkeypatch):
    monkeypatch.setattr(crd, "POLL_S", 0)
    old = served(OURS)
    del spec_of(old)["engine"]
    cluster = FakeCluster(old, served(OURS, told="False"), served(OURS))
    assert await crd.apply(cluster) == "v1alpha1.spec.engine is missing"
    assert cluster.applied == [OURS]
    assert cluster.found == []


async def test_applying_the_same_again_tells_nothing():
    assert await crd.apply(FakeCluster(served(OURS), served(OURS))) == ""


async def test_the_first_one_is_applied_too():
    assert await crd.apply(FakeCluster(None, served(OURS))) == "there was none"


async def test_one_that_is_not_served_in_time_is_an_error(monkeypatch):
    monkeypatch.setattr(crd, "SERVED_WITHIN_S", 0)
    with pytest.raises(TimeoutError):
        await crd.apply(FakeCluster(None, served(OURS, told="False")))


@pytest.mark.parametrize("found", [None, {}, {"status": {"conditions": None}}])
def test_a_crd_that_was_just_made_is_not_served_yet(found):
    """The API server gives null for its conditions at first."""
    assert not crd.is_served(found)
