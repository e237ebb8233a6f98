"""What a cluster was asked to be; handed from its launcher to its guard as a file."""

import dataclasses
import json
import re
from dataclasses import dataclass
from pathlib import Path

from testcluster.layout import Layout

MAX_NODES = 9


@dataclass(frozen=True, slots=True)
class Spec:
    """`nodes` may be 0: then there are only an API server and its controllers.

    `gpus` is what each node claims to have of `nvidia.com/gpu`. An `ephemeral` cluster's folder
    is removed with it. `store` names its image store: clusters that want the same large images
    and do not run at once have the same name.
    """

    nodes: int
    gpus: int
    binaries: str
    ephemeral: bool
    store: str = "default"

    def __post_init__(self) -> None:
        if not 0 <= self.nodes <= MAX_NODES:
            raise ValueError(f"nodes is {self.nodes}; allowed are 0 to {MAX_NODES}")
        if self.gpus < 0:
            raise ValueError(f"gpus is {self.gpus}; allowed are 0 and more")
        if not re.fullmatch("[a-z0-9-]+", self.store):
            raise ValueError(f"store is {self.store!r}; allowed are a-z, 0-9 and -")

    @property
    def numbers(self) -> range:
        """The nodes' numbers, from 1."""
        return range(1, self.nodes + 1)

    def write(self, layout: Layout) -> None:
        layout.spec.write_text(json.dumps(dataclasses.asdict(self)))

    @classmethod
    def read(cls, layout: Layout) -> "Spec":
        return cls(**json.loads(layout.spec.read_text()))

    @property
    def kubebox(self) -> Path:
        return Path(self.binaries) / "kubebox"
