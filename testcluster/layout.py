"""Where the files of a cluster and of all clusters lie."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
RUN = Path("/run/testcluster")  # on a tmpfs of the cluster's own mount namespace: never on the host
GROUP_PREFIX = "testcluster-"


def cache() -> Path:
    """The folder kept between starts: binaries, images, and the folders of named clusters."""
    named = os.environ.get("TESTCLUSTER_CACHE")
    return Path(named).resolve() if named else REPOSITORY / ".cache" / "testcluster"


@dataclass(frozen=True, slots=True)
class Layout:
    """The files of one cluster, below `root`."""

    root: Path

    @property
    def id(self) -> str:
        """Names the cluster's control groups; the same for the same root, so a crash hides none."""
        return GROUP_PREFIX + hashlib.sha256(str(self.root).encode()).hexdigest()[:10]

    @property
    def spec(self) -> Path:
        return self.root / "spec.json"

    @property
    def lock(self) -> Path:
        return self.root / "lock"

    @property
    def progress(self) -> Path:
        return self.root / "progress.jsonl"

    @property
    def init_pid(self) -> Path:
        return self.root / "init.pid"

    @property
    def store_link(self) -> Path:
        """A link to the image store in use; gone when the cluster is down."""
        return self.root / "store"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def bin(self) -> Path:
        """Links named kubectl and helm, for the PATH of commands inside."""
        return self.root / "bin"

    @property
    def pki(self) -> Path:
        return self.root / "pki"

    @property
    def ca(self) -> Path:
        """Signs the API server's certificate."""
        return self.pki / "apiserver.crt"

    @property
    def account_key(self) -> Path:
        """Signs the tokens of service accounts."""
        return self.pki / "accounts.key"

    @property
    def tokens(self) -> Path:
        return self.pki / "tokens.csv"

    @property
    def kubeconfig(self) -> Path:
        return self.kubeconfig_of("admin")

    def kubeconfig_of(self, user: str) -> Path:
        return self.root / "kubeconfig" / user.replace(":", "_")

    def node(self, number: int) -> Path:
        """The state of one node, other than its images."""
        return self.root / f"node-{number}"
