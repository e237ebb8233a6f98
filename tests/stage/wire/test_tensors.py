"""Arrays as payload frames."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from diffusion_stage.errors import InvalidArgumentError
from diffusion_stage.wire.messages import Tensor
from diffusion_stage.wire.tensors import DTYPES, KINDS, array, check, describe, frame, size_bytes

dtypes = st.sampled_from([name for name in DTYPES if name != "bfloat16"])
any_array = dtypes.flatmap(
    lambda name: arrays.arrays(
        np.dtype(name), arrays.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=4)
    )
)
length = st.integers(-3, 5) | st.sampled_from([2**32, 2**62, 2**63 - 1])
any_spec = st.builds(
    Tensor,
    name=st.just("x"),
    kind=st.sampled_from([*KINDS, "sound"]),
    dtype=st.sampled_from([*DTYPES, "object", "complex64", ">f4", "nonsense"]),
    shape=st.lists(length, max_size=20).map(tuple),
)


def shape_or_fault(spec, payload):
    try:
        return array(spec, payload).shape
    except InvalidArgumentError as error:
        return error.field


@given(any_array)
def test_an_array_comes_back_equal(given_array):
    back = array(describe("x", given_array), frame(given_array))
    np.testing.assert_array_equal(back, given_array, strict=True)


@given(any_spec, st.binary(max_size=64))
def test_an_arbitrary_description_raises_invalid_argument_and_nothing_else(spec, payload):
    assert shape_or_fault(spec, payload) in {spec.shape, "x"}


def test_a_contiguous_array_is_not_copied():
    pixels = np.zeros((2, 3), np.float32)
    assert np.shares_memory(np.frombuffer(frame(pixels), np.float32), pixels)


@pytest.mark.parametrize(
    "odd",
    [
        np.arange(6, dtype=">f4"),
        np.arange(12, dtype=np.int32).reshape(3, 4).T,
        np.arange(12, dtype=np.uint8)[::2],
    ],
    ids=["big-endian", "transposed", "strided"],
)
def test_memory_order_does_not_travel(odd):
    np.testing.assert_array_equal(array(describe("x", odd), frame(odd)), odd)


def test_bfloat16_comes_as_float32():
    halves = np.array([1.0, -2.5, 0.15625], np.float32)
    bits = (halves.view(np.uint32) >> 16).astype(np.uint16)
    spec = Tensor(name="x", kind="tensor", dtype="bfloat16", shape=(3,))
    np.testing.assert_array_equal(array(spec, frame(bits)), halves)


@pytest.mark.parametrize("wrong", [np.zeros(1, complex), np.array([None]), np.array(["a"])])
def test_what_is_no_number_is_not_described(wrong):
    with pytest.raises(InvalidArgumentError, match=r"x: dtype .*allowed: bool, uint8"):
        describe("x", wrong)


@pytest.mark.parametrize(
    ("kind", "shape", "why"),
    [
        ("image", (1, 8, 8), "4 dimensions"),
        ("image", (1, 8, 8, 2), "2 channels; allowed: 1, 3, 4"),
        ("image", (0, 8, 8, 3), "none of them 0"),
        ("video", (1, 8, 8, 3), "5 dimensions"),
        ("sound", (8,), "kind 'sound'; allowed: image, video, tensor"),
        ("tensor", (1,) * 17, "17 dimensions; at most 16"),
    ],
)
def test_a_description_that_makes_no_sense_is_refused(kind, shape, why):
    spec = Tensor(name="x", kind=kind, dtype="uint8", shape=shape)
    with pytest.raises(InvalidArgumentError, match=why):
        check(spec, bytes(size_bytes(spec)))


def test_a_frame_of_another_length_is_refused_with_both_lengths():
    spec = Tensor(name="x", kind="tensor", dtype="float32", shape=(2, 2))
    with pytest.raises(InvalidArgumentError, match=r"3 bytes; float32 \(2, 2\) takes 16"):
        check(spec, b"abc")
