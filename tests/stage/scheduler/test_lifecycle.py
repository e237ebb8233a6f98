"""DIFF-RUNTIME-INV-001 and -003 over any history: one end for each request, and nothing kept."""

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from diffusion_stage.errors import AlreadyExistsError, CancelledError, InternalError
from diffusion_stage.outputs import BatchRunnerOutput
from diffusion_stage.request import DiffusionRequestStatus as Status
from diffusion_stage.scheduler.request import RequestScheduler
from tests.stage.builders import computed, done, failed, make_output, make_request

IDS = st.sampled_from(["a", "b", "c", "d", "e"])
NEWS = st.sampled_from(["done", "computed", "failed"])


class Life(RuleBasedStateMachine):
    """A scheduler, and beside it what each id's current request has gone through."""

    def __init__(self):
        super().__init__()
        self.scheduler = RequestScheduler()
        self.scheduler.initialize(max_num_running_reqs=2)
        self.live = {}  # id -> status
        self.workers_know = set()  # started, and their end not told yet
        self.admitted = Counter()
        self.ended = Counter()
        self.borrowed = self.released = 0

    @rule(request_id=IDS, priority=st.integers(-1, 1), deadline=st.none() | st.floats(0, 9))
    def add(self, request_id, priority, deadline):
        request = make_request(request_id, priority=priority, deadline_at=deadline)
        try:
            self.scheduler.add_request(request)
        except AlreadyExistsError:
            assert request_id in self.live
            return
        assert request_id not in self.live
        self.live[request_id] = Status.WAITING
        self.admitted[request_id] += 1

    @rule()
    def schedule(self):
        output = self.scheduler.schedule()
        assert output.finished_req_ids <= self.workers_know, "each end is told once"
        self.workers_know -= output.finished_req_ids
        for new in output.scheduled_new_reqs:
            assert self.live[new.request_id] is Status.WAITING
            self.live[new.request_id] = Status.RUNNING
            self.workers_know.add(new.request_id)

    @rule(request_id=IDS, kind=NEWS)
    def hear(self, request_id, kind):
        """Workers speak of what they know, also late; of waiting requests they know nothing."""
        if self.live.get(request_id) is Status.WAITING:
            return
        if kind == "done":
            self.borrowed += 1
            news = done(request_id, make_output(release=self._release))
        else:
            news = computed(request_id) if kind == "computed" else failed(request_id, _error())
        was_live = request_id in self.live
        ended = self.scheduler.update_from_output(BatchRunnerOutput([news]))
        assert ended == ([request_id] if was_live and kind != "computed" else [])
        if was_live and kind == "computed":
            self.live[request_id] = Status.MATERIALIZING
        self._hand_over(ended, owns_output=kind == "done")

    @rule(request_ids=st.sets(IDS))
    def abort(self, request_ids):
        ended = self.scheduler.finish_requests(request_ids, Status.FINISHED_ABORTED, _aborted())
        assert set(ended) == request_ids & self.live.keys()
        self._hand_over(ended)

    @rule(now=st.floats(0, 9))
    def pass_deadlines(self, now):
        overdue = self.scheduler.overdue(now)
        assert set(overdue) <= self.live.keys()
        self._hand_over(self.scheduler.finish_requests(overdue, Status.FINISHED_ERROR, _aborted()))

    def _hand_over(self, ended, *, owns_output=False):
        for request_id in ended:
            state = self.scheduler.pop_request_state(request_id)
            assert state.status.is_finished
            if owns_output:
                self._release()
            del self.live[request_id]
            self.ended[request_id] += 1

    def _release(self):
        self.released += 1

    @invariant()
    def each_request_has_one_lifecycle(self):
        assert self.scheduler.live_request_ids() == list(self.live)
        assert self.admitted == self.ended + Counter(self.live.keys())
        counts = Counter(self.live.values())
        assert self.scheduler.num_waiting_reqs == counts[Status.WAITING]
        assert self.scheduler.num_running_reqs == counts[Status.RUNNING] <= 2
        assert self.scheduler.num_materializing_reqs == counts[Status.MATERIALIZING]
        assert self.borrowed == self.released

    def teardown(self):
        """Once all have ended and the workers know, nothing is kept."""
        self.abort(set(self.live))
        self.schedule()
        assert not self.scheduler.has_work
        assert not self.workers_know
        assert self.scheduler.next_deadline() is None
        kept = (self.scheduler._states, self.scheduler._queue, self.scheduler._deadlines)
        assert [len(each) for each in kept] == [0, 0, 0]


def _error():
    return InternalError("as drawn")


def _aborted():
    return CancelledError("as drawn")


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=50, stateful_step_count=40, deadline=None)
