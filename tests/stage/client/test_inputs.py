"""Parameters as plain values and payload frames."""

import numpy as np
import pytest
from PIL import Image

from diffusion_stage.client import inputs
from diffusion_stage.client.inputs import split
from diffusion_stage.errors import InvalidArgumentError
from diffusion_stage.wire.tensors import array


def only_array(given):
    found = split(given)
    assert found.params == {}
    (spec,), (frame,) = found.tensors, found.payload
    return spec, array(spec, frame)


def test_plain_values_stay_in_the_header():
    given = {"height": 64, "prompt": "a", "scale": 1.5, "flags": [True, None], "extra": {"a": b"b"}}
    assert split(given).params == given
    assert split(given).payload == ()


def test_values_are_as_they_will_arrive():
    given = {"size": (1, 2), "steps": np.int64(3), "scale": np.float32(0.5)}
    assert split(given).params == {"size": [1, 2], "steps": 3, "scale": 0.5}


@pytest.mark.parametrize(("mode", "channels"), [("L", 1), ("RGB", 3), ("RGBA", 4), ("CMYK", 3)])
def test_an_image_travels_as_pixels(mode, channels):
    image = Image.new(mode, (5, 3), 7 if mode == "L" else (7,) * len(mode))
    spec, pixels = only_array({"image": image})
    assert (spec.name, spec.kind, spec.shape) == ("image", "image", (1, 3, 5, channels))
    rgb = image if mode == "L" else image.convert(mode if channels == 4 else "RGB")
    np.testing.assert_array_equal(pixels[0].squeeze(), np.asarray(rgb))


def test_images_of_one_form_travel_together():
    spec, _ = only_array({"image": [Image.new("RGB", (5, 3)), Image.new("RGB", (5, 3))]})
    assert spec.shape == (2, 3, 5, 3)


def test_images_of_different_forms_are_refused():
    images = [Image.new("RGB", (5, 3)), Image.new("RGB", (3, 5))]
    with pytest.raises(InvalidArgumentError, match="image has images of 2 sizes or modes"):
        split({"image": images})


def test_an_array_travels_as_a_tensor():
    latents = np.arange(6, dtype=np.float16).reshape(1, 2, 3)
    spec, back = only_array({"latents": latents})
    assert (spec.kind, spec.dtype) == ("tensor", "float16")
    np.testing.assert_array_equal(back, latents)


def test_whatever_numpy_can_read_is_an_array():
    class Tensor:
        def __array__(self, dtype=None, copy=None):
            return np.ones(2, np.float32)

    spec, _ = only_array({"latents": Tensor()})
    assert spec.shape == (2,)


def test_a_tensor_that_numpy_cannot_read_is_refused_by_name():
    class OnGpu:
        def __array__(self, dtype=None, copy=None):
            raise TypeError("can't convert cuda:0 device type tensor to numpy")

    with pytest.raises(InvalidArgumentError, match="latents is no numpy array: can't convert"):
        split({"latents": OnGpu()})


class Opaque:
    """Nothing that the wire knows."""


@pytest.mark.parametrize("value", [Opaque(), 2**70, "\ud800", [Opaque()], {1: Opaque()}])
def test_what_the_wire_does_not_carry_is_refused_by_name(value):
    with pytest.raises(InvalidArgumentError, match=r"strength is .*the wire does not carry") as e:
        split({"strength": value})
    assert e.value.field == "strength"


def test_a_value_within_itself_is_refused():
    endless = []
    endless.append(endless)
    with pytest.raises(InvalidArgumentError, match="endless"):
        split({"endless": endless})


def test_an_array_that_no_stage_takes_is_refused(monkeypatch):
    monkeypatch.setattr(inputs, "MAX_FRAME_BYTES", 100)
    with pytest.raises(InvalidArgumentError, match="latents has 404 bytes; at most 100"):
        split({"latents": np.zeros(101, np.float32)})
