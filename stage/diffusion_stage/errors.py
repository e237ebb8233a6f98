"""Every error of the stage, and who must act on it.

    StageError
    ├── RequestError                one request ends; the stage goes on
    │   ├── InvalidArgumentError    the caller changes the request
    │   ├── AlreadyExistsError      the caller picks another request id
    │   ├── ResourceExhaustedError  the caller waits, or asks another replica      (retryable)
    │   ├── DeadlineExceededError   the caller allows more time
    │   ├── CancelledError          nobody: the caller asked for it
    │   ├── UnauthenticatedError    the caller shows a key that is admitted; another replica
    │   │                           may admit it already                           (retryable)
    │   ├── UnavailableError        another replica serves: draining, disconnected (retryable)
    │   │   └── EngineDeadError     another replica serves: the engine is dead     (retryable)
    │   └── InternalError           the developers: an exception in model code
    └── FatalError                  the stage ends with `exit_code`; its pod is restarted
        ├── ConfigError         64  the author of the manifest
        ├── ModelError          66  the author of the manifest: model missing or unreadable
        ├── AcceleratorError    69  whoever runs the node
        ├── EngineDiedError     70  the developers: an exception ended the engine
        ├── WorkerDiedError     71  a worker was killed by a signal
        ├── DeviceMemoryError   72  the author of the manifest: the device is too small
        ├── HangError           73  whoever runs the node: no step progress in time
        └── StartupTimeoutError 75  the author of the manifest: more time, or a faster disk

A request error carries the name of a gRPC status code (https://grpc.io/docs/guides/status-codes/).
Exit codes below 128 leave 128 + n to signals, which the kernel and the kubelet report.
"""

from typing import ClassVar


class StageError(Exception):
    """The root of the tree."""


class RequestError(StageError):
    """Ends one request. `field` names the parameter at fault, where there is one."""

    status: ClassVar[str] = "UNKNOWN"
    reason: ClassVar[str] = "UNKNOWN"
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class InvalidArgumentError(RequestError):
    status = reason = "INVALID_ARGUMENT"


class AlreadyExistsError(RequestError):
    status = reason = "ALREADY_EXISTS"


class ResourceExhaustedError(RequestError):
    status = reason = "RESOURCE_EXHAUSTED"
    retryable = True


class DeadlineExceededError(RequestError):
    status = reason = "DEADLINE_EXCEEDED"


class CancelledError(RequestError):
    status = reason = "CANCELLED"


class UnauthenticatedError(RequestError):
    status = reason = "UNAUTHENTICATED"
    retryable = True


class UnavailableError(RequestError):
    status = "UNAVAILABLE"
    reason = "UNAVAILABLE"
    retryable = True


class EngineDeadError(UnavailableError):
    reason = "ENGINE_DEAD"


class InternalError(RequestError):
    status = reason = "INTERNAL"


class FatalError(StageError):
    """Ends the stage. The fields say where: a worker's rank and device, a signal, a step."""

    reason: ClassVar[str] = "EngineDied"
    exit_code: ClassVar[int] = 70

    def __init__(
        self,
        message: str,
        *,
        rank: int | None = None,
        device: str | None = None,
        signal: int | None = None,
        step: int | None = None,
    ) -> None:
        super().__init__(message)
        self.rank = rank
        self.device = device
        self.signal = signal
        self.step = step


class ConfigError(FatalError):
    reason = "ConfigInvalid"
    exit_code = 64


class ModelError(FatalError):
    reason = "ModelUnavailable"
    exit_code = 66


class AcceleratorError(FatalError):
    reason = "AcceleratorUnusable"
    exit_code = 69


class EngineDiedError(FatalError):
    reason = "EngineDied"
    exit_code = 70


class WorkerDiedError(FatalError):
    reason = "WorkerDied"
    exit_code = 71


class DeviceMemoryError(FatalError):
    reason = "DeviceOutOfMemory"
    exit_code = 72


class HangError(FatalError):
    reason = "Hang"
    exit_code = 73


class StartupTimeoutError(FatalError):
    reason = "StartupTimeout"
    exit_code = 75


def _leaves(root: type[StageError]) -> list[type[StageError]]:
    return [root, *(leaf for child in root.__subclasses__() for leaf in _leaves(child))]


def request_error(reason: str, message: str, *, field: str | None = None) -> RequestError:
    """The error that a wire message tells of; an unknown reason becomes `InternalError`."""
    for kind in _leaves(RequestError):
        if issubclass(kind, RequestError) and kind.reason == reason:
            return kind(message, field=field)
    return InternalError(f"{reason}: {message}", field=field)


def fatal_error(reason: str) -> type[FatalError]:
    """The class whose `reason` a worker reported; an unknown one becomes `EngineDiedError`."""
    for kind in _leaves(FatalError):
        if issubclass(kind, FatalError) and kind.reason == reason:
            return kind
    return EngineDiedError
