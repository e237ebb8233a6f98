"""When a failed request is tried again, and where."""

import pytest

from diffusion_stage.client.attempt import Failure
from diffusion_stage.client.retry import LONGEST_PAUSE_S, Retry
from diffusion_stage.errors import (
    AlreadyExistsError,
    CancelledError,
    DeadlineExceededError,
    EngineDeadError,
    InternalError,
    InvalidArgumentError,
    ResourceExhaustedError,
    UnavailableError,
)

RETRYABLE = (ResourceExhaustedError, UnavailableError, EngineDeadError)
FINAL = (
    AlreadyExistsError,
    CancelledError,
    DeadlineExceededError,
    InternalError,
    InvalidArgumentError,
)


def failed(retry, kind, address="a", now=0.0):
    return retry.failed(address, Failure.of(kind("as scripted")), now=now)


@pytest.mark.parametrize("kind", RETRYABLE)
def test_an_error_that_another_attempt_may_mend_is_retried(kind):
    assert failed(Retry(), kind)


@pytest.mark.parametrize("kind", FINAL)
def test_any_other_error_is_final(kind):
    assert not failed(Retry(), kind)


@pytest.mark.parametrize("retryable", [True, False])
def test_the_stage_has_the_last_word_on_whether_to_retry(retryable):
    failure = Failure(ResourceExhaustedError("never fits"), retryable)
    assert Retry().failed("a", failure, now=0.0) is retryable


def test_the_echo_of_our_own_attempt_is_retried():
    retry = Retry()
    failed(retry, UnavailableError, "a")
    assert failed(retry, AlreadyExistsError, "a")


def test_an_id_that_exists_where_we_were_not_is_somebody_elses():
    retry = Retry()
    failed(retry, UnavailableError, "a")
    assert not failed(retry, AlreadyExistsError, "b")


def test_only_the_replica_that_failed_is_left_alone():
    retry = Retry(jitter=lambda: 1.0)
    failed(retry, UnavailableError, "a", now=10.0)
    assert retry.not_before == {"a": 10.1}


def test_pauses_double_up_to_a_limit():
    retry = Retry(jitter=lambda: 1.0)
    pauses = []
    for _ in range(200):
        failed(retry, UnavailableError, "a", now=0.0)
        pauses.append(retry.not_before["a"])
    assert pauses[:4] == [0.1, 0.2, 0.4, 0.8]
    assert pauses[-1] == LONGEST_PAUSE_S


def test_jitter_shortens_a_pause_by_half_at_most():
    retry = Retry(jitter=lambda: 0.0)
    failed(retry, UnavailableError, "a")
    assert retry.not_before["a"] == 0.05
