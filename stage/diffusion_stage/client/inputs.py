"""Parameters of a generation: plain values for the header, images and arrays as payload frames."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import msgspec
import numpy as np
from PIL import Image

from diffusion_stage.errors import InvalidArgumentError
from diffusion_stage.wire.codec import Frame
from diffusion_stage.wire.messages import Tensor
from diffusion_stage.wire.sockets import MAX_FRAME_BYTES
from diffusion_stage.wire.tensors import Array, describe, frame

_MODES = {"L": 1, "RGB": 3, "RGBA": 4}
_UNENCODABLE = (TypeError, ValueError, OverflowError, RecursionError)


@runtime_checkable
class _ArrayLike(Protocol):
    """numpy's protocol, which torch's tensors speak too."""

    def __array__(self) -> Array: ...


@dataclass(frozen=True, slots=True)
class Inputs:
    """`params` by name, and the described payload."""

    params: dict[str, Any]
    tensors: list[Tensor]
    payload: tuple[Frame, ...]


def split(given: Mapping[str, Any]) -> Inputs:
    """Raises `InvalidArgumentError` naming the parameter that the wire does not carry.

    PIL images become `image` frames (other modes than L, RGB and RGBA as RGB), a list of them one
    frame; numpy arrays, and tensors that numpy can read, become `tensor` frames.
    """
    params: dict[str, Any] = {}
    arrays: dict[str, tuple[Array, str]] = {}
    for name, value in given.items():
        if isinstance(value, Image.Image):
            arrays[name] = _images(name, [value]), "image"
        elif _is_image_list(value):
            arrays[name] = _images(name, value), "image"
        elif isinstance(value, _ArrayLike) and not isinstance(value, np.generic):
            arrays[name] = _numbers(name, value), "tensor"
        else:
            params[name] = plain(name, value)
    return Inputs(
        params,
        [describe(name, array, kind=kind) for name, (array, kind) in arrays.items()],
        tuple(_frame(name, array) for name, (array, _) in arrays.items()),
    )


def plain(name: str, value: Any) -> Any:
    """The value as it will arrive, tuples as lists.

    Raises `InvalidArgumentError` for what the wire does not carry.
    """
    native = value.item() if isinstance(value, np.generic) else value
    try:
        return msgspec.msgpack.decode(msgspec.msgpack.encode(native))
    except _UNENCODABLE as error:
        raise InvalidArgumentError(
            f"{name} is {value!r:.200}, which the wire does not carry: {error}", field=name
        ) from None


def _is_image_list(value: object) -> bool:
    return (
        isinstance(value, list | tuple)
        and len(value) > 0
        and all(isinstance(each, Image.Image) for each in value)
    )


def _images(name: str, images: list[Image.Image]) -> Array:
    forms = {(image.size, image.mode) for image in images}
    if len(forms) > 1:
        raise InvalidArgumentError(
            f"{name} has images of {len(forms)} sizes or modes; allowed: one for all", field=name
        )
    return np.stack([_pixels(image) for image in images])


def _pixels(image: Image.Image) -> Array:
    known = image if image.mode in _MODES else image.convert("RGB")
    return np.asarray(known).reshape(known.height, known.width, _MODES[known.mode])


def _numbers(name: str, value: _ArrayLike) -> Array:
    try:
        return np.asarray(value)
    except _UNENCODABLE as error:  # on a GPU, or of a type that numpy does not have
        raise InvalidArgumentError(f"{name} is no numpy array: {error}", field=name) from None


def _frame(name: str, array: Array) -> Frame:
    if array.nbytes > MAX_FRAME_BYTES:
        raise InvalidArgumentError(
            f"{name} has {array.nbytes} bytes; at most {MAX_FRAME_BYTES} are allowed", field=name
        )
    return frame(array)
