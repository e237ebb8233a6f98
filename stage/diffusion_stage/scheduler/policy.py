"""Whether a waiting request may be passed by one behind it that fits the running batch."""

import abc
from collections.abc import Iterable
from typing import Protocol, assert_never

from diffusion_stage.config.stage import PolicyName


class _Waiting(Protocol):
    overtaken: int


class Policy(abc.ABC):
    """Asked about the first of the queue, when it does not fit."""

    @abc.abstractmethod
    def may_pass(self, state: _Waiting, passed: int) -> bool:
        """Whether to look behind it; `passed` are passed already in this turn."""

    def overtake(self, passed: Iterable[_Waiting]) -> None:
        """A request was scheduled before these."""
        for state in passed:
            state.overtaken += 1


class Fifo(Policy):
    """Stops at the first that does not fit: nobody is overtaken, and some devices wait."""

    def may_pass(self, state: _Waiting, passed: int) -> bool:  # noqa: ARG002
        return False


class Lookahead(Policy):
    """Looks behind up to `window` requests. One that was overtaken `patience` times is passed no
    more, so the batch drains and it is next: nobody starves.
    """

    def __init__(self, window: int = 64, patience: int = 32) -> None:
        self._window = window
        self._patience = patience

    def may_pass(self, state: _Waiting, passed: int) -> bool:
        return passed < self._window and state.overtaken < self._patience


def make_policy(name: PolicyName) -> Policy:
    match name:
        case "fifo":
            return Fifo()
        case "lookahead":
            return Lookahead()
        case _:
            assert_never(name)
