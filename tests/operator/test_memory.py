import pytest

from diffusion_operator.memory import Memory

MANIFEST = {"kind": "Service", "metadata": {"name": "flux"}, "spec": {"cpu": "1000m"}}
ANSWER = {
    "kind": "Service",
    "metadata": {"name": "flux", "uid": "u", "resourceVersion": "1", "generation": 1},
    "spec": {"cpu": "1", "clusterIP": "10.0.0.1"},
    "status": {},
}


def changed(**metadata):
    return ANSWER | {"metadata": ANSWER["metadata"] | metadata}


@pytest.fixture
def memory():
    memory = Memory()
    memory.remember(MANIFEST, ANSWER)
    return memory


def test_what_was_never_applied_is_not_settled():
    assert not Memory().is_settled(MANIFEST, ANSWER)


@pytest.mark.parametrize(
    "live",
    [
        ANSWER,
        changed(resourceVersion="9", managedFields=[{"manager": "x"}]),
        ANSWER | {"status": {"loadBalancer": {}}},
    ],
)
def test_the_servers_defaults_normal_forms_and_status_are_no_difference(memory, live):
    assert memory.is_settled(MANIFEST, live)


@pytest.mark.parametrize("live", [changed(labels={"a": "b"}), ANSWER | {"spec": {"cpu": "2"}}])
def test_an_edit_by_others_shows(memory, live):
    assert not memory.is_settled(MANIFEST, live)


def test_another_manifest_is_not_settled(memory):
    assert not memory.is_settled(MANIFEST | {"spec": {"cpu": "2"}}, ANSWER)
