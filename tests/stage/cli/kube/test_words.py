"""Lengths of time and texts from elsewhere."""

from datetime import timedelta

import pytest

from diffusion_stage.cli.kube.words import ago, duration, plain
from tests.stage.cli.kube.builders import NOW


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-3, "0s"),
        (0.9, "0s"),
        (119, "119s"),
        (120, "2m"),
        (200, "3m20s"),
        (1100, "18m"),
        (3600, "1h"),
        (18720, "5h12m"),
        (100000, "27h"),
        (200000, "2d"),
    ],
)
def test_a_length_of_time_has_two_units_at_most(seconds, text):
    assert duration(seconds) == text


def test_a_time_that_is_not_known_is_a_dash():
    assert ago(None, NOW) == "-"
    assert ago(NOW - timedelta(hours=1), NOW) == "1h"


def test_what_a_container_says_cannot_steer_the_terminal():
    assert plain("a\x1b[31m b\r\nc\x07") == "a [31m b c"
