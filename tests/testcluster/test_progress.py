from testcluster.progress import Progress, events


def test_events_arrive_in_order_and_once(tmp_path):
    progress = Progress(tmp_path / "progress")
    progress.mark("network")
    first = list(events(tmp_path / "progress"))
    progress.ready()
    second = list(events(tmp_path / "progress", seen=1))
    assert [(event.kind, event.text) for event in first] == [("mark", "network")]
    assert [event.kind for event in second] == ["ready"]


def test_a_line_that_is_still_being_written_is_left_for_later(tmp_path):
    (tmp_path / "progress").write_text('{"kind": "mark", "seco')
    assert list(events(tmp_path / "progress")) == []


def test_a_cluster_that_said_nothing_yet_has_no_events(tmp_path):
    assert list(events(tmp_path / "progress")) == []
