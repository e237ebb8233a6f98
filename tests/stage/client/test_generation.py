"""What a client gets back."""

import numpy as np
import pytest

from diffusion_stage.client import Generation
from diffusion_stage.client.generation import Part, arrays, whole
from diffusion_stage.errors import InternalError
from diffusion_stage.wire.messages import Tensor


def generation(**outputs):
    return Generation(
        request_id="a",
        outputs={name: array for name, (array, _) in outputs.items()},
        kinds={name: kind for name, (_, kind) in outputs.items()},
        seed=1,
        attempts=1,
        replica="flux-0",
    )


@pytest.mark.parametrize(("channels", "mode"), [(1, "L"), (3, "RGB"), (4, "RGBA")])
def test_pixels_become_pil_images_in_order(channels, mode):
    pixels = np.arange(2 * 3 * 5 * channels, dtype=np.uint8).reshape(2, 3, 5, channels)
    images = generation(images=(pixels, "image")).images
    assert [(image.size, image.mode) for image in images] == [((5, 3), mode)] * 2
    for image, expected in zip(images, pixels, strict=True):
        np.testing.assert_array_equal(np.asarray(image), expected.squeeze())


def test_outputs_that_are_no_images_make_none():
    assert generation(latents=(np.zeros((1, 4)), "tensor")).images == []


@pytest.mark.parametrize("is_writable", [True, False])
def test_an_output_becomes_a_torch_tensor_when_asked(is_writable):
    torch = pytest.importorskip("torch", reason="install diffusion-stage[stage] for torch")
    array = np.arange(3, dtype=np.float32)
    array.flags.writeable = is_writable
    found = generation(latents=(array, "tensor")).tensor()
    assert torch.equal(found, torch.tensor([0.0, 1.0, 2.0]))


def test_one_of_several_outputs_is_asked_for_by_name():
    pytest.importorskip("torch", reason="install diffusion-stage[stage] for torch")
    two = generation(a=(np.zeros(1), "tensor"), b=(np.ones(1), "tensor"))
    assert two.tensor("b").item() == 1
    with pytest.raises(KeyError, match="a, b"):
        two.tensor()


def test_a_result_that_does_not_fit_its_description_is_the_stages_fault():
    spec = Tensor(name="images", kind="image", dtype="uint8", shape=(1, 2, 2, 3))
    with pytest.raises(InternalError, match="flux-0 sent a malformed output: images: 1 bytes"):
        arrays([spec], [b"x"], sender="flux-0")


@pytest.mark.parametrize(("output", "axis"), [("image", 1), ("tensor", 1), ("latent", 2)])
def test_a_video_that_came_in_parts_is_whole(output, axis):
    frames = np.arange(2 * 6 * 6 * 3).reshape(2, 6, 6, 3)
    first, second, last = np.split(frames, [1, 3], axis=axis)
    parts = [Part(0, {"frames": first}), Part(1, {"frames": second, "other": second})]
    end = generation(frames=(last, "video"), seed=(last, "tensor"))
    joined = whole(end, parts, output=output)
    np.testing.assert_array_equal(joined.outputs["frames"], frames)
    np.testing.assert_array_equal(joined.outputs["seed"], last)
    assert whole(end, [], output=output) is end
