import asyncio

import pytest

from diffusion_operator.errors import ApiError
from diffusion_operator.workqueue import LAST_RETRY_S, Key, WorkQueue

pytestmark = pytest.mark.looptime
KEY = Key("ns", "flux")
TAKES_S = 0.5


class Recorder:
    """Notes when it was called; each call takes a while and has the next of the outcomes."""

    def __init__(self, *outcomes):
        self.calls = []
        self.outcomes = list(outcomes)

    async def __call__(self, key):
        self.calls.append(asyncio.get_running_loop().time())
        outcome = self.outcomes.pop(0) if self.outcomes else None
        await asyncio.sleep(TAKES_S)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    @property
    def gaps(self):
        return [later - earlier for earlier, later in zip(self.calls, self.calls[1:], strict=False)]


class Tally:
    """Whether each pass failed."""

    def __init__(self):
        self.passes = []

    def count_pass(self, seconds, *, has_failed):
        assert seconds == pytest.approx(TAKES_S)
        self.passes.append(has_failed)


@pytest.fixture
def tally():
    return Tally()


@pytest.fixture
async def start(tally):
    tasks = []

    def _start(reconcile):
        queue = WorkQueue(reconcile, workers=4, tally=tally)
        tasks.append(asyncio.create_task(queue.run()))
        return queue

    yield _start
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_many_adds_make_one_pass(start):
    record = Recorder()
    queue = start(record)
    for _ in range(10):
        queue.add(KEY)
    await asyncio.sleep(2)
    assert len(record.calls) == 1


async def test_an_add_while_a_pass_runs_makes_one_more(start):
    record = Recorder()
    queue = start(record)
    queue.add(KEY)
    await asyncio.sleep(TAKES_S / 2)
    queue.add(KEY)
    queue.add(KEY)
    await asyncio.sleep(3)
    assert record.gaps == pytest.approx([TAKES_S])


async def test_a_failing_pass_is_repeated_after_ever_longer_pauses(start):
    record = Recorder(OSError(), ApiError("away", status=0), OSError())
    start(record).add(KEY)
    await asyncio.sleep(20)
    assert record.gaps == pytest.approx([1 + TAKES_S, 2 + TAKES_S, 4 + TAKES_S])


async def test_the_pauses_have_a_limit_and_start_over_after_a_success(start):
    record = Recorder(*[OSError()] * 12, 10.0, OSError())
    start(record).add(KEY)
    await asyncio.sleep(2000)
    assert max(record.gaps) == pytest.approx(LAST_RETRY_S + TAKES_S)
    assert record.gaps[-1] == pytest.approx(1 + TAKES_S)


async def test_a_pass_is_repeated_after_the_seconds_that_it_returned(start):
    record = Recorder(300.0)
    start(record).add(KEY)
    await asyncio.sleep(1000)
    assert record.gaps == pytest.approx([300 + TAKES_S])


async def test_an_event_replaces_the_pending_repetition(start):
    record = Recorder(300.0, 300.0)
    queue = start(record)
    queue.add(KEY)
    await asyncio.sleep(200)
    queue.add(KEY)
    await asyncio.sleep(1000)
    assert record.gaps == pytest.approx([200, 300 + TAKES_S])


async def test_stages_do_not_wait_for_each_other(start):
    record = Recorder()
    queue = start(record)
    for name in "abcd":
        queue.add(Key("ns", name))
    await asyncio.sleep(0.1)
    assert len(record.calls) == 4


async def test_the_lag_is_the_age_of_the_oldest_pass(start):
    release = asyncio.Event()

    async def hang(_):
        await release.wait()

    queue = start(hang)
    assert queue.lag_s() == 0
    queue.add(KEY)
    await asyncio.sleep(50)
    assert queue.lag_s() == pytest.approx(50)
    release.set()
    await asyncio.sleep(0.1)
    assert queue.lag_s() == 0


async def test_each_pass_is_counted_with_its_time_and_whether_it_failed(start, tally):
    queue = start(Recorder(ApiError("away", status=0), None))
    queue.add(KEY)
    await asyncio.sleep(5)
    assert tally.passes == [True, False]
