"""One step of all that run, over all ranks: sent to each, complete when each has answered."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from diffusion_stage.errors import fatal_error, request_error
from diffusion_stage.executor.handle import WorkerHandle
from diffusion_stage.outputs import BatchRunnerOutput, RunnerOutput, StepBatch
from diffusion_stage.request import DiffusionRequest
from diffusion_stage.scheduler.output import DiffusionSchedulerOutput
from diffusion_stage.worker import messages as m


@dataclass(slots=True)
class Share:
    """One rank's part of a tick."""

    new: list[DiffusionRequest] = field(default_factory=list)
    cached: list[str] = field(default_factory=list)
    finished: list[str] = field(default_factory=list)


class Placement:
    """Which rank has which request: the one with the fewest when it came, until its end.

    `reached` is the furthest step of each rank's requests.
    """

    def __init__(self, handles: Mapping[int, WorkerHandle]) -> None:
        self._handles = handles
        self.reached: dict[int, int | None] = {}
        self._at: dict[str, tuple[int, DiffusionRequest]] = {}

    def request(self, request_id: str) -> DiffusionRequest:
        return self._at[request_id][1]

    def share(self, output: DiffusionSchedulerOutput) -> Iterator[tuple[WorkerHandle, Share]]:
        """The parts of the ranks that have one."""
        shares = {rank: Share() for rank in self._handles}
        for request_id in output.finished_req_ids:
            rank, _ = self._at.pop(request_id)
            shares[rank].finished.append(request_id)
        for request_id in output.scheduled_cached_reqs.request_ids:
            shares[self._at[request_id][0]].cached.append(request_id)
        for new in output.scheduled_new_reqs:
            rank = self._least_busy()
            self._at[new.request_id] = (rank, new.request)
            shares[rank].new.append(new.request)
        for rank, share in shares.items():
            if share.new or share.cached or share.finished:
                yield self._handles[rank], share

    def _least_busy(self) -> int:
        counts = dict.fromkeys(self._handles, 0)
        for rank, _ in self._at.values():
            counts[rank] += 1
        return min(counts, key=lambda rank: (counts[rank], rank))


class Tick:
    """Made when the ranks were told, done when all have answered."""

    def __init__(self, step_id: int) -> None:
        self.waiting: dict[int, WorkerHandle] = {}
        self._step_id = step_id
        self._outputs: list[RunnerOutput] = []
        self._batches: list[StepBatch] = []

    def begin(self, handle: WorkerHandle, call_id: int, share: Share, placement: Placement) -> None:
        self.waiting[call_id] = handle
        handle.begin(call_id, step=placement.reached.get(handle.rank))
        handle.send(
            m.ExecuteStep(
                call_id=call_id,
                new=tuple(share.new),
                cached=tuple(share.cached),
                finished=tuple(share.finished),
            )
        )

    def answered(self, handle: WorkerHandle, message: m.StepsTaken, placement: Placement) -> None:
        """Raises the `FatalError` that a rank met, which leaves the step without an end."""
        if message.fatal is not None:
            kind = fatal_error(message.fatal)
            raise kind(message.message, rank=handle.rank, device=handle.device)
        del self.waiting[message.call_id]
        handle.end(message.call_id, is_packing=False)
        if message.batch_size:
            self._batches.append(StepBatch(message.batch_size, message.step_ms))
        steps = [taken.step_index for taken in message.taken if not taken.is_finished]
        placement.reached[handle.rank] = max(steps, default=0) or None
        for taken in message.taken:
            self._outputs.append(_output(handle, taken, placement.request(taken.request_id)))

    def result(self) -> BatchRunnerOutput:
        return BatchRunnerOutput(self._outputs, step_id=self._step_id, batches=self._batches)


def _output(handle: WorkerHandle, taken: m.StepTaken, request: DiffusionRequest) -> RunnerOutput:
    if taken.reason is not None:
        error = request_error(taken.reason, taken.message, field=taken.field)
        return RunnerOutput(taken.request_id, error=error)
    return RunnerOutput(
        taken.request_id,
        result=handle.borrow(taken.packed, request.seed) if taken.packed else None,
        step_index=taken.step_index,
        total_steps=taken.total_steps,
        is_finished=taken.is_finished,
    )
