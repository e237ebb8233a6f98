"""What errors of the model hub and of its cache mean, for whoever can do something about them."""

import errno
import os
import shutil
from collections.abc import Iterator

from huggingface_hub import constants
from huggingface_hub.errors import (  # type: ignore[attr-defined]  # HTTPError: httpx' own
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    HTTPError,
    OfflineModeIsEnabled,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from diffusion_stage.pipelines.source import INDEX, ModelSource

ERRORS = (EntryNotFoundError, HTTPError)
"""What is raised besides the built-in ones."""

FULL = (errno.ENOSPC, errno.EDQUOT)
FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)
UNAUTHORIZED = 401
TOKEN = "HF_TOKEN"
MEANINGS: tuple[tuple[type[Exception], str], ...] = (
    (OfflineModeIsEnabled, "it is not whole in {cache}, and HF_HUB_OFFLINE keeps from the hub"),
    (GatedRepoError, "{hub} gives it to those alone who were granted access; {asked}"),
    (RepositoryNotFoundError, "{hub} knows no such repository, or hides it as private; {asked}"),
    (RevisionNotFoundError, "{hub} knows no revision {revision!r} of it"),
    (RemoteEntryNotFoundError, f"not a pipeline; {{hub}} has no {INDEX} in it"),
)
"""The more special class first."""


def token() -> str | None:
    """What the hub is asked with."""
    return os.environ.get(TOKEN) or None


def explain(error: BaseException, source: ModelSource) -> str:
    """The cause of a failed load, in words, and what is to be done where that is known."""
    causes = list(_causes(error))
    for cause in causes:
        words = _of_disk(cause)
        if words is None and not source.is_local:
            words = _of_hub(cause, source)
        if words is not None:
            return words
    words = f"{type(error).__name__}: {error}"
    if source.is_local:
        return words
    return f"{words}; if the cache is damaged, delete its folder in {constants.HF_HUB_CACHE}"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The root first: what was raised at last only says that something went wrong."""
    chain: list[BaseException] = []
    following: BaseException | None = error
    while following is not None and following not in chain:
        chain.append(following)
        following = following.__cause__ or following.__context__
    return reversed(chain)


def _of_disk(cause: BaseException) -> str | None:
    if not isinstance(cause, OSError):
        return None
    if cause.errno in FULL:
        cache = constants.HF_HUB_CACHE
        return (
            f"the disk is full: {_free_bytes(cache)} bytes are free at {cache}; "
            "allowed: a volume that the model fits on"
        )
    if cause.errno in FORBIDDEN and cause.filename is not None:
        return f"{cause.filename}: {cause.strerror}, as user {os.geteuid()}"
    return None


def _free_bytes(path: str) -> int:
    """Of the file system that the path is, or would be, on."""
    while not os.path.isdir(path):  # noqa: PTH112  # huggingface_hub names its cache by a string
        path = os.path.dirname(path)  # noqa: PTH120
    return shutil.disk_usage(path).free


def _of_hub(cause: BaseException, source: ModelSource) -> str | None:
    """A refused request is raised from httpx' own error of the same answer, which says less."""
    asked = "it was asked without a token" if token() is None else f"the token is that in {TOKEN}"
    for kind, words in MEANINGS:
        if isinstance(cause, kind):
            return words.format(
                hub=constants.ENDPOINT,
                cache=constants.HF_HUB_CACHE,
                revision=source.revision,
                asked=asked,
            )
    if isinstance(cause, HfHubHTTPError):
        status = cause.response.status_code
        if status == UNAUTHORIZED:
            return f"{constants.ENDPOINT} does not accept the token in {TOKEN}"
        return f"{constants.ENDPOINT} answers with status {status}: {cause}"
    if isinstance(cause, HTTPError) and type(cause).__name__ != "HTTPStatusError":
        what = f"{type(cause).__name__}: {cause}"
        return f"{constants.ENDPOINT} cannot be reached, or broke off: {what}"
    return None
