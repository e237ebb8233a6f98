"""When a request that failed on a replica is tried again, and where not."""

import random
from collections import Counter
from collections.abc import Callable

from diffusion_stage.client.attempt import Failure
from diffusion_stage.errors import AlreadyExistsError, RequestError

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0


class Retry:
    """The history of one request. `not_before`: until when it keeps away from an address."""

    def __init__(self, jitter: Callable[[], float] = random.random) -> None:
        self.not_before: dict[str, float] = {}
        self.last_error: RequestError | None = None
        self.attempts = 0
        self._failures: Counter[str] = Counter()
        self._jitter = jitter

    def failed(self, address: str, failure: Failure, *, now: float) -> bool:
        """Notes a failed attempt; says whether the request may be tried again."""
        tried_here = self._failures[address] > 0
        self._failures[address] += 1
        self.last_error = failure.error
        self.not_before[address] = now + self._pause_s(self._failures[address])
        # An earlier attempt of ours is not yet taken down there: it is no one else's id.
        is_own_echo = isinstance(failure.error, AlreadyExistsError) and tried_here
        return failure.retryable or is_own_echo

    def _pause_s(self, failures: int) -> float:
        """Doubles with each failure, spread so that clients do not return all at once."""
        longest = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(failures - 1, 16))
        return longest * (0.5 + 0.5 * self._jitter())
