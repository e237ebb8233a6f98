import pytest

from diffusion_operator.desired.storage import cache_claim, download_path, mounts, volumes
from tests.operator.builders import make_stage


def cached(**source):
    return make_stage(model={"uri": "/m", "cache": source})


def volume(stage, name):
    return next(one for one in volumes(stage) if one["name"] == name)


def mount(stage, name):
    return next(one for one in mounts(stage) if one["name"] == name)


def test_a_pod_may_write_to_tmp_and_to_shared_memory_of_the_size_asked_for():
    stage = make_stage(sharedMemory="2Gi")
    assert volume(stage, "tmp") == {"name": "tmp", "emptyDir": {}}
    assert volume(stage, "shm")["emptyDir"] == {"medium": "Memory", "sizeLimit": "2Gi"}
    assert mount(stage, "shm")["mountPath"] == "/dev/shm"


@pytest.mark.parametrize("size", [0, "0", "0Gi", "0.0"])
def test_no_shared_memory_is_mounted_for_a_size_of_zero(size):
    stage = make_stage(sharedMemory=size)
    assert [one["name"] for one in volumes(stage)] == ["tmp"]
    assert [one["name"] for one in mounts(stage)] == ["tmp"]


def test_without_a_cache_downloads_go_to_tmp():
    assert download_path(make_stage()) == "/tmp/hf"


@pytest.mark.parametrize(
    ("source", "made", "access"),
    [
        ({"emptyDir": {}}, {"emptyDir": {}}, {}),
        ({"emptyDir": {"sizeLimit": "9Gi"}}, {"emptyDir": {"sizeLimit": "9Gi"}}, {}),
        (
            {"persistentVolumeClaim": {"claimName": "weights", "subPath": "a"}},
            {"persistentVolumeClaim": {"claimName": "weights"}},
            {"readOnly": True, "subPath": "a"},
        ),
        (
            {"persistentVolumeClaim": {"claimName": "weights", "readOnly": False}},
            {"persistentVolumeClaim": {"claimName": "weights"}},
            {},
        ),
        (
            {"image": {"reference": "weights:1"}},
            {"image": {"reference": "weights:1", "pullPolicy": "IfNotPresent"}},
            {"readOnly": True},
        ),
    ],
)
def test_each_kind_of_cache_is_mounted_where_downloads_go(source, made, access):
    stage = cached(**source)
    assert volume(stage, "cache") == {"name": "cache", **made}
    assert mount(stage, "cache") == {"name": "cache", "mountPath": "/cache", **access}
    assert download_path(stage) == "/cache/hf"


def test_a_claim_template_brings_its_own_volume():
    stage = cached(volumeClaimTemplate={"size": "9Gi", "storageClassName": "fast"})
    assert "cache" not in [one["name"] for one in volumes(stage)]
    assert mount(stage, "cache")["mountPath"] == "/cache"
    claim = cache_claim(stage.spec.model.cache.volume_claim_template)
    assert claim["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "9Gi"}},
        "storageClassName": "fast",
    }
