import pytest

from diffusion_operator.desired.model import location, model_claim, model_mounts, model_volumes
from tests.operator.builders import make_spec


def model(uri):
    return make_spec(model={"uri": uri}).model


@pytest.mark.parametrize(
    ("uri", "told"),
    [
        ("/models/flux", "/models/flux"),
        ("hf://org/flux", "hf://org/flux"),
        ("pvc://weights", "/model"),
        ("pvc://weights/", "/model"),
        ("pvc://weights/a/flux", "/model/a/flux"),
        ("oci://example.org/flux:1", "/model"),
    ],
)
def test_the_stage_is_told_a_folder_or_a_repository(uri, told):
    assert location(model(uri)) == told


def test_a_claim_is_mounted_so_that_nobody_writes_to_it():
    found = model("pvc://weights/a/flux")
    assert model_claim(found) == "weights"
    assert model_volumes(found) == [
        {"name": "model", "persistentVolumeClaim": {"claimName": "weights", "readOnly": True}}
    ]
    assert model_mounts(found) == [{"name": "model", "mountPath": "/model", "readOnly": True}]


def test_an_image_is_a_volume():
    volumes = model_volumes(model("oci://example.org/flux:1"))
    assert volumes == [{"name": "model", "image": {"reference": "example.org/flux:1"}}]


@pytest.mark.parametrize("uri", ["/models/flux", "hf://org/flux"])
def test_what_needs_no_volume_gets_none(uri):
    assert (model_claim(model(uri)), model_volumes(model(uri)), model_mounts(model(uri))) == (
        None,
        [],
        [],
    )
