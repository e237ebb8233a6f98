"""The last words: one line of JSON, no longer than the kubelet keeps."""

import json
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diffusion_stage.errors import EngineDiedError, ModelError, WorkerDiedError
from diffusion_stage.server.termination import compose, write

DEATH = WorkerDiedError("worker 1 was killed", rank=1, device="cpu:1", signal=9, step=7)


def said(error):
    return compose(error, phase="serving", inflight=4, uptime_s=81.234)


def test_it_says_what_happened_where():
    assert json.loads(said(DEATH)) == {
        "v": 1,
        "reason": "WorkerDied",
        "exitCode": 71,
        "rank": 1,
        "device": "cpu:1",
        "signal": 9,
        "phase": "serving",
        "step": 7,
        "inflight": 4,
        "uptime_s": 81.2,
        "msg": "worker 1 was killed",
    }


def test_what_is_not_known_is_null():
    words = json.loads(said(ModelError("no such folder")))
    assert [words[key] for key in ("rank", "device", "signal", "step")] == [None] * 4


NASTY = ["\n\r\t", '"\\', "\0\x1b[31m", "\u2028", "漢", "😀", "\udcff"]


@pytest.mark.parametrize("text", NASTY)
@pytest.mark.parametrize("count", [1, 1999, 50_000])
def test_any_message_fits_in_one_line(text, count):
    line = said(EngineDiedError(text * count))
    assert len(line.encode()) <= 4096
    assert "\n" not in line
    assert (text * count).startswith(json.loads(line)["msg"])


@given(st.lists(st.sampled_from([*string.printable, *NASTY]), max_size=3000).map("".join))
@settings(max_examples=50, deadline=None)
def test_as_much_of_the_message_is_kept_as_fits(text):
    line = said(EngineDiedError(text))
    assert len(line.encode()) <= 4096
    kept = json.loads(line)["msg"]
    assert text.startswith(kept)
    assert kept == text[:2000] or len(line) > 4096 - 12


def test_it_is_written_where_the_kubelet_looks(tmp_path):
    path = tmp_path / "termination-log"
    path.write_text("what an earlier container left, and much longer " * 100)
    write(str(path), DEATH, phase="serving", inflight=0, uptime_s=1.0)
    assert json.loads(path.read_text())["reason"] == "WorkerDied"


def test_a_path_that_cannot_be_written_is_logged_with_the_words(tmp_path, caplog):
    write(str(tmp_path / "missing" / "log"), DEATH, phase="serving", inflight=0, uptime_s=1.0)
    assert "no termination message at" in caplog.text
    assert "worker 1 was killed" in caplog.text
