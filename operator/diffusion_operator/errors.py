"""Every error of the operator, and who must act on it.

    OperatorError
    ├── TemplateError      the author of the manifest: podTemplate has the wrong shape
    ├── RefusedError       the author of the manifest, or whoever grants rights and quota:
    │   │                  a manifest that will not be taken, however often it is sent
    │   └── DroppedError   the same: taken, but without what this cluster has switched off
    └── ApiError           nobody at first: the API server is away or busy, the pass is repeated
        ├── AbsentError    404
        └── ConflictError  409

Each text is one line that stays the same while the cause does, so it may be put into a status.
"""


class OperatorError(Exception):
    """The root of the tree."""


class TemplateError(OperatorError):
    """The pod template cannot be merged; the text names the path."""


class RefusedError(OperatorError):
    """A manifest was refused; the text says by whom and why."""


class DroppedError(RefusedError):
    """The API server would take the manifest without a part of it; the text names the part."""


class ApiError(OperatorError):
    """A call did not succeed. `status` is that of HTTP, 0 where no answer came."""

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


class AbsentError(ApiError):
    """There is no object of that name."""


class ConflictError(ApiError):
    """The object is another one by now, or is there already."""
