"""A worker process as its parent sees it."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from diffusion_stage.errors import EngineDiedError, FatalError, WorkerDiedError
from diffusion_stage.executor.executor import RankActivity
from diffusion_stage.outputs import DiffusionOutput
from diffusion_stage.wire import tensors
from diffusion_stage.worker import messages as m
from diffusion_stage.worker.channel import Channel, ChannelClosedError
from diffusion_stage.worker.death_notice import DeathNotice, exit_code_of
from diffusion_stage.worker.segments import SegmentReader

REAP_S = 0.5


class WorkerHandle:
    """Owns the process, its channel, its lifeline and the view of its shared memory."""

    def __init__(self, spec: m.WorkerSpec, environment: Mapping[str, str]) -> None:
        self.rank = spec.rank
        self.device = f"{spec.device}:{spec.rank}"
        self.segments = SegmentReader()
        self.is_ready = self.is_dying = False
        self.computing: dict[int, float] = {}
        self.packing: dict[int, float] = {}
        self.step: int | None = None
        self.heard_at = self.progress_at = time.monotonic()
        self._asked_at = 0.0
        self._notice = DeathNotice.create()
        self._watch: threading.Thread | None = None
        ours, theirs = socket.socketpair()
        lifeline, self._lifeline = os.pipe()  # one each: the signal belongs to the open file
        descriptors = (theirs.fileno(), lifeline, self._notice.descriptor)
        try:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "diffusion_stage.worker.process",
                    *map(str, descriptors),
                ],
                pass_fds=descriptors,
                stdin=subprocess.DEVNULL,
                env={**os.environ, **environment},
            )
        finally:
            theirs.close()
            os.close(lifeline)
        self.channel = Channel(ours)
        self.send(spec)

    def welcome(self, on_dying: Callable[[], None]) -> None:
        """The worker is ready. `on_dying` is called in a thread when it ends, `is_dying` is set."""

        def watch() -> None:
            self._notice.lock()
            self.is_dying = True
            on_dying()

        self.is_ready = True
        self._watch = threading.Thread(target=watch, name=f"watch-{self.rank}", daemon=True)
        self._watch.start()

    def send(self, message: m.ToWorker | m.WorkerSpec) -> None:
        """What is sent to a dead worker goes nowhere; `is_dying` is set."""
        try:
            self.channel.send(m.encoder.encode(message))
        except ChannelClosedError:
            self.is_dying = True

    def receive(self) -> tuple[m.FromWorker, list[int]]:
        """The next message and its descriptors. Raises `ChannelClosedError` after the last."""
        body, descriptors = self.channel.receive()
        self.heard_at = time.monotonic()
        return m.from_worker.decode(body), descriptors

    def begin(self, call_id: int, step: int | None = None) -> None:
        """A forward was sent; the first of several is the one that runs. `step`: done before."""
        now = time.monotonic()
        if not self.computing:
            self.progress_at, self.step = now, step
        self.computing[call_id] = now

    def advance(self, step: int) -> None:
        self.progress_at, self.step = time.monotonic(), step

    def end(self, call_id: int, *, is_packing: bool) -> None:
        """The device is free; `is_packing`: the call's output is still to come."""
        now = time.monotonic()
        self.computing.pop(call_id, None)
        self.progress_at, self.step = now, None
        if is_packing:
            self.packing[call_id] = now

    def ask_for_life(self) -> None:
        """Ask, but not again before any answer came: a stopped worker blocks nobody."""
        if self.heard_at >= self._asked_at:
            self._asked_at = time.monotonic()
            self.send(m.AreYouThere())

    def learn(self, packed: m.Packed, descriptors: list[int]) -> None:
        """Take what a message says of segments: those closed, and a new one's descriptor."""
        self.segments.drop(packed.dropped)
        if packed.segment_id is not None and not self.segments.knows(packed.segment_id):
            self.segments.add(packed.segment_id, descriptors.pop(0))

    def borrow(self, packed: m.Packed, seed: int) -> DiffusionOutput:
        """The output, as views of the worker's memory where it lies there."""
        output = DiffusionOutput(
            packed.specs, packed.inline, seed=seed, rank=self.rank, metrics=packed.metrics
        )
        if packed.segment_id is None:
            return output
        whole = self.segments.open(packed.segment_id)
        sizes = [tensors.size_bytes(spec) for spec in packed.specs]
        views = tuple(
            whole[offset : offset + size]
            for offset, size in zip(packed.offsets, sizes, strict=True)
        )
        return replace(output, data=views, release=partial(self._give_back, packed.segment_id))

    def _give_back(self, segment_id: int) -> None:
        """Called from any thread, perhaps after the worker's death."""
        if self.segments.release(segment_id):
            self.send(m.ReleaseSegment(segment_id=segment_id))

    def activity(self) -> RankActivity:
        busy = self.computing.copy() | self.packing.copy()
        return RankActivity(
            rank=self.rank,
            device=self.device,
            busy_since=min(busy.values(), default=None),
            progress_at=self.progress_at,
            heard_at=self.heard_at,
            step=self.step,
        )

    def death(self) -> FatalError:
        """Why the process ended, as the error to report."""
        code = self._exit_code()
        who = f"worker {self.rank} ({self.device})"
        if code < 0:
            hint = ", perhaps for want of memory" if -code == signal.SIGKILL else ""
            return WorkerDiedError(
                f"{who} was killed by {_name(-code)}{hint}",
                rank=self.rank,
                device=self.device,
                signal=-code,
                step=self.step,
            )
        return EngineDiedError(
            f"{who} ended with exit code {code}",
            rank=self.rank,
            device=self.device,
            step=self.step,
        )

    def _exit_code(self) -> int:
        if self.process.poll() is None:
            code = exit_code_of(self.process.pid)
            if code is not None:
                return code
        try:
            return self.process.wait(REAP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def ask_to_stop(self) -> None:
        """End after the next step of the forward at hand."""
        aborts = [m.AbortCall(call_id=call_id) for call_id in self.computing.copy()]
        for abort in aborts:
            self.send(abort)
        self.send(m.Stop())

    def end_by(self, deadline: float) -> None:
        """Wait for the end until `deadline` (monotonic), then kill; closes everything."""
        try:
            self.process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self._watch:
            self._watch.join()  # it has been told: the process is gone
        self._notice.close()
        self.channel.close()
        os.close(self._lifeline)


def _name(signum: int) -> str:
    """`SIGKILL` for 9; real-time signals have no names."""
    known = {each.value: each.name for each in signal.Signals}
    return known.get(signum, f"signal {signum}")
