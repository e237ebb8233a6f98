"""The CRD that this version of the operator speaks, and how the one in a cluster differs from it.

`python -m diffusion_operator.crd` applies it: Helm never upgrades a CRD, so the chart has a hook.
"""

import asyncio
import logging
from collections.abc import Iterator
from importlib import resources
from typing import Any

import yaml

from diffusion_operator.cluster import Cluster, connect
from diffusion_operator.errors import ApiError
from diffusion_operator.manifest import Manifest

API_VERSION = "apiextensions.k8s.io/v1"
KIND = "CustomResourceDefinition"
SERVED_WITHIN_S = 60.0
POLL_S = 0.5
FORBIDDEN = 403
TOLD = 5  # differences; the rest are counted
REMEDY = (
    "helm show crds CHART | kubectl apply --server-side --force-conflicts -f - "
    "(helm upgrade does it too, with crds.upgrade)"
)

logger = logging.getLogger(__name__)


def packaged() -> Manifest:
    """The CRD as it is in this package; `charts/diffusion-operator/crds` has the same file."""
    text = resources.files("diffusion_operator").joinpath("diffusionstages.yaml").read_text()
    crd: Manifest = yaml.safe_load(text)
    return crd


def difference(live: Manifest, ours: Manifest) -> str:
    """What the live CRD has otherwise than ours, in words; empty where it has nothing.

    What the API server fills in by itself is no difference.
    """
    wanted = {name: value for name, value in ours["spec"].items() if name != "versions"}
    found = {name: live["spec"].get(name) for name in wanted}
    differences = [
        *_differences(found, wanted, "spec"),
        *_differences(_versions(live), _versions(ours), ""),
    ]
    more = len(differences) - TOLD
    return "; ".join(differences[:TOLD]) + (f"; and {more} more" if more > 0 else "")


async def trouble(cluster: Cluster) -> str:
    """What is wrong with the CRD of the cluster and what to do; empty where nothing is.

    Also empty for an account that may not read CRDs, as in one namespace alone. Never raises.
    """
    ours = packaged()
    name = ours["metadata"]["name"]
    try:
        live = await cluster.get(API_VERSION, KIND, None, name)
    except ApiError as error:
        return "" if error.status == FORBIDDEN else f"cannot read the CRD {name}: {error}"
    if live is None:
        return f"there is no CRD {name}: {REMEDY}"
    told = difference(live, ours)
    return told and f"the CRD {name} is of another version than this operator: {told}: {REMEDY}"


async def apply(cluster: Cluster) -> str:
    """Put our CRD in place and wait until it is served; returns what was different before.

    Raises `ApiError` and `RefusedError`, and `TimeoutError` where it is not served in time.
    """
    ours = packaged()
    name = ours["metadata"]["name"]
    before = await cluster.get(API_VERSION, KIND, None, name)
    await cluster.apply(ours)
    async with asyncio.timeout(SERVED_WITHIN_S):
        await _await_served(cluster, name)
    return "there was none" if before is None else difference(before, ours)


async def _await_served(cluster: Cluster, name: str) -> None:
    while True:
        if is_served(await cluster.get(API_VERSION, KIND, None, name)):
            return
        await asyncio.sleep(POLL_S)


def is_served(crd: Manifest | None) -> bool:
    conditions = (crd or {}).get("status", {}).get("conditions") or []  # null at first
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)


def _versions(crd: Manifest) -> Manifest:
    return {version["name"]: version for version in crd["spec"]["versions"]}


def _differences(live: Any, ours: Any, path: str) -> Iterator[str]:
    if isinstance(live, dict) and isinstance(ours, dict):
        for key in sorted({*live, *ours}):
            yield from _difference_at(key, live, ours, f"{path}.{key}" if path else key)
    elif isinstance(live, list) and live != ours:
        yield f"{_short(path)} is another list"
    elif live != ours:
        yield f"{_short(path)} is {live!r:.80} instead of {ours!r:.80}"


def _difference_at(key: str, live: Manifest, ours: Manifest, path: str) -> Iterator[str]:
    if key not in live:
        yield f"{_short(path)} is missing"
    elif key not in ours:
        yield f"{_short(path)} is not known here"
    else:
        yield from _differences(live[key], ours[key], path)


def _short(path: str) -> str:
    """Without the words that every path through a schema has."""
    return path.replace(".schema.openAPIV3Schema", "").replace(".properties", "")


async def main() -> None:
    """Apply the CRD with the credentials at hand and say what changed."""
    client = await connect()
    try:
        changed = await apply(Cluster(client))
    finally:
        await client.close()
    name = packaged()["metadata"]["name"]
    logger.info("%s: %s", name, f"applied: {changed}" if changed else "as it should be")


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    asyncio.run(main())
