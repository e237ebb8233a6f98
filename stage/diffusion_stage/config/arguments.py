"""Command line flags to configuration and back to words about what is wrong with them."""

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn

from pydantic import BaseModel, ValidationError

from diffusion_stage.config.stage import (
    EngineConfig,
    ModelConfig,
    ParallelConfig,
    ServingConfig,
    StageConfig,
    TimeoutConfig,
)
from diffusion_stage.errors import ConfigError

GROUPS: dict[str, type[BaseModel]] = {
    "model": ModelConfig,
    "parallel": ParallelConfig,
    "engine": EngineConfig,
    "serving": ServingConfig,
    "timeouts": TimeoutConfig,
}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"arguments: {message}")


def parse_serve(argv: Sequence[str]) -> StageConfig:
    """The configuration that `diffusion-stage serve ARGV` asks for.

    Raises `ConfigError` that names the flag, its value and what is allowed.
    """
    parser = _Parser(prog="diffusion-stage serve", add_help=False, allow_abbrev=False)
    add_arguments(parser)
    return from_namespace(parser.parse_args(list(argv)))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """One flag for each field: `max_queue` is `--max-queue`; booleans take `--x` and `--no-x`."""
    for title, group in GROUPS.items():
        section = parser.add_argument_group(title, (group.__doc__ or "").replace("`", ""))
        for name, field in group.model_fields.items():
            options: dict[str, Any] = {"default": None, "dest": name}
            if field.annotation is bool:
                options["action"] = argparse.BooleanOptionalAction
            else:
                options["metavar"] = _shape(field.annotation)
            default = "" if field.is_required() else f"default: {field.default}"
            section.add_argument(f"--{name.replace('_', '-')}", help=default, **options)


def from_namespace(namespace: argparse.Namespace) -> StageConfig:
    """The parsed flags as configuration. Raises `ConfigError` as `parse_serve`."""
    given = {name: value for name, value in vars(namespace).items() if value is not None}
    groups = {
        title: {name: given[name] for name in group.model_fields if name in given}
        for title, group in GROUPS.items()
    }
    try:
        return StageConfig.model_validate(groups)
    except ValidationError as error:
        raise ConfigError("; ".join(_explain(detail) for detail in error.errors())) from None


def _shape(annotation: Any) -> str:
    allowed = getattr(annotation, "__args__", ())
    words = [option for option in allowed if isinstance(option, str)]
    return "|".join(words) if words else "VALUE"


def _explain(detail: Any) -> str:
    flag = f"--{str(detail['loc'][-1]).replace('_', '-')}"
    if detail["type"] == "missing":
        return f"{flag} is required"
    return f"{flag} {detail['input']!r}: {detail['msg']}"
