"""Faults at every message between the stage and its workers, at random points.

The engine and the multiprocess executor are real, the workers are played: they answer, fail, answer
twice, in another order or not at all, and die. Whatever they do, every request ends exactly once,
and nothing of it is kept.
"""

import random
from dataclasses import replace

import pytest

from diffusion_stage.capabilities import BatchFields
from diffusion_stage.config.resolve import resolve
from diffusion_stage.engine.engine import DiffusionEngine
from diffusion_stage.engine.figures import EngineLoad
from diffusion_stage.errors import (
    AlreadyExistsError,
    EngineDiedError,
    FatalError,
    HangError,
    RequestError,
)
from diffusion_stage.executor import handle
from diffusion_stage.outputs import ChunkReady, Completed, Failed
from diffusion_stage.worker import messages as m
from tests.fakes.worker import FakeWorker
from tests.stage.builders import CAPABILITIES, PIXEL, make_config, make_request

FEW, MANY = 30, 300
TURNS = 40
IDS = ["a", "b", "c", "d", "e", "f"]
FIELDS = BatchFields(key=("height",), free=tuple(CAPABILITIES.parameters))
MODES = {
    "request": {"num_gpus": 2},
    "fused": {"max_num_seqs": 3},
    "step": {"num_gpus": 2, "step_execution": True, "max_num_seqs": 2},
}


class Worker(FakeWorker):
    """Answers what it was told, with faults that `chance` chooses."""

    start = None

    def __init__(self, *args, **given):
        super().__init__(*args, **given)
        self.steps = {}
        self.waiting = []
        self.is_dead = False
        both = {"step_batch": FIELDS, "request_batch": FIELDS}
        self.say(m.Ready(capabilities=replace(CAPABILITIES, **both)))

    def act(self, chance, faults):
        """Hears what there is, then says a part of what it owes."""
        if self.is_dead:
            return
        for message in self.heard():
            self.waiting += self._answers(message, chance)
        if "reorder" in faults and chance.random() < 0.3:
            chance.shuffle(self.waiting)
        for _ in range(chance.randrange(4)):
            if self.waiting:
                self._say_one(chance, faults)
        if "kill" in faults and chance.random() < 0.02:
            self.is_dead = True
            self.end(-9)

    def _say_one(self, chance, faults):
        answer = self.waiting.pop(0)
        if "drop" in faults and chance.random() < 0.05:
            return
        self.say(answer)
        if "duplicate" in faults and chance.random() < 0.05:
            self.say(answer)

    def _answers(self, message, chance):
        match message:
            case m.ExecuteModel(call_id=call_id):
                return self._forward(call_id, chance)
            case m.ExecuteModelBatch(calls=calls):
                return [each for call in calls for each in self._forward(call.call_id, chance)]
            case m.ExecuteStep():
                return [self._step(message, chance)]
            case _:
                return []

    def _forward(self, call_id, chance):
        steps = [m.StepDone(call_id=call_id, step=n, total_steps=2) for n in (1, 2)]
        if chance.random() < 0.2:
            return [*steps[:1], m.ComputeDone(call_id=call_id, reason="INTERNAL", message="bug")]
        packed = m.Packed(specs=(PIXEL,), inline=(b"rgb",))
        ends = [m.ComputeDone(call_id=call_id), m.OutputReady(call_id=call_id, packed=packed)]
        chance.shuffle(ends)
        return [*steps, *ends]

    def _step(self, message, chance):
        for request_id in message.finished:
            self.steps.pop(request_id, None)
        taken = []
        for request_id in [*message.cached, *(request.request_id for request in message.new)]:
            step = self.steps[request_id] = self.steps.get(request_id, 0) + 1
            is_last = step == 3
            given = {}
            if chance.random() < 0.1:
                given = {"reason": "INTERNAL", "message": "bug"}
            elif is_last or chance.random() < 0.3:
                given = {"packed": m.Packed(specs=(PIXEL,), inline=(b"rgb",))}
            is_finished = is_last or "reason" in given
            if is_finished:
                del self.steps[request_id]
            taken.append(
                m.StepTaken(
                    request_id=request_id,
                    step_index=step,
                    total_steps=3,
                    is_finished=is_finished,
                    **given,
                )
            )
        chance.shuffle(taken)
        return m.StepsTaken(call_id=message.call_id, taken=tuple(taken))


class Story:
    """One random history of an engine; `ends` counts the ends of each admitted request."""

    def __init__(self, mode, seed, monkeypatch):
        self.chance = random.Random(seed)
        kinds = ["kill", "drop", "duplicate", "reorder"]
        self.faults = self.chance.sample(kinds, self.chance.randrange(3))
        self.workers = []
        config = make_config(**MODES[mode])
        monkeypatch.setattr(handle.subprocess, "Popen", self._launch)
        self.engine = DiffusionEngine(config, resolve(config))
        monkeypatch.setattr(self.engine, "_sleep_s", lambda until: 0.0)
        self.engine.start()
        self.streams = []
        self.ends = {}

    def _launch(self, *args, **given):
        self.workers.append(Worker(*args, **given))
        return self.workers[-1]

    def _notify(self, stream):
        for event in stream.take():
            match event:
                case Completed(output=output):
                    output.release()
                    self.ends[stream] += 1
                case ChunkReady(output=output):
                    assert self.ends[stream] == 0, "no chunk after the end"
                    output.release()
                case Failed():
                    self.ends[stream] += 1

    def turn(self):
        for _ in range(self.chance.randrange(3)):
            self._submit()
        if self.streams and self.chance.random() < 0.2:
            self.engine.abort(self.chance.choice(self.streams))
        for worker in self.workers:
            worker.act(self.chance, self.faults)
        self.engine._tick()

    def _submit(self):
        request = make_request(self.chance.choice(IDS), attempt=len(self.streams))
        try:
            stream = self.engine.add_request(request, lambda stream: None)
        except AlreadyExistsError:
            return
        except RequestError:
            assert self.engine.is_refusing
            return
        stream._notify = self._notify
        self.ends[stream] = 0
        self.streams.append(stream)

    def play(self):
        """Until its end: by itself, or by what the watchdog would do about a hang."""
        try:
            for _ in range(TURNS):
                self.turn()
            self._finish()
        except FatalError as error:
            self.engine.fail(error)
        except (AssertionError, KeyError):  # words that no worker says: a duplicate, say
            assert self.faults, "without faults there is none"
            self.engine.fail(EngineDiedError("the loop"))

    def _finish(self):
        for _ in range(200):
            for worker in self.workers:
                worker.act(self.chance, ())
            self.engine._tick()
            if not (self.engine._has_work() or any(w.waiting for w in self.workers)):
                break
        for worker in self.workers:
            worker.act(self.chance, ())
        self.engine._tick()
        if not self.engine._has_work():
            return
        assert self.faults, "without faults everything comes to its end"
        self.engine.fail(HangError("no step"))


def tell(mode, seed, monkeypatch):
    story = Story(mode, seed, monkeypatch)
    try:
        story.play()
        assert set(story.ends.values()) <= {1}, (seed, story.faults)
        assert story.engine.load() == EngineLoad(0, 0, 0)
        assert story.engine._streams == {}
        executor = story.engine._executor
        assert all(each.segments.open_leases == 0 for each in executor._handles)
        if not story.engine.is_refusing and "drop" not in story.faults:
            assert executor._forwards == {}
            assert all(worker.steps == {} for worker in story.workers)
    finally:
        story.engine.close(grace_s=0)
        for worker in story.workers:
            worker.dispose()


@pytest.mark.parametrize("mode", MODES)
def test_every_request_ends_once_whatever_the_workers_do(mode, monkeypatch):
    """RUNTIME-RULE-11."""
    for seed in range(FEW):
        tell(mode, seed, monkeypatch)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mode", MODES)
def test_so_it_is_in_many_more_histories(mode, monkeypatch):
    for seed in range(FEW, FEW + MANY):
        tell(mode, seed, monkeypatch)
