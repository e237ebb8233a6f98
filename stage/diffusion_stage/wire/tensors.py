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


def describe(name: str, array: Array, *, kind: str = "tensor") -> Tensor:
    """The header entry of an array; `bfloat16` has no numpy type and comes as a `Tensor` only."""
    return Tensor(name=name, kind=kind, dtype=array.dtype.name, shape=tuple(array.shape))


def frame(array: Array) -> memoryview:
    """The array's bytes, without a copy when it is contiguous."""
    return memoryview(np.ascontiguousarray(array)).cast("B")


def size_bytes(tensor: Tensor) -> int:
    return math.prod(tensor.shape) * (2 if tensor.dtype == "bfloat16" else np.dtype(tensor.dtype).itemsize)


def check(tensor: Tensor, payload: Frame) -> None:
    """Raises `InvalidArgumentError` when the frame cannot be what the header says."""
    if tensor.kind not in KINDS:
        raise _wrong(tensor, f"kind {tensor.kind!r}; allowed: {', '.join(KINDS)}")
    if tensor.dtype not in DTYPES:
        raise _wrong(tensor, f"dtype {tensor.dtype!r}; allowed: {', '.join(DTYPES)}")
    if any(length < 0 for length in tensor.shape):
        raise _wrong(tensor, f"shape {tensor.shape}; lengths must not be negative")
    if size_bytes(tensor) != len(payload):
        raise _wrong(
            tensor, f"{len(payload)} bytes; {tensor.dtype} {tensor.shape} takes {size_bytes(tensor)}"
        )


def array(tensor: Tensor, payload: Frame) -> Array:
    """A read-only view of the frame; `bfloat16` comes as float32, in a copy.

    Raises `InvalidArgumentError` as `check`.
    """
    check(tensor, payload)
    if tensor.dtype == "bfloat16":
        bits = np.frombuffer(payload, dtype=np.uint16).astype(np.uint32) << 16
        return bits.view(np.float32).reshape(tensor.shape)
    return np.frombuffer(payload, dtype=tensor.dtype).reshape(tensor.shape)


def _wrong(tensor: Tensor, what: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"{tensor.name}: {what}", field=tensor.name)
