"""What a pipeline's call accepts, read from its signature and its configuration."""

import inspect
import types
import typing
from typing import Any

import torch

from diffusion_stage.capabilities import RESERVED, Capabilities, Parameter

SIMPLE = {
    bool: "bool",
    int: "int",
    float: "float",
    str: "str",
    list: "list",
    tuple: "list",
    dict: "dict",
}
VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
DEFAULT_SIZE = 1024  # of pipelines with rotary positions that name no other
JSON_DEFAULTS = (bool, int, float, str)


def capabilities(pipeline: Any, batching: Any = None) -> Capabilities:
    """The pipeline's capabilities, without its weights. `batching`: what runs several requests."""
    call = inspect.signature(type(pipeline).__call__).parameters
    return Capabilities(
        pipeline=type(pipeline).__name__,
        parameters={
            name: _parameter(parameter)
            for name, parameter in call.items()
            if name not in RESERVED and parameter.kind not in VARIABLE
        },
        has_step_callback="callback_on_step_end" in call,
        has_output_type="output_type" in call,
        size_multiple=_size_multiple(pipeline),
        max_size=_max_size(pipeline),
        default_size=_default_size(pipeline),
        step_batch=getattr(batching, "step_batch", None),
        request_batch=getattr(batching, "request_batch", None),
        has_chunks=getattr(batching, "has_chunks", False),
    )


def _parameter(parameter: inspect.Parameter) -> Parameter:
    has_default = parameter.default is not inspect.Parameter.empty
    default = parameter.default if isinstance(parameter.default, JSON_DEFAULTS) else None
    return Parameter(types=_types(parameter.annotation), required=not has_default, default=default)


def _types(annotation: Any) -> tuple[str, ...]:
    """JSON type names that an annotation allows; () when it says nothing, or something unknown."""
    names: list[str] = []
    for option in _options(annotation):
        origin = typing.get_origin(option) or option
        if origin in SIMPLE:
            names.append(SIMPLE[origin])
        elif isinstance(origin, type) and issubclass(origin, torch.Tensor):
            names.append("tensor")
        elif origin is not type(None):
            return ()
    return tuple(dict.fromkeys(names))


def _options(annotation: Any) -> tuple[Any, ...]:
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return typing.get_args(annotation)
    return (annotation,)


def _size_multiple(pipeline: Any) -> int:
    """The pixels per latent token: what the pipeline's own image processor resizes to."""
    for name in ("image_processor", "video_processor"):
        processor = getattr(pipeline, name, None)
        if processor is not None:
            return int(processor.config.vae_scale_factor)
    return int(getattr(pipeline, "vae_scale_factor", 1))


def _max_size(pipeline: Any) -> int | None:
    """The largest height and width, where a table of rotary positions sets one."""
    denoiser = getattr(pipeline, "transformer", None)
    lengths = getattr(getattr(denoiser, "config", None), "axes_lens", None)
    if lengths is None:
        return None
    return int(min(lengths[1:])) * _size_multiple(pipeline)


def _default_size(pipeline: Any) -> int | None:
    """The height and width where none is given; None: the pipeline's secret."""
    denoiser = getattr(pipeline, "transformer", None)
    if getattr(getattr(denoiser, "config", None), "axes_lens", None) is None:
        return None
    samples = getattr(pipeline, "default_sample_size", None)
    return DEFAULT_SIZE if samples is None else int(samples * pipeline.vae_scale_factor)
