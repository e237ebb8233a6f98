"""Stages of the tests: the stand-in, run by this machine's own Python in an empty image."""

import json
import sys
import time
from pathlib import Path

from testcluster import Cluster, containerd

HERE = Path(__file__).parent
FOLDERS = ("/usr", "/lib", "/lib64", sys.base_prefix, str(HERE))
DEAD_WORKER, BAD_DEVICE = "die?code=71&rank=1", "die?code=69&rank=0"  # what `ask` may ask for
CHILDREN = (("sts", "{}"), ("svc", "{}"), ("svc", "{}-pods"), ("pdb", "{}"))

SHORT = {"StatefulSet": "sts", "Service": "svc", "PodDisruptionBudget": "pdb"}


def manifest(name, **spec):
    """A stage of one replica, without devices; `spec` goes over it."""
    return {
        "apiVersion": "diffusionstage.io/v1alpha1",
        "kind": "DiffusionStage",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "image": containerd.PAUSE,
            "imagePullPolicy": "Never",
            "model": {"uri": "/models/m"},
            "accelerator": {"count": 0},
            "drain": {"timeoutSeconds": 0},
            "sharedMemory": 0,
            "podTemplate": template(),
        }
        | spec,
    }


def template(**container):
    """The node is this machine, so pods may borrow its Python."""
    folders = {
        f"host-{n}": path for n, path in enumerate(dict.fromkeys(FOLDERS)) if Path(path).exists()
    }
    stage = {
        "name": "stage",
        "command": [str(Path(sys.base_prefix, "bin", "python3")), str(HERE / "standin.py")],
        "volumeMounts": [
            {"name": name, "mountPath": path, "readOnly": True} for name, path in folders.items()
        ],
    }
    volumes = [{"name": name, "hostPath": {"path": path}} for name, path in folders.items()]
    return {"spec": {"volumes": volumes, "containers": [stage | container]}}


class Stages:
    """Makes stages on a cluster, looks at them, and removes them."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._made: list[str] = []

    def make(self, name, *, ready=True, **spec):
        self._made.append(name)
        self._cluster.apply(manifest(name, **spec))
        if ready:
            self.wait(name)
        return name

    def make_all(self, specs):
        """By name, with one command and without waiting."""
        self._made += specs
        self._cluster.apply(*(manifest(name, **spec) for name, spec in specs.items()))

    def reasons(self):
        """Of every stage's Ready condition, by name; empty where there is none yet."""
        listed = json.loads(self._cluster.kubectl("get", "dstage", "-o", "json"))["items"]
        return {
            one["metadata"]["name"]: next(
                (
                    each["reason"]
                    for each in one.get("status", {}).get("conditions", [])
                    if each["type"] == "Ready"
                ),
                "",
            )
            for one in listed
        }

    def wait(self, name, condition="condition=Ready"):
        wait = ["wait", f"dstage/{name}", f"--for={condition}", "--timeout=90s"]
        self._cluster.kubectl(*wait)

    def change(self, name, **spec):
        patch = json.dumps({"spec": spec})
        self._cluster.kubectl("patch", "dstage", name, "--type=merge", "-p", patch)

    def status(self, name):
        return self._cluster.get("dstage", name).get("status", {})

    def condition(self, name, kind="Ready"):
        found = [c for c in self.status(name).get("conditions", []) if c["type"] == kind]
        return found[0] if found else {"status": "", "reason": "", "message": ""}

    def children(self, name):
        """By kind and name; empty where there is none."""
        wanted = [(kind, form.format(name)) for kind, form in CHILDREN]
        get = ["get", *("/".join(one) for one in wanted), "--ignore-not-found", "-o", "json"]
        listed = json.loads(self._cluster.kubectl(*get) or '{"items": []}')
        items = listed.get("items", [listed])  # one alone comes without a list
        found = {(SHORT[one["kind"]], one["metadata"]["name"]): one for one in items}
        return {key: found.get(key, {}) for key in wanted}

    def pods(self, name):
        """What changes when a pod is replaced or its container restarted."""
        selector = f"diffusionstage.io/stage={name}"
        found = self._cluster.kubectl("get", "pods", "-l", selector, "-o", "json")
        return {
            pod["metadata"]["name"]: (
                pod["metadata"]["uid"],
                [one.get("containerID") for one in pod["status"].get("containerStatuses", [])],
            )
            for pod in json.loads(found)["items"]
        }

    def pod(self, name):
        return self._cluster.get("pod", name)

    def ask(self, pod, path):
        """GET from a pod's admin port; one that dies of it gives no answer."""
        url = f"/api/v1/namespaces/default/pods/{pod}:8080/proxy/{path}"
        self._cluster.run("kubectl", "get", "--raw", url, check=False)

    def remove(self):
        if self._made:
            self._cluster.kubectl("delete", "dstage", *self._made, "--ignore-not-found")
            selector = f"diffusionstage.io/stage in ({','.join(self._made)})"
            wait = ["delete", "pods", "-l", selector, "--grace-period=0", "--force"]
            self._cluster.kubectl(*wait)


def until(check, within_s=60.0):
    """What `check` returns once that is true."""
    deadline = time.monotonic() + within_s
    while not (found := check()):
        assert time.monotonic() < deadline, f"not within {within_s:g} s"
        time.sleep(0.1)
    return found
