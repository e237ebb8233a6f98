"""Who may pass whom: nobody under `fifo`; nobody for ever under `lookahead`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffusion_stage.outputs import BatchRunnerOutput
from diffusion_stage.scheduler.compatibility import BatchRule
from diffusion_stage.scheduler.policy import Fifo, Lookahead, make_policy
from diffusion_stage.scheduler.step import StepScheduler
from tests.stage.builders import done, make_request
from tests.stage.scheduler.test_compatibility import CAPABILITIES

CAPACITY = 4
PATIENCE = 6


def make(policy, capacity=CAPACITY):
    scheduler = StepScheduler(policy)
    scheduler.initialize(capacity)
    scheduler.use_rule(BatchRule.for_steps(CAPABILITIES))
    return scheduler


def add(scheduler, request_id, height, **given):
    scheduler.add_request(make_request(request_id, params={"height": height}, **given))


def started(scheduler):
    return [new.request_id for new in scheduler.schedule().scheduled_new_reqs]


def end(scheduler, *request_ids):
    for request_id in scheduler.update_from_output(BatchRunnerOutput(map(done, request_ids))):
        scheduler.pop_request_state(request_id)


def alternate(scheduler):
    for number in range(6):
        add(scheduler, f"r{number}", 512 if number % 2 == 0 else 1024)


def test_fifo_stops_at_the_first_that_does_not_fit():
    scheduler = make(Fifo())
    alternate(scheduler)
    waves = []
    while wave := started(scheduler):
        waves.append(wave)
        end(scheduler, *wave)
    assert waves == [[f"r{number}"] for number in range(6)]


def test_lookahead_takes_those_behind_that_fit():
    """W9."""
    scheduler = make(Lookahead())
    alternate(scheduler)
    assert started(scheduler) == ["r0", "r2", "r4"]
    end(scheduler, "r0", "r2", "r4")
    assert started(scheduler) == ["r1", "r3", "r5"]


def test_lookahead_keeps_the_order_among_those_that_fit():
    scheduler = make(Lookahead(), capacity=2)
    alternate(scheduler)
    assert started(scheduler) == ["r0", "r2"]
    end(scheduler, "r0")
    assert started(scheduler) == ["r4"]


def test_lookahead_is_bounded():
    scheduler = make(Lookahead(window=2))
    add(scheduler, "running", 512)
    started(scheduler)
    for number in range(3):
        add(scheduler, f"other{number}", 1024)
    add(scheduler, "late", 512)
    assert started(scheduler) == []


def test_an_urgent_request_is_looked_at_first():
    scheduler = make(Lookahead(), capacity=1)
    alternate(scheduler)
    add(scheduler, "urgent", 256, priority=-1)
    assert started(scheduler) == ["urgent"]


def test_requests_that_were_aborted_while_passed_are_gone():
    scheduler = make(Lookahead())
    alternate(scheduler)
    started(scheduler)
    scheduler.finish_requests(["r1"], _aborted(), None)
    scheduler.pop_request_state("r1")
    end(scheduler, "r0", "r2", "r4")
    assert started(scheduler) == ["r3", "r5"]
    assert scheduler.num_waiting_reqs == 0


def _aborted():
    from diffusion_stage.request import DiffusionRequestStatus

    return DiffusionRequestStatus.FINISHED_ABORTED


@given(
    heights=st.lists(st.sampled_from([256, 512, 1024]), min_size=1, max_size=60),
    lengths=st.lists(st.integers(1, 5), min_size=60, max_size=60),
    at_once=st.integers(1, 4),
)
def test_nobody_starves(heights, lengths, at_once):
    """A stream of arrivals that fit the running batch never keeps another waiting for ever."""
    scheduler = make(Lookahead(window=8, patience=PATIENCE))
    left = {}
    arrivals = list(enumerate(heights))
    overtaken = dict.fromkeys(range(len(heights)), 0)
    waiting = []
    while arrivals or left or waiting:
        for number, height in arrivals[:at_once]:
            add(scheduler, f"{number}", height)
            waiting.append(number)
        arrivals = arrivals[at_once:]
        begun = [int(each) for each in started(scheduler)]
        for number in begun:
            waiting.remove(number)
            left[number] = lengths[number]
            for other in waiting:
                overtaken[other] += other < number
        assert left, "a device with work to do is not left idle"
        over = [number for number in left if left[number] == 1]
        left = {number: steps - 1 for number, steps in left.items() if steps > 1}
        end(scheduler, *map(str, over))
    assert max(overtaken.values()) <= PATIENCE + CAPACITY


def test_names():
    assert isinstance(make_policy("fifo"), Fifo)
    assert isinstance(make_policy("lookahead"), Lookahead)


@pytest.mark.parametrize("policy", [Fifo(), Lookahead()])
def test_all_run_together_where_all_agree(policy):
    scheduler = make(policy)
    for number in range(5):
        add(scheduler, f"{number}", 512)
    assert started(scheduler) == ["0", "1", "2", "3"]
