"""Arrays as payload frames: described in the header, sent as they lie in memory, never copied."""

import math
from typing import Any

import numpy as np

from diffusion_stage.errors import InvalidArgumentError
from diffusion_stage.wire.codec import Frame
from diffusion_stage.wire.messages import Tensor

Array = np.ndarray[Any, np.dtype[Any]]

KINDS = ("image", "video", "tensor")
DTYPES = (
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
)


MAX_DIMENSIONS = 16
MAX_LENGTH = 1 << 32
_DIMENSIONS = {"image": 4, "video": 5}
_CHANNELS = (1, 3, 4)


def describe(name: str, array: Array, *, kind: str = "tensor") -> Tensor:
    """The header entry of an array; `bfloat16` has no numpy type and comes as a `Tensor` only.

    Raises `InvalidArgumentError` for an array that the wire does not carry.
    """
    tensor = Tensor(name=name, kind=kind, dtype=array.dtype.name, shape=tuple(array.shape))
    _check_form(tensor)
    return tensor


def frame(array: Array) -> memoryview:
    """The array's bytes, without a copy when it is contiguous and little-endian."""
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    if not little.size:
        return memoryview(b"")
    return little.data.cast("B")


def size_bytes(tensor: Tensor) -> int:
    item_bytes = 2 if tensor.dtype == "bfloat16" else np.dtype(tensor.dtype).itemsize
    return math.prod(tensor.shape) * item_bytes


def check(tensor: Tensor, payload: Frame) -> None:
    """Raises `InvalidArgumentError` when the frame cannot be what the header says."""
    _check_form(tensor)
    expected, given = size_bytes(tensor), len(payload)
    if expected != given:
        raise _wrong(tensor, f"{given} bytes; {tensor.dtype} {tensor.shape} takes {expected}")


def array(tensor: Tensor, payload: Frame) -> Array:
    """A view of the frame, writable if that is; `bfloat16` comes as float32, in a copy.

    Raises `InvalidArgumentError` as `check`.
    """
    check(tensor, payload)
    if tensor.dtype == "bfloat16":
        bits = np.frombuffer(payload, dtype="<u2").astype(np.uint32) << 16
        return bits.view(np.float32).reshape(tensor.shape)
    dtype = np.dtype(tensor.dtype).newbyteorder("<")
    return np.frombuffer(payload, dtype=dtype).reshape(tensor.shape)


def _check_form(tensor: Tensor) -> None:
    if tensor.kind not in KINDS:
        raise _wrong(tensor, f"kind {tensor.kind!r}; allowed: {', '.join(KINDS)}")
    if tensor.dtype not in DTYPES:
        raise _wrong(tensor, f"dtype {tensor.dtype!r}; allowed: {', '.join(DTYPES)}")
    if len(tensor.shape) > MAX_DIMENSIONS:
        raise _wrong(tensor, f"{len(tensor.shape)} dimensions; at most {MAX_DIMENSIONS}")
    if any(not 0 <= length <= MAX_LENGTH for length in tensor.shape):
        raise _wrong(tensor, f"shape {tensor.shape}; lengths are 0 to {MAX_LENGTH}")
    if tensor.kind in _DIMENSIONS:
        _check_pixels(tensor)


def _check_pixels(tensor: Tensor) -> None:
    """Images and videos are shown as they are, so each of their numbers must make sense."""
    dimensions = _DIMENSIONS[tensor.kind]
    if tensor.dtype != "uint8" or len(tensor.shape) != dimensions or 0 in tensor.shape:
        raise _wrong(
            tensor,
            f"{tensor.dtype} {tensor.shape} is no {tensor.kind}; "
            f"it takes uint8 and {dimensions} dimensions, none of them 0",
        )
    if tensor.shape[-1] not in _CHANNELS:
        raise _wrong(tensor, f"{tensor.shape[-1]} channels; allowed: 1, 3, 4")


def _wrong(tensor: Tensor, what: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"{tensor.name}: {what}", field=tensor.name)
