"""What a stage pod may write to, and where its weights are kept."""

from diffusion_operator.api import Cache, ClaimTemplateCache, Stage
from diffusion_operator.manifest import Manifest

CACHE, CACHE_PATH = "cache", "/cache"
SCRATCH, SCRATCH_PATH = "tmp", "/tmp"
SHARED, SHARED_PATH = "shm", "/dev/shm"


def volumes(stage: Stage) -> list[Manifest]:
    """The pod's volumes; a claim template makes its own."""
    found: list[Manifest] = [{"name": SCRATCH, "emptyDir": {}}]
    if has_shared_memory(stage):
        size = str(stage.spec.shared_memory)
        found.append({"name": SHARED, "emptyDir": {"medium": "Memory", "sizeLimit": size}})
    cache = stage.spec.model.cache
    if cache is not None and cache.volume_claim_template is None:
        found.append({"name": CACHE, **_cache_source(cache)})
    return found


def mounts(stage: Stage) -> list[Manifest]:
    """Where the stage container finds them."""
    found: list[Manifest] = [{"name": SCRATCH, "mountPath": SCRATCH_PATH}]
    if has_shared_memory(stage):
        found.append({"name": SHARED, "mountPath": SHARED_PATH})
    if stage.spec.model.cache is not None:
        found.append(
            {"name": CACHE, "mountPath": CACHE_PATH, **_cache_access(stage.spec.model.cache)}
        )
    return found


def download_path(stage: Stage) -> str:
    """Where the Hub's files go."""
    return f"{SCRATCH_PATH if stage.spec.model.cache is None else CACHE_PATH}/hf"


def cache_claim(template: ClaimTemplateCache) -> Manifest:
    """The claim that each replica gets."""
    named = template.storage_class_name
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": CACHE},
        "spec": {
            "accessModes": [template.access_mode],
            "resources": {"requests": {"storage": str(template.size)}},
            **({} if named is None else {"storageClassName": named}),
        },
    }


def has_shared_memory(stage: Stage) -> bool:
    """Whether a size other than zero is asked for, in any unit."""
    return float(str(stage.spec.shared_memory).rstrip("KMGTPik")) > 0


def _cache_source(cache: Cache) -> Manifest:
    if cache.persistent_volume_claim is not None:
        return {"persistentVolumeClaim": {"claimName": cache.persistent_volume_claim.claim_name}}
    if cache.image is not None:
        image = cache.image
        return {"image": {"reference": image.reference, "pullPolicy": image.pull_policy}}
    limit = None if cache.empty_dir is None else cache.empty_dir.size_limit
    return {"emptyDir": {} if limit is None else {"sizeLimit": str(limit)}}


def _cache_access(cache: Cache) -> Manifest:
    if cache.image is not None:
        return {"readOnly": True}
    claim = cache.persistent_volume_claim
    if claim is None:
        return {}
    sub_path = {} if claim.sub_path is None else {"subPath": claim.sub_path}
    return ({"readOnly": True} if claim.read_only else {}) | sub_path
