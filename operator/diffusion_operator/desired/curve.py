"""CURVE keys as objects: a Secret for each key pair, and a ConfigMap with all that is public.

Clients find the servers' public keys in the ConfigMap: the present one, the next, and the one
before while replicas still have it. The stage reads there who may connect, at each handshake, so
that a change needs no restart. A Secret is named after its public key, which tells them apart.
"""

import hashlib
from collections.abc import Mapping

from diffusion_operator.api import Curve, Stage
from diffusion_operator.desired.metadata import metadata
from diffusion_operator.manifest import Manifest

SECRET_KEY, CLIENTS, SERVERS = "secret-key", "clients", "servers"
PUBLISHED = "key-"  # the public key of a generation
KEY, KEY_PATH = "curve-key", "/etc/diffusion-stage/curve-key"
PUBLIC, PUBLIC_PATH = "curve", "/etc/diffusion-stage/curve"

PublicKeys = Mapping[int, str]
"""By generation; Z85."""


def generations(curve: Curve) -> tuple[int, int]:
    """The one in use, and the next, which clients learn before it is used."""
    return curve.key_generation, curve.key_generation + 1


def map_name(stage: Stage) -> str:
    """Of the ConfigMap."""
    return f"{stage.name}-curve"


def secret_name(stage: Stage, public_key: str) -> str:
    """Of the Secret with the other half of `public_key`."""
    return f"{stage.name}-curve-{hashlib.sha256(public_key.encode()).hexdigest()[:10]}"


def published(config_map: Manifest) -> dict[int, str]:
    """The public keys that an earlier pass made."""
    return {
        int(name.removeprefix(PUBLISHED)): key
        for name, key in config_map.get("data", {}).items()
        if name.startswith(PUBLISHED)
    }


def secret(stage: Stage, public_key: str, secret_key: str) -> Manifest:
    """One key pair; nobody needs to read it but the pods."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata(stage, secret_name(stage, public_key)),
        "immutable": True,
        "stringData": {SECRET_KEY: secret_key, "public-key": public_key},
    }


def config_map(stage: Stage, curve: Curve, keys: PublicKeys) -> Manifest:
    """`keys` has at least the generations in use and next."""
    in_turn = [*generations(curve), *sorted(set(keys) - set(generations(curve)))]
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(stage, map_name(stage)),
        "data": {
            CLIENTS: "".join(f"{one.name} {one.public_key}\n" for one in curve.clients),
            SERVERS: "".join(f"{keys[number]}\n" for number in in_turn),
            **{f"{PUBLISHED}{number}": key for number, key in sorted(keys.items())},
        },
    }


def curve_volumes(stage: Stage, keys: PublicKeys) -> list[Manifest]:
    """Of a pod that serves with the key in use."""
    if stage.spec.curve is None:
        return []
    name = secret_name(stage, keys[stage.spec.curve.key_generation])
    only = [{"key": SECRET_KEY, "path": SECRET_KEY}]
    return [
        {"name": KEY, "secret": {"secretName": name, "items": only}},
        {"name": PUBLIC, "configMap": {"name": map_name(stage)}},
    ]


def curve_mounts(stage: Stage) -> list[Manifest]:
    """Whole folders: a file mounted alone would not follow the ConfigMap."""
    if stage.spec.curve is None:
        return []
    return [
        {"name": KEY, "mountPath": KEY_PATH, "readOnly": True},
        {"name": PUBLIC, "mountPath": PUBLIC_PATH, "readOnly": True},
    ]


def curve_arguments(curve: Curve | None) -> list[str]:
    """The stage's flags."""
    if curve is None:
        return []
    return [
        f"--curve-secret-key-file={KEY_PATH}/{SECRET_KEY}",
        f"--curve-clients-file={PUBLIC_PATH}/{CLIENTS}",
    ]
