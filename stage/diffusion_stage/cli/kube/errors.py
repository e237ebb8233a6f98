"""What ends a command of the plug-in, and who must act on it.

KubeError                   the user: the message says what to do
├── NoReadyReplicaError     nobody serves; the status says why
└── KubectlError            kubectl ended with an error; the message has its own words
    ├── MissingKindError    the cluster's administrator: the CRD is not installed
    ├── NotFoundError       the user: another name, or another namespace
    └── ForbiddenError      the cluster's administrator: a right is missing
"""

EX_NOT_READY = 1
EX_KUBECTL = 2

SAYS = "kubectl says"


class KubeError(Exception):
    """The root of the tree; it carries the exit code."""

    exit_code = EX_KUBECTL


class NoReadyReplicaError(KubeError):
    exit_code = EX_NOT_READY


class KubectlError(KubeError):
    """`words` are what kubectl wrote to its standard error."""

    advice = "kubectl failed"

    def __init__(self, words: str) -> None:
        super().__init__(f"{self.advice}; {SAYS}: {words}")
        self.words = words


class MissingKindError(KubectlError):
    advice = (
        "this cluster knows no DiffusionStages: install the chart diffusion-operator, or name "
        "another cluster with --context"
    )


class NotFoundError(KubectlError):
    advice = "there is no such stage here: `kubectl dstage status -A` shows all"


class ForbiddenError(KubectlError):
    advice = "a right is missing"


def kubectl_error(words: str) -> KubectlError:
    """The error that kubectl's words tell of."""
    if "doesn't have a resource type" in words or "could not find the requested resource" in words:
        return MissingKindError(words)
    if "(NotFound)" in words:
        return NotFoundError(words)
    if "(Forbidden)" in words:
        return ForbiddenError(words)
    return KubectlError(words)
