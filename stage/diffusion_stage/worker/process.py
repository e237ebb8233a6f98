"""The main of a worker process: `python -m diffusion_stage.worker.process FD FD FD`.

Forwards run in the main thread: the same call takes 1.6 times as long in another thread when OpenMP
has more than one. A reader thread takes messages at any time, a packing thread sends outputs while
the next forward runs.
"""

import logging
import os
import queue
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from diffusion_stage import lifeline, logs
from diffusion_stage.errors import (
    AcceleratorError,
    CancelledError,
    EngineDiedError,
    FatalError,
    InternalError,
    RequestError,
)
from diffusion_stage.worker import messages as m
from diffusion_stage.worker.channel import Channel, ChannelClosedError
from diffusion_stage.worker.death_notice import DeathNotice

if TYPE_CHECKING:
    from diffusion_stage.worker.model_output import ModelOutput
    from diffusion_stage.worker.steps import StepOutput
    from diffusion_stage.worker.wrapper import WorkerWrapperBase

logger = logging.getLogger(__name__)

PACKED_AHEAD = 2  # outputs that wait for packing before the next forward has to wait
Work = m.ExecuteModel | m.ExecuteModelBatch | m.ExecuteStep | m.CallMethod | m.Stop


class WorkerProc:
    """The loop between the channel and the worker; it decides nothing."""

    def __init__(self, channel: Channel, spec: m.WorkerSpec) -> None:
        self._channel = channel
        self._spec = spec
        self._work: queue.SimpleQueue[Work] = queue.SimpleQueue()
        self._outputs: queue.Queue[tuple[int, ModelOutput] | None] = queue.Queue(PACKED_AHEAD)
        self._aborted: set[int] = set()

    def run(self) -> None:
        """Serve until `Stop`. The parent's end ends this process."""
        try:
            wrapper = self._start()
        except FatalError as error:
            self._send(m.StartFailed(reason=error.reason, message=str(error)))
            return
        threads = [
            threading.Thread(target=self._read, name="reader", daemon=True),
            threading.Thread(target=self._pack, name="packer", daemon=True),
        ]
        for thread in threads:
            thread.start()
        while not isinstance(work := self._work.get(), m.Stop):
            match work:
                case m.ExecuteModel():
                    self._execute(wrapper, work)
                case m.ExecuteModelBatch():
                    self._execute_batch(wrapper, work.calls)
                case m.ExecuteStep():
                    self._step(wrapper, work)
                case m.CallMethod():
                    self._call(wrapper, work)
        self._outputs.put(None)
        threads[1].join()
        wrapper.shutdown()

    def _start(self) -> "WorkerWrapperBase":
        try:
            from diffusion_stage.worker.segments import SegmentPool
            from diffusion_stage.worker.wrapper import WorkerWrapperBase

            self._pool = SegmentPool()
            wrapper = WorkerWrapperBase(self._spec)
            capabilities = wrapper.start()
        except FatalError:
            raise
        except Exception as error:
            logger.exception("rank %d could not start", self._spec.rank)
            raise EngineDiedError(f"{type(error).__name__}: {error}") from error
        self._send(m.Ready(capabilities=capabilities))
        return wrapper

    def _read(self) -> None:
        try:
            while True:
                body, _ = self._channel.receive()
                match m.to_worker.decode(body):
                    case m.AreYouThere():
                        self._send(m.HereIAm())
                    case m.AbortCall(call_id=call_id):
                        self._aborted.add(call_id)
                    case m.ReleaseSegment(segment_id=segment_id):
                        self._pool.take_back(segment_id)
                    case work:
                        self._work.put(work)
        except ChannelClosedError:
            os._exit(EngineDiedError.exit_code)  # the parent is gone, or has given this worker up

    def _execute(self, wrapper: "WorkerWrapperBase", work: m.ExecuteModel) -> None:
        call_id = work.call_id

        def on_step(step: int, total_steps: int) -> None:
            if call_id in self._aborted:
                raise CancelledError("cancelled between two steps")
            self._send(m.StepDone(call_id=call_id, step=step, total_steps=total_steps))

        try:
            if call_id in self._aborted:
                raise CancelledError("cancelled before its first step")
            output = wrapper.execute_model(work.request, on_step)
        except RequestError as error:
            self._send(self._failure(wrapper, call_id, error))
        else:
            self._outputs.put((call_id, output))
            self._send(m.ComputeDone(call_id=call_id))
        finally:
            self._spend_aborts(call_id)

    def _spend_aborts(self, call_id: int) -> None:
        """Calls come in order, so an abort of this one or an earlier one is spent."""
        self._aborted.difference_update([i for i in tuple(self._aborted) if i <= call_id])

    def _execute_batch(self, wrapper: "WorkerWrapperBase", calls: Sequence[m.ExecuteModel]) -> None:
        """All in one call; if that fails, each alone, so that only one of them pays for it."""

        def on_step(step: int, total_steps: int) -> None:
            if all(call.call_id in self._aborted for call in calls):
                raise CancelledError("cancelled between two steps")
            for call in calls:
                self._send(m.StepDone(call_id=call.call_id, step=step, total_steps=total_steps))

        try:
            outputs = wrapper.execute_model_batch([call.request for call in calls], on_step)
        except RequestError as error:
            logger.warning("a call of %d requests failed, each runs alone: %s", len(calls), error)
            for call in calls:
                self._execute(wrapper, call)
            return
        for call, output in zip(calls, outputs, strict=True):
            self._outputs.put((call.call_id, output))
            self._send(m.ComputeDone(call_id=call.call_id))
        self._spend_aborts(calls[-1].call_id)

    def _step(self, wrapper: "WorkerWrapperBase", work: m.ExecuteStep) -> None:
        """A step, and its outputs packed, before the answer."""
        from diffusion_stage.worker.steps import batch_size

        start = time.perf_counter()
        outputs = wrapper.execute_stepwise(work.new, work.cached, work.finished)
        step_ms = 1000 * (time.perf_counter() - start)
        taken, descriptors, fatal, message = [], list[int](), None, ""
        for output in outputs:
            if isinstance(output.error, InternalError):
                fatal, message = self._look_into(wrapper, output.request_id, output.error)
            taken.append(self._taken(output, descriptors))
        self._send(
            m.StepsTaken(
                call_id=work.call_id,
                taken=tuple(taken),
                batch_size=batch_size(outputs),
                step_ms=step_ms,
                fatal=fatal,
                message=message,
            ),
            descriptors,
        )

    def _taken(self, output: "StepOutput", descriptors: list[int]) -> m.StepTaken:
        from diffusion_stage.worker import packing

        error, packed = output.error, None
        if output.output is not None:
            try:
                packed, new = packing.pack(output.output, self._pool)
                descriptors += new
            except Exception as failed:
                logger.exception("request %s: packing failed", output.request_id)
                error = _packing_error(failed)
        return m.StepTaken(
            request_id=output.request_id,
            step_index=output.step_index,
            total_steps=output.total_steps,
            is_finished=output.is_finished,
            packed=packed,
            reason=error.reason if error else None,
            message=str(error) if error else "",
            field=error.field if error else None,
        )

    def _look_into(
        self, wrapper: "WorkerWrapperBase", what: object, error: RequestError
    ) -> tuple[str | None, str]:
        """The reason of the `FatalError` behind an internal error, if the device is lost."""
        logger.error("%s failed\n%s", what, "".join(traceback.format_exception(error)))
        try:
            wrapper.check_device()
        except AcceleratorError as lost:
            return lost.reason, f"{lost} (after {error})"
        return None, str(error)

    def _failure(
        self, wrapper: "WorkerWrapperBase", call_id: int, error: RequestError
    ) -> m.ComputeDone:
        fatal, message = None, str(error)
        if isinstance(error, InternalError):
            fatal, message = self._look_into(wrapper, f"call {call_id}", error)
        return m.ComputeDone(
            call_id=call_id, reason=error.reason, message=message, field=error.field, fatal=fatal
        )

    def _pack(self) -> None:
        from diffusion_stage.worker import packing

        while (item := self._outputs.get()) is not None:
            call_id, output = item
            descriptors: Sequence[int] = ()
            try:
                packed, descriptors = packing.pack(output, self._pool)
                message = m.OutputReady(call_id=call_id, packed=packed)
            except Exception as error:
                logger.exception("call %d: packing failed", call_id)
                failed = _packing_error(error)
                message = m.OutputReady(call_id=call_id, reason=failed.reason, message=str(failed))
            self._send(message, descriptors)
            del item, output

    def _call(self, wrapper: "WorkerWrapperBase", work: m.CallMethod) -> None:
        try:
            value = wrapper.execute_method(work.method, work.args)
            self._send(m.MethodDone(call_id=work.call_id, value=value))
        except Exception as error:  # also of a value that cannot be encoded
            logger.exception("method %s failed", work.method)
            text = f"rank {self._spec.rank}: {type(error).__name__}: {error}"
            self._send(m.MethodDone(call_id=work.call_id, error=text))

    def _send(self, message: m.FromWorker, descriptors: Sequence[int] = ()) -> None:
        try:
            self._channel.send(m.encoder.encode(message), descriptors)
        except ChannelClosedError:
            os._exit(EngineDiedError.exit_code)


def _packing_error(error: Exception) -> InternalError:
    return InternalError(f"the output could not be packed: {type(error).__name__}: {error}")


def main(channel_fd: int, lifeline_fd: int, notice_fd: int) -> None:
    """Serve one worker on inherited descriptors; the first message on the channel says which."""
    lifeline.follow_parent(lifeline_fd)
    notice = DeathNotice(notice_fd)
    notice.lock()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's Ctrl-C is the parent's to handle
    channel = Channel(socket.socket(fileno=channel_fd))
    body, _ = channel.receive()
    spec = msgspec.msgpack.decode(body, type=m.WorkerSpec)
    logs.configure(rank=spec.rank)
    WorkerProc(channel, spec).run()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
