"""Step execution: the states of the requests on one device, and one denoising step of them all."""

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch

from diffusion_stage.errors import InternalError, RequestError
from diffusion_stage.pipelines.steps.batch import InputBatch
from diffusion_stage.pipelines.steps.protocol import EncodesTogether, SupportsStepExecution
from diffusion_stage.pipelines.steps.state import StepRequestState
from diffusion_stage.request import DiffusionRequest
from diffusion_stage.worker.model_output import ModelOutput, fields_of

logger = logging.getLogger(__name__)

MakeState = Callable[[DiffusionRequest], StepRequestState]
Classify = Callable[[Exception, bool], RequestError]
"""The error to report for an exception; the flag tells whether denoising has begun."""


@dataclass(frozen=True, slots=True)
class StepOutput:
    """How far a request is now. `output`: a chunk of it or, when finished, the (last) rest.

    `step_index` 0: it waits for its turn to be encoded.
    """

    request_id: str
    step_index: int = 0
    total_steps: int = 0
    is_finished: bool = False
    output: ModelOutput | None = None
    error: RequestError | None = None


class StepRunner:
    """Knows no queue: it takes one step with what it is told to, and forgets what it is told to.

    Newcomers are encoded between two steps of the others, in one call where the pipeline can; else
    for as long as a step takes, and at least one. So those that run wait for one encoding, or twice
    as long as alone. `is_streaming`: outputs are given in chunks.
    """

    def __init__(
        self,
        pipeline: SupportsStepExecution,
        make_state: MakeState,
        classify: Classify,
        *,
        is_streaming: bool,
    ) -> None:
        self._pipeline = pipeline
        self._make_state = make_state
        self._classify = classify
        self._is_streaming = is_streaming and pipeline.has_chunks
        self._states: dict[str, StepRequestState] = {}
        self._arrived: dict[str, DiffusionRequest] = {}
        self._newcomers: dict[str, StepRequestState] = {}
        self._batch: InputBatch | None = None
        self._step_ms = 0.0

    @property
    def request_ids(self) -> list[str]:
        """All that are kept."""
        return [*self._states, *self._arrived]

    @torch.no_grad()
    def execute(
        self, new: Iterable[DiffusionRequest], cached: Iterable[str], finished: Iterable[str]
    ) -> list[StepOutput]:
        """Forget `finished`, then take a step with `new` and `cached`; one output for each."""
        for request_id in finished:
            self._forget(request_id)
        ids = list(cached)
        for request in new:
            self._arrived[request.request_id] = request
            ids.append(request.request_id)
        outputs = {
            i: _failed(i, InternalError(f"no state of request {i!r} on this device"))
            for i in ids
            if i not in self._states and i not in self._arrived
        }
        outputs |= self._encode([i for i in ids if i in self._arrived])
        states = [self._states[i] for i in ids if i in self._states]
        outputs |= self._step(states)
        for request_id, output in outputs.items():
            if output.is_finished:
                self._forget(request_id)
        return [outputs.get(i) or StepOutput(i) for i in ids]

    def _forget(self, request_id: str) -> None:
        self._arrived.pop(request_id, None)
        state = self._states.pop(request_id, None)
        if state is not None and self._batch is not None and state in self._batch.states:
            self._batch = None

    def _encode(self, arrived: list[str]) -> dict[str, StepOutput]:
        """Newcomers to states, of all or of as many as may be; the failed ones are told."""
        failed = {}
        are_others_waiting = bool(self._states)
        start = time.perf_counter()
        is_bounded = self._encode_together(arrived)
        for request_id in arrived:
            request = self._arrived.pop(request_id)
            began_ms = _ms_since(start)
            try:
                state = self._newcomers.pop(request_id, None) or self._make_state(request)
                self._pipeline.prepare_encode(state)
            except Exception as error:
                failed[request_id] = _failed(request_id, self._classify(error, False))
            else:
                state.forward_ms += _ms_since(start) - began_ms
                self._states[request_id] = state
            if are_others_waiting and not is_bounded and _ms_since(start) >= self._step_ms:
                break
        return failed

    def _encode_together(self, arrived: list[str]) -> bool:
        """Whether the prompts of all are encoded, in one call."""
        self._newcomers.clear()
        if len(arrived) < 2 or not isinstance(self._pipeline, EncodesTogether):
            return False
        try:
            states = [self._make_state(self._arrived[request_id]) for request_id in arrived]
            self._pipeline.encode_together(states)
        except Exception as error:  # one of them, perhaps: each encodes its own
            logger.warning("%d prompts could not be encoded together: %s", len(arrived), error)
            return False
        self._newcomers = {state.request_id: state for state in states}
        return True

    def _step(self, states: list[StepRequestState]) -> dict[str, StepOutput]:
        if not states:
            return {}
        start = time.perf_counter()
        try:
            self._batch = InputBatch.make(states, self._batch)
            predictions = self._batch.split(self._pipeline.denoise_step(self._batch))
        except Exception as error:
            self._batch = None
            return self._step_each(states, error)
        took_ms = self._step_ms = _ms_since(start)
        return {
            state.request_id: self._advance(state, prediction, took_ms)
            for state, prediction in zip(states, predictions, strict=True)
        }

    def _step_each(self, states: list[StepRequestState], error: Exception) -> dict[str, StepOutput]:
        """One request poisoned the step: each takes it alone, and only that one fails."""
        if len(states) == 1:
            (state,) = states
            return {state.request_id: _failed(state.request_id, self._classify(error, True))}
        logger.warning("a step of %d requests failed, each takes it alone: %s", len(states), error)
        outputs: dict[str, StepOutput] = {}
        for state in states:
            outputs |= self._step([state])
        self._batch = None
        return outputs

    def _advance(
        self, state: StepRequestState, prediction: torch.Tensor, took_ms: float
    ) -> StepOutput:
        start = time.perf_counter()
        output = None
        try:
            self._pipeline.step_scheduler(state, prediction)
            state.step_index += 1
            if state.denoise_completed or (self._is_streaming and state.has_chunk):
                fields = fields_of(self._pipeline.post_decode(state))
                output = ModelOutput(fields, state.request.output == "image", 0.0)
                state.has_chunk = False
        except Exception as error:
            return _failed(state.request_id, self._classify(error, True))
        state.forward_ms += took_ms + _ms_since(start)
        if output is not None:
            output.forward_ms = state.forward_ms
        return StepOutput(
            state.request_id,
            state.step_index,
            state.total_steps,
            is_finished=state.denoise_completed,
            output=output,
        )


def batch_size(outputs: Sequence[StepOutput]) -> int:
    """How many took a step; the others have failed, or wait to be encoded."""
    return sum(output.step_index > 0 for output in outputs)


def _failed(request_id: str, error: RequestError) -> StepOutput:
    return StepOutput(request_id, is_finished=True, error=error)


def _ms_since(start: float) -> float:
    return 1000 * (time.perf_counter() - start)
