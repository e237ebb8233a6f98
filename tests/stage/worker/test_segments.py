"""Shared memory that goes back and forth, and stays with nobody."""

import os
from pathlib import Path

import pytest

from diffusion_stage.worker import segments
from diffusion_stage.worker.segments import PAGE, SegmentPool, SegmentReader, layout


@pytest.fixture
def pool():
    return SegmentPool()


@pytest.fixture
def reader():
    return SegmentReader()


def open_files():
    return len(list(Path("/proc/self/fd").iterdir()))


def hand_over(segment, reader):
    """As the channel does it: the reader gets a descriptor of its own."""
    reader.add(segment.segment_id, os.dup(segment.descriptor))


def test_what_the_worker_writes_the_stage_reads(pool, reader):
    segment = pool.lend(1000)
    segment.memory[:5] = b"hello"
    hand_over(segment, reader)
    view = reader.open(segment.segment_id)
    assert bytes(view[:5]) == b"hello"
    assert view.readonly


def test_a_segment_has_no_name_in_any_file_system(pool):
    descriptor = pool.lend(1000).descriptor
    assert str(Path(f"/proc/self/fd/{descriptor}").readlink()).startswith("/memfd:")


def test_a_returned_segment_is_used_again(pool):
    first = pool.lend(3 * PAGE)
    assert pool.lend(3 * PAGE) is not first, "it is still lent"
    pool.take_back(first.segment_id)
    assert pool.lend(2 * PAGE) is first


def test_a_segment_far_too_large_is_left_for_a_better_use(pool):
    large = pool.lend(16 * PAGE)
    pool.take_back(large.segment_id)
    assert pool.lend(PAGE) is not large


def test_the_smallest_that_fits_is_taken(pool):
    lent = [pool.lend(n * PAGE) for n in (4, 2, 3)]
    for segment in lent:
        pool.take_back(segment.segment_id)
    assert len(pool.lend(2 * PAGE).memory) == 2 * PAGE


def test_free_segments_beyond_the_limit_are_closed_and_told_once(pool, reader, monkeypatch):
    monkeypatch.setattr(segments, "MAX_FREE_BYTES", 3 * PAGE)
    lent = [pool.lend(2 * PAGE) for _ in range(2)]
    for segment in lent:
        hand_over(segment, reader)
        pool.take_back(segment.segment_id)
    dropped = pool.take_dropped()
    assert dropped == (lent[0].segment_id,)
    assert pool.take_dropped() == ()
    assert lent[0].memory.closed
    reader.drop(dropped)
    with pytest.raises(KeyError):
        reader.open(lent[0].segment_id)


def test_a_view_outlives_the_segment_that_was_dropped(pool, reader):
    segment = pool.lend(1000)
    segment.memory[:3] = b"old"
    hand_over(segment, reader)
    view = reader.open(segment.segment_id)
    reader.drop((segment.segment_id,))
    assert bytes(view[:3]) == b"old"


def test_a_lease_ends_once(pool, reader):
    segment = pool.lend(1000)
    hand_over(segment, reader)
    reader.open(segment.segment_id)
    assert reader.open_leases == 1
    assert reader.release(segment.segment_id)
    assert not reader.release(segment.segment_id)
    assert reader.open_leases == 0


def test_want_of_memory_is_an_error_of_this_output_alone(pool, monkeypatch):
    def refuse(*_):
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(segments.mmap, "mmap", refuse)
    before = open_files()
    with pytest.raises(OSError, match="Cannot allocate memory"):
        pool.lend(1000)
    assert open_files() == before
    monkeypatch.undo()
    assert pool.lend(1000)


@pytest.mark.parametrize(
    ("sizes", "offsets", "total"),
    [([], (), 1), ([0], (0,), 1), ([1], (0,), 64), ([64, 1, 65], (0, 64, 128), 256)],
)
def test_arrays_lie_one_after_the_other_aligned(sizes, offsets, total):
    assert layout(sizes) == (offsets, total)
