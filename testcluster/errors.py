"""Every error of the test cluster, and who must act on it.

ClusterError
├── RequirementError    whoever runs the machine: a package, a right, a kernel feature
├── BuildError          whoever runs the machine: no Go, no network; else the developers
├── StartError          the developers: a part ended or was not ready in time; its log is named
└── CommandError        the caller: a command inside the cluster failed
"""


class ClusterError(Exception):
    """The root of the tree."""


class RequirementError(ClusterError):
    """This machine lacks something; the message says what, why and how to get it."""


class BuildError(ClusterError):
    """A binary of the cluster could not be built."""


class StartError(ClusterError):
    """The cluster did not come up, or is not up."""


class CommandError(ClusterError):
    """A command inside the cluster ended with something other than 0, or not in time."""
