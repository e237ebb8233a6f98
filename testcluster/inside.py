"""The first process of a cluster's namespaces: it starts every part and ends when one does."""

import json
import signal
import subprocess
import sys
import urllib.error
from pathlib import Path
from typing import Any

from testcluster import (
    cgroups,
    containerd,
    controlplane,
    credentials,
    kubelet,
    mounts,
    network,
    pauseimage,
)
from testcluster.api import Api
from testcluster.errors import ClusterError, CommandError, StartError
from testcluster.layout import RUN, Layout
from testcluster.processes import Processes
from testcluster.progress import Progress
from testcluster.spec import Spec

GPU = "nvidia.com/gpu"


class Inside:
    """Starts one cluster. Slow things overlap: containerd is made ready while the API starts."""

    def __init__(self, where: Layout, spec: Spec, progress: Progress) -> None:
        self._layout = where
        self._spec = spec
        self._progress = progress
        self._processes = Processes(where.logs)

    def start(self) -> None:
        self._prepare()
        self._box("etcd", controlplane.etcd(self._layout))
        self._box("kube-apiserver", controlplane.apiserver(self._layout))
        for number in self._spec.numbers:
            self._start_containerd(number)
        api = Api(self._layout.kubeconfig, self._layout.ca)
        self._processes.wait_until(api.is_ready, "the API server is ready", timeout_s=120)
        self._progress.mark("API server ready")
        self._box("kube-controller-manager", controlplane.controller_manager(self._layout))
        if self._spec.nodes:
            self._start_nodes()
        self._processes.wait_until(lambda: self._is_usable(api), "the nodes are ready")
        self._progress.ready()

    def run(self) -> StartError:
        """Wait for the end; returns why it came."""
        return self._processes.reap_until_one_ends()

    def _box(self, part: str, flags: list[str], name: str | None = None) -> None:
        """Start a part of kubebox, the binary that holds most of Kubernetes."""
        self._processes.start(name or part, [str(self._spec.kubebox), part, *flags])

    def _prepare(self) -> None:
        resolv_conf = self._layout.root / "resolv.conf"
        resolv_conf.write_text(network.RESOLV_CONF)
        mounts.isolate(resolv_conf)
        RUN.mkdir()
        network.configure(self._spec.numbers)
        credentials.write(self._layout, self._spec.numbers)
        if self._spec.nodes:
            mounts.shield_kernel_settings(RUN / "settings")
            mounts.require_overlay(self._layout.store_link.resolve())

    def _start_containerd(self, number: int) -> None:
        folder = self._layout.node(number)
        (folder / "networks").mkdir(parents=True)
        pods = network.pod_network(number, folder / "leases")
        (folder / "networks" / "pods.conflist").write_text(json.dumps(pods))
        config = folder / "containerd.toml"
        config.write_text(
            containerd.config(
                number,
                store=containerd.store_of(self._layout.store_link.resolve(), number),
                plugins=network.plugin_folder(),
                networks=folder / "networks",
            )
        )
        self._run_containerd(number, config)
        if containerd.purge(number):
            self._processes.stop(f"containerd-{number}")
            self._run_containerd(number, config)
        images = containerd.list_images(number)
        containerd.delete_images(number, containerd.dangling(images))
        if containerd.PAUSE not in images:
            self._import_pause(number)
        self._progress.mark(f"containerd of node-{number} ready")

    def _run_containerd(self, number: int, config: Path) -> None:
        name = f"containerd-{number}"
        self._processes.start(name, ["containerd", "--config", str(config)])
        self._processes.wait_until(lambda: containerd.is_up(number), f"{name} answers")

    def _import_pause(self, number: int) -> None:
        archive = RUN / "pause.tar"
        pauseimage.write(self._spec.kubebox.with_name("pause"), containerd.PAUSE, archive)
        command = containerd.ctr(number, "images", "import", str(archive))
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise CommandError(f"cannot import the pause image: {done.stderr.strip()}")

    def _start_nodes(self) -> None:
        self._box("kube-scheduler", controlplane.scheduler(self._layout))
        for number in self._spec.numbers:
            self._start_kubelet(number)
        self._box("kube-proxy", controlplane.proxy(self._layout))
        corefile = self._layout.root / "Corefile"
        corefile.write_text(controlplane.corefile(self._layout))
        coredns = self._spec.kubebox.with_name("coredns")
        self._processes.start("coredns", [str(coredns), "-conf", str(corefile)])

    def _start_kubelet(self, number: int) -> None:
        folder = self._layout.node(number)
        cgroups.create(kubelet.group(self._layout.id, number))
        mounts.shorten(folder / "kubelet", kubelet.root(number))
        empty = folder / "resolv.conf"  # pods have the cluster's DNS and nothing else
        empty.touch()
        config = kubelet.config(number, cluster=self._layout.id, folder=folder, resolv_conf=empty)
        (folder / "kubelet.json").write_text(json.dumps(config))
        flags = kubelet.arguments(
            number,
            config_file=folder / "kubelet.json",
            kubeconfig=self._layout.kubeconfig_of(f"system:node:node-{number}"),
            folder=folder,
        )
        self._box("kubelet", flags, f"kubelet-{number}")

    def _is_usable(self, api: Api) -> bool:
        """Whether every node is ready, with its GPUs, and pods can be made."""
        nodes = [api.get(f"/api/v1/nodes/node-{n}") for n in self._spec.numbers]
        ready = [node is not None and self._is_node_ready(api, node) for node in nodes]
        return (
            all(ready) and api.get("/api/v1/namespaces/default/serviceaccounts/default") is not None
        )

    def _is_node_ready(self, api: Api, node: dict[str, Any]) -> bool:
        status = node["status"]
        if self._spec.gpus and GPU not in status["capacity"]:
            claim = {GPU: str(self._spec.gpus)}
            path = f"/api/v1/nodes/{node['metadata']['name']}/status"
            api.merge(path, {"status": {"capacity": claim, "allocatable": claim}})
        ready = {"type": "Ready", "status": "True"}
        return any(ready.items() <= condition.items() for condition in status["conditions"])


def main() -> None:
    """Start the cluster of the folder given and stay until a part of it ends."""
    where = Layout(Path(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    progress = Progress(where.progress)
    inside = Inside(where, Spec.read(where), progress)
    try:
        inside.start()
    except (ClusterError, OSError, urllib.error.URLError) as error:
        progress.failed(str(error))
        raise
    end = inside.run()
    progress.failed(str(end))
    raise end


if __name__ == "__main__":
    main()
