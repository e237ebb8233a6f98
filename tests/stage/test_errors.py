"""The error tree: each class carries its wire status or its exit code."""

import pytest

from diffusion_stage import errors

EXIT_CODES = {
    "ConfigInvalid": 64,
    "ModelUnavailable": 66,
    "AcceleratorUnusable": 69,
    "EngineDied": 70,
    "WorkerDied": 71,
    "DeviceOutOfMemory": 72,
    "Hang": 73,
    "StartupTimeout": 75,
}


@pytest.mark.parametrize(("reason", "exit_code"), EXIT_CODES.items())
def test_each_reason_of_a_death_has_its_exit_code(reason, exit_code):
    kind = errors.fatal_error(reason)
    assert (kind.reason, kind.exit_code) == (reason, exit_code)


def test_an_unknown_reason_is_an_engine_that_died():
    assert errors.fatal_error("Bored") is errors.EngineDiedError


@pytest.mark.parametrize(
    "kind",
    [
        errors.InvalidArgumentError,
        errors.AlreadyExistsError,
        errors.ResourceExhaustedError,
        errors.DeadlineExceededError,
        errors.CancelledError,
        errors.UnauthenticatedError,
        errors.UnavailableError,
        errors.EngineDeadError,
        errors.InternalError,
    ],
)
def test_a_request_error_survives_the_wire(kind):
    error = errors.request_error(kind.reason, "words", field="height")
    assert type(error) is kind
    assert (str(error), error.field) == ("words", "height")


def test_an_unknown_wire_reason_is_internal_and_keeps_its_words():
    error = errors.request_error("TEAPOT", "short and stout")
    assert type(error) is errors.InternalError
    assert str(error) == "TEAPOT: short and stout"


def test_only_errors_that_another_replica_may_mend_are_retryable():
    kinds = errors._leaves(errors.RequestError)
    retryable = {kind.__name__ for kind in kinds if kind.retryable}
    assert retryable == {
        "EngineDeadError",
        "ResourceExhaustedError",
        "UnauthenticatedError",
        "UnavailableError",
    }
