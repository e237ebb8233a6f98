"""Layers of a pod template: maps merge by key, some lists by the key of their items."""

from typing import Any

from diffusion_operator.errors import TemplateError

DEEP = {"containers": "name", "initContainers": "name"}  # an item merges with its namesake
WHOLE = {  # an item replaces its namesake: half of one and half of the other fits nobody
    "env": "name",
    "imagePullSecrets": "name",
    "ports": "containerPort",
    "volumeMounts": "mountPath",
    "volumes": "name",
}
ADDED = "preferredDuringSchedulingIgnoredDuringExecution"  # wishes; one does not undo another
NEEDED = ("containers", "metadata", "spec")  # an empty key in YAML is null; it must not drop these


def merge(base: Any, over: Any, path: str) -> Any:
    """`over` wins. null removes what `base` has. Raises `TemplateError` where the shapes differ."""
    match base, over:
        case None, _:
            return over
        case dict(), dict():
            return _merge_maps(base, over, path)
        case list(), list():
            return _merge_lists(base, over, path)
        case (dict() | list(), _) | (_, dict() | list()):
            raise TemplateError(f"{path}: {base!r:.80} and {over!r:.80} do not fit together")
        case _:
            return over


def _merge_maps(base: dict[str, Any], over: dict[str, Any], path: str) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        if value is None and key not in NEEDED:
            merged.pop(key, None)
        else:
            merged[key] = merge(base.get(key), value, f"{path}.{key}")
    return merged


def _merge_lists(base: list[Any], over: list[Any], path: str) -> list[Any]:
    name = path.rpartition(".")[2]
    key = DEEP.get(name) or WHOLE.get(name)
    if key is None:
        return [*base, *over] if name == ADDED else over
    merged = dict(_keyed(base, key, path))
    for this, item in _keyed(over, key, path):
        under = merged.get(this, {}) if name in DEEP else {}
        merged[this] = _merge_maps(under, item, f"{path}[{this}]")
    return list(merged.values())


def _keyed(items: list[Any], key: str, path: str) -> list[tuple[str | int, dict[str, Any]]]:
    found: list[tuple[str | int, dict[str, Any]]] = []
    for index, item in enumerate(items):
        if not isinstance(item, dict) or not isinstance(item.get(key), str | int):
            raise TemplateError(f"{path}[{index}]: expected a map with {key!r}, got {item!r:.80}")
        if item[key] in dict(found):
            raise TemplateError(f"{path}[{index}]: {key} {item[key]!r} is there twice")
        found.append((item[key], item))
    return found
