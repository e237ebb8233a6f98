"""One cluster for all tests that need one: a node with eight GPUs that are only claimed."""

from collections.abc import Iterator

import pytest

from testcluster import Cluster


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=1, gpus=8) as running:
        yield running
