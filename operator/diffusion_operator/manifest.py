"""Kubernetes objects as plain dicts: the one place where `Any` stands for their contents."""

from typing import Any, NamedTuple

Manifest = dict[str, Any]

TIME = "%Y-%m-%dT%H:%M:%SZ"  # as Kubernetes writes it; sorts as text


class Ident(NamedTuple):
    """Tells the children of one stage apart; all live in the stage's namespace."""

    kind: str
    name: str


def ident(manifest: Manifest) -> Ident:
    """The identity of a manifest that carries its kind."""
    return Ident(manifest["kind"], manifest["metadata"]["name"])


def controller(manifest: Manifest) -> Manifest | None:
    """The owner reference of whoever manages the object, if anyone does."""
    owners: list[Manifest] = manifest["metadata"].get("ownerReferences", [])
    return next((owner for owner in owners if owner.get("controller")), None)
