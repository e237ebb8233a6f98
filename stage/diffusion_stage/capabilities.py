"""What a loaded pipeline can do, as its worker found it; plain data, so that no torch is needed."""

from dataclasses import dataclass
from typing import Any

RESERVED = frozenset(
    {
        "args",
        "callback",
        "callback_on_step_end",
        "callback_on_step_end_tensor_inputs",
        "callback_steps",
        "generator",
        "kwargs",
        "output_type",
        "return_dict",
        "self",
    }
)
"""Parameters of a pipeline's call that the runner sets itself."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of the pipeline's call. `types` are JSON type names or `tensor`; empty = any."""

    types: tuple[str, ...] = ()
    required: bool = False
    default: Any = None


@dataclass(frozen=True, slots=True)
class BatchFields:
    """Which parameters of requests in one batch must agree (`key`), and which may differ (`free`).

    Declared by the pipeline, and exhaustive: a request that gives any other parameter runs alone.
    """

    key: tuple[str, ...] = ()
    free: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The pipeline's class and call.

    `size_multiple` divides every valid height and width; `max_size` bounds them where the model
    sets a bound; `default_size` is what it takes where none is given. All are pixels.

    `step_batch` None: it does not run step by step. `request_batch` None: its calls take one
    request. `has_chunks`: it can hand over parts of an output before the rest is done.
    """

    pipeline: str
    parameters: dict[str, Parameter]
    has_step_callback: bool
    has_output_type: bool
    size_multiple: int = 1
    max_size: int | None = None
    default_size: int | None = None
    step_batch: BatchFields | None = None
    request_batch: BatchFields | None = None
    has_chunks: bool = False

    @property
    def default_steps(self) -> int | None:
        steps = self.parameters.get("num_inference_steps")
        return steps.default if steps is not None and isinstance(steps.default, int) else None
