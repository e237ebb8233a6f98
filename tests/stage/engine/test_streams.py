"""What the consumer of one request sees, and what becomes of an output that nobody reads."""

import pytest

from diffusion_stage.engine.streams import OutputStream
from diffusion_stage.errors import CancelledError
from diffusion_stage.outputs import Completed, Failed, StepProgress
from tests.stage.builders import make_output


@pytest.fixture
def notified():
    return []


@pytest.fixture
def stream(notified):
    return OutputStream("a", notified.append)


@pytest.fixture
def released():
    return []


@pytest.fixture
def completed(released):
    return Completed(make_output(release=lambda: released.append("output")))


def test_events_come_once_and_in_order(stream, completed):
    stream.put_progress(StepProgress(1, 2))
    assert stream.take() == [StepProgress(1, 2)]
    stream.put_progress(StepProgress(2, 2))
    stream.put_end(completed)
    assert stream.take() == [StepProgress(2, 2), completed]
    assert stream.take() == []


def test_unread_progress_is_replaced_by_newer(stream):
    for step in range(1, 1001):
        stream.put_progress(StepProgress(step, 1000))
    assert stream.take() == [StepProgress(1000, 1000)]


def test_each_write_is_told(stream, notified, completed):
    stream.put_progress(StepProgress(1, 1))
    stream.put_end(completed)
    assert notified == [stream, stream]


def test_a_second_end_is_a_fault_of_the_engine(stream, completed):
    stream.put_end(completed)
    stream.take()
    with pytest.raises(AssertionError, match="request a ended twice"):
        stream.put_end(completed)


def test_an_output_that_was_read_is_the_readers_to_release(stream, completed, released):
    stream.put_end(completed)
    stream.take()
    stream.close()
    assert released == []


def test_an_unread_output_is_released_when_its_reader_leaves(stream, completed, released):
    stream.put_end(completed)
    stream.close()
    stream.close()
    assert released == ["output"]
    assert stream.take() == []


def test_an_output_that_comes_after_its_reader_left_is_released_at_once(
    stream, completed, released, notified
):
    stream.close()
    stream.put_end(completed)
    assert released == ["output"]
    assert (stream.take(), notified) == ([], [])


def test_a_failed_end_needs_no_release(stream):
    stream.close()
    stream.put_end(Failed(CancelledError("as asked")))
    assert stream.take() == []
