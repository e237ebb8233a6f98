"""From what a forward left to bytes that another process reads."""

import os

import diffusers
import numpy as np
import pytest
import torch

from diffusion_stage.errors import InternalError
from diffusion_stage.wire import tensors
from diffusion_stage.worker.model_output import ModelOutput
from diffusion_stage.worker.packing import INLINE_BYTES, materialize, pack
from diffusion_stage.worker.segments import SegmentPool, SegmentReader

CHANCE = np.random.default_rng(0)


@pytest.fixture
def pool():
    return SegmentPool()


def left(*, is_image=True, **values):
    return ModelOutput(values, is_image=is_image, forward_ms=12.5)


def read(message, descriptors, reader):
    """As the stage process does it: the arrays by name."""
    for descriptor in descriptors:
        reader.add(message.segment_id, descriptor)
    if message.segment_id is None:
        data = message.inline
    else:
        whole = reader.open(message.segment_id)
        sizes = [tensors.size_bytes(spec) for spec in message.specs]
        data = [whole[o : o + n] for o, n in zip(message.offsets, sizes, strict=True)]
    return {s.name: tensors.array(s, d) for s, d in zip(message.specs, data, strict=True)}


def handed_over(message, descriptors, reader):
    """The descriptors as they arrive over the channel, duplicates of the worker's."""
    return read(message, [os.dup(each) for each in descriptors], reader)


def test_pixels_are_the_same_as_from_diffusers():
    halves = (np.arange(256) + 0.5) / 255  # between two pixel values
    given = np.concatenate([halves, CHANCE.random(2 * 16 * 16 * 3 - 256), [0.0, 1.0]])
    given = np.clip(given[-2 * 16 * 16 * 3 :], 0, 1).astype(np.float32).reshape(2, 16, 16, 3)
    (spec,), (pixels,) = materialize(left(images=given))
    expected = diffusers.image_processor.VaeImageProcessor.numpy_to_pil(given)
    np.testing.assert_array_equal(pixels, np.stack([np.asarray(image) for image in expected]))
    assert (spec.name, spec.kind, spec.dtype, spec.shape) == (
        "images",
        "image",
        "uint8",
        (2, 16, 16, 3),
    )


def test_pixels_that_are_bytes_already_stay_as_they_are():
    given = CHANCE.integers(0, 256, (1, 4, 4, 3), dtype=np.uint8)
    _, (pixels,) = materialize(left(images=given))
    np.testing.assert_array_equal(pixels, given)


def test_five_dimensions_are_a_video():
    (spec,), _ = materialize(left(frames=CHANCE.random((1, 2, 4, 4, 3))))
    assert (spec.kind, spec.dtype, spec.shape) == ("video", "uint8", (1, 2, 4, 4, 3))


@pytest.mark.parametrize(
    ("shape", "is_image"), [((1, 16, 8, 8), True), ((1, 4, 4, 3), False), ((1, 100), True)]
)
def test_what_is_no_picture_stays_a_tensor(shape, is_image):
    given = CHANCE.random(shape).astype(np.float32)
    (spec,), (array,) = materialize(left(is_image=is_image, sample=given))
    assert (spec.kind, spec.dtype) == ("tensor", "float32")
    np.testing.assert_array_equal(array, given)


@pytest.mark.parametrize(
    "dtype",
    [
        torch.bool,
        torch.uint8,
        torch.int8,
        torch.int16,
        torch.int32,
        torch.int64,
        torch.float16,
        torch.bfloat16,
        torch.float32,
        torch.float64,
    ],
)
def test_tensors_of_every_type_of_the_wire_survive(dtype, pool):
    given = torch.arange(-3, 9).reshape(3, 4).to(dtype)
    packed = pack(left(is_image=False, latents=given), pool)
    read_back = read(*packed, SegmentReader())["latents"]
    assert packed[0].specs[0].dtype == str(dtype).removeprefix("torch.")
    np.testing.assert_array_equal(
        read_back, given.float().numpy() if dtype is torch.bfloat16 else given.numpy()
    )


def test_a_tensor_that_is_no_block_of_memory_is_copied_in_order(pool):
    given = torch.arange(12.0).reshape(3, 4).T
    packed = pack(left(is_image=False, latents=given), pool)
    np.testing.assert_array_equal(read(*packed, SegmentReader())["latents"], given.numpy())


@pytest.mark.parametrize(
    "value",
    [
        torch.zeros(2, dtype=torch.complex64),
        torch.zeros(2, dtype=torch.float8_e4m3fn),
        np.array([{"a": 1}, None], dtype=object),
        np.array(["text"]),
    ],
)
def test_numbers_that_the_wire_does_not_carry_are_refused_by_name(value, pool):
    with pytest.raises(InternalError, match=r"output strange is .*; the wire carries bool, uint8"):
        pack(left(is_image=False, strange=value), pool)


def test_a_small_output_travels_in_the_message(pool):
    given = CHANCE.random(INLINE_BYTES // 8)
    message, descriptors = pack(left(is_image=False, latents=given), pool)
    assert (message.segment_id, descriptors) == (None, [])
    np.testing.assert_array_equal(read(message, [], SegmentReader())["latents"], given)
    assert message.metrics["forward_ms"] == 12.5
    assert message.metrics["pack_ms"] >= 0


def test_a_large_output_travels_in_shared_memory(pool):
    given = {"a": CHANCE.random(INLINE_BYTES), "b": CHANCE.random((3, 5)), "c": np.zeros(0)}
    message, descriptors = pack(left(is_image=False, **given), pool)
    assert message.inline == ()
    found = handed_over(message, descriptors, SegmentReader())
    for name, value in given.items():
        np.testing.assert_array_equal(found[name], value)


def test_a_known_segment_is_filled_again_without_its_descriptor(pool):
    reader = SegmentReader()
    first, second = (left(is_image=False, x=CHANCE.random(INLINE_BYTES)) for _ in range(2))
    message, descriptors = pack(first, pool)
    handed_over(message, descriptors, reader)
    reader.release(message.segment_id)
    pool.take_back(message.segment_id)
    again, none = pack(second, pool)
    assert (again.segment_id, none) == (message.segment_id, [])
    np.testing.assert_array_equal(read(again, [], reader)["x"], second.tensors["x"])


def test_outputs_that_are_read_at_the_same_time_share_no_memory(pool):
    reader = SegmentReader()
    given = [CHANCE.random(INLINE_BYTES) for _ in range(2)]
    found = [
        handed_over(*pack(left(is_image=False, x=x), pool), reader)["x"]
        for n, x in enumerate(given)
    ]
    np.testing.assert_array_equal(found, given)
