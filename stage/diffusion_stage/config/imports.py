"""Classes that a configuration names by import path."""

import importlib
from typing import Any

from diffusion_stage.errors import ConfigError


def import_class(path: str) -> Any:
    """The class at `module:Class`. Raises `ConfigError`."""
    module, _, name = path.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"class {path!r}: {error}; allowed: module:Class, importable") from error


def import_subclass(path: str, base: type) -> Any:
    """As `import_class`; also `ConfigError` for what is no subclass of `base`."""
    found = import_class(path)
    if not (isinstance(found, type) and issubclass(found, base)):
        raise ConfigError(f"class {path!r} is no {base.__name__}; allowed: a subclass of it")
    return found
