"""What came of each apply: spares the requests that would change nothing."""

import hashlib
import json

from diffusion_operator.manifest import Ident, Manifest, ident

VOLATILE = ("generation", "managedFields", "resourceVersion")


class Memory:
    """For each child of one stage, digests of what was applied and of what the server made of it.

    Both are compared with their like only, so no knowledge of defaults or normal forms is needed
    (`1000m` is `1`), and every edit by others shows. A new process remembers nothing and applies
    everything once, which changes nothing.
    """

    def __init__(self) -> None:
        self.absent: set[str] = set()
        """Rare kinds of which there was nothing, nor was anything wanted: only we make them."""
        self._known: dict[Ident, tuple[bytes, bytes]] = {}

    def is_settled(self, manifest: Manifest, live: Manifest) -> bool:
        """Whether `manifest` was applied and `live` is still what came of it."""
        return self._known.get(ident(manifest)) == (_digest(manifest), _digest(_lasting(live)))

    def remember(self, manifest: Manifest, answer: Manifest) -> None:
        """Keep what the server answered to applying `manifest`."""
        self._known[ident(manifest)] = _digest(manifest), _digest(_lasting(answer))


def _lasting(live: Manifest) -> Manifest:
    metadata = {key: value for key, value in live["metadata"].items() if key not in VOLATILE}
    return {key: live[key] for key in live if key != "status"} | {"metadata": metadata}


def _digest(manifest: Manifest) -> bytes:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).digest()
