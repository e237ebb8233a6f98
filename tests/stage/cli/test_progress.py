"""The progress line, drawn on a string."""

import io

from diffusion_stage.cli.progress import ProgressLine


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_without_a_terminal_there_are_lines_for_ends_only():
    stream = io.StringIO()
    line = ProgressLine(2, stream)
    line.advance(0, 1, 4)
    line.finish(1, "second")
    line.finish(0, "first")
    assert stream.getvalue() == "[1/2] second\n[2/2] first\n"


def test_a_terminal_shows_the_share_of_all_steps():
    stream = Terminal()
    line = ProgressLine(2, stream, clock=lambda: 1.0)
    line.advance(0, 2, 4)
    assert stream.getvalue().endswith(f"{'█' * 6}{'░' * 18}  25%  0/2 done  0.0 s")


def test_the_line_is_not_drawn_more_often_than_one_sees():
    times = iter([0.0, 1.0, 1.0, 1.01, 1.2, 1.2])
    stream = Terminal()
    line = ProgressLine(1, stream, clock=lambda: next(times))
    for step in range(3):
        line.advance(0, step, 4)
    assert stream.getvalue().count("done") == 2


def test_the_line_is_gone_when_all_is_done():
    stream = Terminal()
    line = ProgressLine(1, stream, clock=lambda: 0.0)
    line.advance(0, 1, 4)
    line.finish(0, "it")
    assert stream.getvalue().endswith("\r\x1b[K[1/1] it\n")


def test_a_retry_sets_the_share_back():
    stream = Terminal()
    line = ProgressLine(1, stream, clock=iter(range(100)).__next__)
    line.advance(0, 4, 4)
    line.advance(0, 1, 4)
    assert " 25% " in stream.getvalue().rpartition("\r")[2]
