"""Where a model comes from: what the stage is told, and the volume that brings the files."""

from diffusion_operator.api import Model
from diffusion_operator.manifest import Manifest

MODEL, MODEL_PATH = "model", "/model"
CLAIM, IMAGE = "pvc://", "oci://"


def location(model: Model) -> str:
    """The stage knows folders and the Hub; claims and images are folders by the time it starts."""
    if model.uri.startswith(CLAIM):
        _, _, folder = model.uri.removeprefix(CLAIM).partition("/")
        return f"{MODEL_PATH}/{folder}".rstrip("/")
    return MODEL_PATH if model.uri.startswith(IMAGE) else model.uri


def model_claim(model: Model) -> str | None:
    """The claim that holds the model, if one does."""
    if not model.uri.startswith(CLAIM):
        return None
    return model.uri.removeprefix(CLAIM).partition("/")[0]


def model_volumes(model: Model) -> list[Manifest]:
    """One at most."""
    claim = model_claim(model)
    if claim is not None:
        return [{"name": MODEL, "persistentVolumeClaim": {"claimName": claim, "readOnly": True}}]
    if model.uri.startswith(IMAGE):
        return [{"name": MODEL, "image": {"reference": model.uri.removeprefix(IMAGE)}}]
    return []


def model_mounts(model: Model) -> list[Manifest]:
    """Where the stage container finds it."""
    if not model_volumes(model):
        return []
    return [{"name": MODEL, "mountPath": MODEL_PATH, "readOnly": True}]
