"""A real Kubernetes cluster in namespaces of its own, for tests and for the demo."""

from testcluster.cluster import Cluster
from testcluster.errors import BuildError, ClusterError, CommandError, RequirementError, StartError
from testcluster.leftovers import leftovers

__all__ = [
    "BuildError",
    "Cluster",
    "ClusterError",
    "CommandError",
    "RequirementError",
    "StartError",
    "leftovers",
]
