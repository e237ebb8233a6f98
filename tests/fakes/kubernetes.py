"""A cluster in memory, as far as a pass of the operator can tell.

Applying replaces the spec and keeps what others own; nothing else happens by itself: no
controllers, no defaults. The real API server is for `tests/cluster`.
"""

import itertools
from copy import deepcopy


class FakeCluster:
    """Answers like `diffusion_operator.cluster.Cluster`, and notes every read and write.

    `refusals` maps a kind to the error that applying it raises; `drops` is what a dry run makes of
    a manifest.
    """

    def __init__(self):
        self.objects = {}
        self.reads = []
        self.writes = []
        self.refusals = {}
        self.drops = lambda manifest: manifest
        self._numbers = itertools.count(1)

    def put(self, manifest):
        """Have the object there, as if somebody else had made it."""
        metadata = manifest["metadata"]
        key = (manifest["kind"], metadata.get("namespace"), metadata["name"])
        stored = deepcopy(manifest)
        stored["metadata"].setdefault("uid", f"uid-{next(self._numbers)}")
        stored["metadata"].setdefault("generation", 1)
        stored["metadata"]["resourceVersion"] = str(next(self._numbers))
        self.objects[key] = stored
        return stored

    def find(self, kind, name, namespace="ns"):
        return self.objects.get((kind, namespace, name))

    async def get(self, api_version, kind, namespace, name):
        self.reads.append(("get", kind))
        return deepcopy(self.find(kind, name, namespace))

    async def list(self, api_version, kind, namespace, selector):
        """The selector is `key=value`, or a `key` that must be there."""
        self.reads.append(("list", kind))
        key, _, value = selector.partition("=")
        labelled = [
            (found, found["metadata"].get("labels", {}))
            for (its_kind, its_namespace, _), found in self.objects.items()
            if (its_kind, its_namespace) == (kind, namespace)
        ]
        return [
            deepcopy(found)
            for found, labels in labelled
            if key in labels and value in ("", labels[key])
        ]

    async def apply(self, manifest, *, dry_run=False):
        kind, metadata = manifest["kind"], manifest["metadata"]
        if kind in self.refusals:
            raise self.refusals[kind]
        if dry_run:
            return self.drops(deepcopy(manifest))
        self.writes.append(("apply", kind, metadata["name"]))
        before = self.find(kind, metadata["name"], metadata.get("namespace"))
        merged = deepcopy(manifest)
        if before is not None:
            for name in ("uid", "generation"):
                merged["metadata"][name] = before["metadata"][name]
            merged["metadata"]["generation"] += before.get("spec") != manifest.get("spec")
            merged["status"] = before.get("status", {})
        return deepcopy(self.put(merged))

    async def apply_status(self, manifest):
        metadata = manifest["metadata"]
        self.writes.append(("status", manifest["kind"], metadata["name"]))
        found = self.find(manifest["kind"], metadata["name"], metadata["namespace"])
        assert found["metadata"]["uid"] == metadata["uid"]
        found["status"] = deepcopy(manifest["status"])

    async def delete(self, manifest, *, grace_s=None):
        metadata = manifest["metadata"]
        verb = "delete" if grace_s is None else f"delete after {grace_s} s"
        self.writes.append((verb, manifest["kind"], metadata["name"]))
        found = self.find(manifest["kind"], metadata["name"], metadata["namespace"])
        if found is not None and metadata.get("uid") in (None, found["metadata"]["uid"]):
            del self.objects[manifest["kind"], metadata["namespace"], metadata["name"]]

    async def create(self, manifest):
        kind, metadata = manifest["kind"], manifest["metadata"]
        if kind in self.refusals:
            raise self.refusals[kind]
        self.writes.append(("create", kind, metadata["name"]))
        if self.find(kind, metadata["name"], metadata["namespace"]) is None:
            self.put(manifest)

    def events(self, reason=None):
        """Those posted, in order; of one reason, or of all."""
        found = [one for (kind, *_), one in self.objects.items() if kind == "Event"]
        return [one for one in found if reason in (None, one["reason"])]
