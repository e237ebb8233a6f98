"""From what a forward left on the device to bytes in shared memory, on a thread of its own."""

import time
from typing import Any

import numpy as np
import torch

from diffusion_stage.errors import InternalError
from diffusion_stage.wire import tensors
from diffusion_stage.wire.messages import Tensor
from diffusion_stage.worker.messages import Packed
from diffusion_stage.worker.model_output import ModelOutput
from diffusion_stage.worker.segments import SegmentPool, layout

INLINE_BYTES = 64 << 10
PICTURES = {4: "image", 5: "video"}
CHANNELS = (1, 3, 4)


def materialize(output: ModelOutput) -> tuple[tuple[Tensor, ...], list[np.ndarray[Any, Any]]]:
    """The output's arrays on the host, described.

    Pixels in [0, 1] become uint8 as diffusers' `numpy_to_pil` does it, so that an image is the same
    as from `pipe()` with `output_type="pil"`. Raises `InternalError` for numbers that the wire does
    not carry.
    """
    specs, arrays = [], []
    for name, value in output.tensors.items():
        array, dtype = _on_host(name, value)
        kind = "tensor"
        if output.is_image and array.ndim in PICTURES and array.shape[-1] in CHANNELS:
            kind = PICTURES[array.ndim]
            array, dtype = _pixels(array), "uint8"
        specs.append(Tensor(name=name, kind=kind, dtype=dtype, shape=tuple(array.shape)))
        arrays.append(array)
    return tuple(specs), arrays


def _on_host(name: str, value: Any) -> tuple[np.ndarray[Any, Any], str]:
    is_array = isinstance(value, np.ndarray)
    dtype = value.dtype.name if is_array else str(value.dtype).removeprefix("torch.")
    if dtype not in tensors.DTYPES:
        allowed = ", ".join(tensors.DTYPES)
        raise InternalError(f"output {name} is {dtype}; the wire carries {allowed}")
    if is_array:
        return np.ascontiguousarray(value), dtype
    host = value.detach().cpu().contiguous()
    if host.dtype is torch.bfloat16:  # numpy has no such type: its bits travel
        host = host.view(torch.uint16)
    return host.numpy(), dtype


def _pixels(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if array.dtype == np.uint8:
        return array
    return (array * 255).round().astype("uint8")


def pack(output: ModelOutput, pool: SegmentPool) -> tuple[Packed, list[int]]:
    """What hands the output over in a message, and the descriptors to send with that.

    Small outputs travel in the message. Raises `OSError` when there is no memory for a segment.
    """
    start = time.perf_counter()
    specs, arrays = materialize(output)
    sizes = [array.nbytes for array in arrays]
    inline: tuple[bytes, ...] = ()
    offsets: tuple[int, ...] = ()
    segment_id: int | None = None
    descriptors: list[int] = []
    if sum(sizes) <= INLINE_BYTES:
        inline = tuple(array.tobytes() for array in arrays)
    else:
        offsets, total = layout(sizes)
        segment = pool.lend(total)
        segment_id = segment.segment_id
        for array, offset in zip(arrays, offsets, strict=True):
            view = np.frombuffer(segment.memory, array.dtype, array.size, offset)
            np.copyto(view.reshape(array.shape), array)
        if not segment.is_known:
            descriptors, segment.is_known = [segment.descriptor], True
    packed = Packed(
        specs=specs,
        inline=inline,
        segment_id=segment_id,
        offsets=offsets,
        metrics={
            "forward_ms": output.forward_ms,
            "pack_ms": 1000 * (time.perf_counter() - start),
        },
        dropped=pool.take_dropped(),
    )
    return packed, descriptors
