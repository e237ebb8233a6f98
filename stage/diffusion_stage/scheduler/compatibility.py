"""Which requests may share a batch: one rule for the scheduler, for coalescing and for dispatch."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import msgspec

from diffusion_stage.capabilities import BatchFields, Capabilities
from diffusion_stage.request import DiffusionRequest

_encoder = msgspec.msgpack.Encoder(order="deterministic")


@dataclass(frozen=True, slots=True)
class BatchRule:
    """Requests with equal keys may share a batch.

    A missing parameter counts as its default. `is_one_call`: the whole batch is one call of the
    pipeline, so the kind of output must agree as well.
    """

    fields: BatchFields
    defaults: dict[str, Any]
    is_one_call: bool

    @classmethod
    def for_steps(cls, capabilities: Capabilities) -> "BatchRule | None":
        """None where the pipeline does not run step by step."""
        return cls._of(capabilities, capabilities.step_batch, is_one_call=False)

    @classmethod
    def for_calls(cls, capabilities: Capabilities) -> "BatchRule | None":
        """None where a call takes one request."""
        return cls._of(capabilities, capabilities.request_batch, is_one_call=True)

    @classmethod
    def _of(
        cls, capabilities: Capabilities, fields: BatchFields | None, *, is_one_call: bool
    ) -> "BatchRule | None":
        if fields is None:
            return None
        defaults = {name: each.default for name, each in capabilities.parameters.items()}
        return cls(fields, defaults, is_one_call)

    def key(self, request: DiffusionRequest) -> Hashable:
        """Unlike every other key where the request gives a parameter that nobody declared."""
        known = {*self.fields.key, *self.fields.free}
        tensors = {each.spec.name for each in request.inputs}
        if not known.issuperset(request.params) or not tensors.issubset(self.fields.free):
            return ("alone", request.request_id, request.attempt)
        values = [request.params.get(name, self.defaults.get(name)) for name in self.fields.key]
        if self.is_one_call:
            values += [request.output, sorted(tensors)]
        return _encoder.encode(values)
