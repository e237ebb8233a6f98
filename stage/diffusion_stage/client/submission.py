"""A generation request as it goes out: made once, the same for every attempt."""

import secrets
import uuid
from dataclasses import dataclass
from typing import Any

from diffusion_stage.client.inputs import split
from diffusion_stage.wire.codec import Frame
from diffusion_stage.wire.messages import Submit


@dataclass(frozen=True, slots=True)
class Submission:
    """`submit` is the first attempt's."""

    submit: Submit
    payload: tuple[Frame, ...]


def prepare(
    prompt: str | list[str] | None,
    *,
    seed: int | None = None,
    output: str = "image",
    deadline_s: float | None = None,
    priority: int = 0,
    request_id: str | None = None,
    **params: Any,
) -> Submission:
    """Raises `InvalidArgumentError` naming the parameter that the wire does not carry."""
    given = split(params if prompt is None else {"prompt": prompt, **params})
    submit = Submit(
        request_id=uuid.uuid4().hex if request_id is None else request_id,
        params=given.params,
        inputs=given.tensors,
        output=output,
        # Chosen here and not by the stage, so that every attempt gives the same picture.
        seed=secrets.randbelow(2**32) if seed is None else seed,
        priority=priority,
        deadline_s=deadline_s,
    )
    return Submission(submit, given.payload)
