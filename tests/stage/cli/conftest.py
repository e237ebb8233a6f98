"""What the commands change in the process that runs them."""

import logging

import pytest


@pytest.fixture(autouse=True)
def _logging_is_as_before():
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
