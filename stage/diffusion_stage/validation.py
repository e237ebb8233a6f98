"""From a `Submit` to a request: each parameter known, of its type and in its range, or refused."""

import math
import secrets
from collections.abc import Sequence
from typing import Any

from diffusion_stage.capabilities import Capabilities, Parameter
from diffusion_stage.errors import InvalidArgumentError
from diffusion_stage.request import DiffusionRequest, InputTensor
from diffusion_stage.wire import tensors
from diffusion_stage.wire.codec import Frame
from diffusion_stage.wire.messages import Submit

OUTPUTS = ("image", "tensor", "latent")
MAX_SEED = 2**63 - 1
MAX_ID_LENGTH = 128
MAX_NAME_LENGTH = 128
COUNTS = {
    "num_inference_steps": 10_000,
    "num_images_per_prompt": 64,
    "num_videos_per_prompt": 64,
    "num_frames": 10_000,
}
"""Upper bounds of whole numbers that start at 1."""
SIZES = ("height", "width")
MAX_SIZE = 16_384
PROMPTS = ("prompt", "prompt_embeds")
JSON_TYPES: dict[type, str] = {
    bool: "bool",
    int: "int",
    float: "float",
    str: "str",
    list: "list",
    dict: "dict",
}


def validate(
    submit: Submit, payload: Sequence[Frame], capabilities: Capabilities, now: float
) -> DiffusionRequest:
    """The request that `submit` asks for. `now` is the monotonic clock.

    Raises `InvalidArgumentError` that names the parameter, its value and what is allowed.
    """
    _check_envelope(submit)
    for spec, data in zip(submit.inputs, payload, strict=True):
        tensors.check(spec, data)
    _check_names(submit, capabilities)
    for name, value in submit.params.items():
        _check_value(name, value, capabilities)
    _check_required(submit, capabilities)
    return DiffusionRequest(
        request_id=submit.request_id,
        attempt=submit.attempt,
        params={name: value for name, value in submit.params.items() if value is not None},
        seed=secrets.randbelow(2**32) if submit.seed is None else submit.seed,
        output=submit.output,
        inputs=tuple(
            InputTensor(spec, bytes(data))
            for spec, data in zip(submit.inputs, payload, strict=True)
        ),
        priority=submit.priority,
        arrived_at=now,
        deadline_at=None if submit.deadline_s is None else now + submit.deadline_s,
    )


def _check_envelope(submit: Submit) -> None:
    if not 0 < len(submit.request_id) <= MAX_ID_LENGTH:
        raise refuse("request_id", submit.request_id, f"1 to {MAX_ID_LENGTH} characters")
    if submit.output not in OUTPUTS:
        raise refuse("output", submit.output, ", ".join(OUTPUTS))
    if submit.seed is not None and not 0 <= submit.seed <= MAX_SEED:
        raise refuse("seed", submit.seed, f"0 to {MAX_SEED}")
    if submit.deadline_s is not None and not 0 < submit.deadline_s < math.inf:
        raise refuse("deadline_s", submit.deadline_s, "a positive number of seconds")


def _check_names(submit: Submit, capabilities: Capabilities) -> None:
    inputs = [spec.name for spec in submit.inputs]
    for name in (*submit.params, *inputs):
        if name not in capabilities.parameters:
            value = submit.params.get(name, "a tensor")
            allowed = ", ".join(sorted(capabilities.parameters))
            raise refuse(name, value, f"a parameter of {capabilities.pipeline}: {allowed}")
    for name in inputs:
        if name in submit.params or inputs.count(name) > 1:
            raise refuse(name, "given twice", "one value")


def _check_value(name: str, value: Any, capabilities: Capabilities) -> None:
    if value is None:
        return
    parameter = capabilities.parameters[name]
    if not _has_type(value, parameter):
        raise refuse(name, value, f"of type {' or '.join(parameter.types)}")
    if isinstance(value, float) and not math.isfinite(value):
        raise refuse(name, value, "a finite number")
    if name == "prompt" and not _is_prompt(value):
        raise refuse(name, value, "a string or a list of strings")
    if name in COUNTS or name in SIZES:
        _check_whole(name, value, capabilities)


def _is_prompt(value: Any) -> bool:
    texts = value if isinstance(value, list) else [value]
    return bool(texts) and all(isinstance(text, str) for text in texts)


def _check_whole(name: str, value: Any, capabilities: Capabilities) -> None:
    if type(value) is not int:  # a pipeline may name no type, and a bool is an int to Python
        raise refuse(name, value, "a whole number")
    if name in COUNTS and not 1 <= value <= COUNTS[name]:
        raise refuse(name, value, f"1 to {COUNTS[name]}")
    if name in SIZES:
        multiple, largest = capabilities.size_multiple, capabilities.max_size or MAX_SIZE
        if not 0 < value <= largest or value % multiple:
            raise refuse(name, value, f"a multiple of {multiple} from {multiple} to {largest}")


def _has_type(value: Any, parameter: Parameter) -> bool:
    kind = JSON_TYPES.get(type(value), "")
    return (
        not parameter.types
        or kind in parameter.types
        or (kind == "int" and "float" in parameter.types)
    )


def _check_required(submit: Submit, capabilities: Capabilities) -> None:
    given = {name for name, value in submit.params.items() if value is not None}
    given |= {spec.name for spec in submit.inputs}
    if "prompt" in capabilities.parameters and given.isdisjoint(PROMPTS):
        raise refuse("prompt", None, "a string, a list of strings, or prompt_embeds")
    bound, default = capabilities.max_size, capabilities.default_size
    if bound is not None and default is not None and default > bound:
        for name in SIZES:
            if name in capabilities.parameters and name not in given:
                raise refuse(name, None, f"at most {bound}; the pipeline's default is {default}")
    for name, parameter in capabilities.parameters.items():
        if parameter.required and name not in given:
            raise refuse(name, None, f"a value: {capabilities.pipeline} needs it")


def refuse(name: str, value: Any, allowed: str) -> InvalidArgumentError:
    """The refusal; names and values are the sender's, so their length is bounded here."""
    shown = "missing" if value is None else f"is {value!r:.200}"
    short = name[:MAX_NAME_LENGTH]
    return InvalidArgumentError(f"{short} {shown}; allowed: {allowed}", field=short)
