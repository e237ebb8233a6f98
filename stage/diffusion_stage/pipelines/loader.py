"""Weights to a pipeline on its device."""

import importlib
import logging
import os
from typing import Any

import diffusers
import torch
from huggingface_hub.errors import HfHubHTTPError

from diffusion_stage.errors import ConfigError, DeviceMemoryError, ModelError
from diffusion_stage.pipelines.source import ModelSource

logger = logging.getLogger(__name__)


def load(
    source: ModelSource, *, device: torch.device, dtype: torch.dtype, pipeline_class: str | None
) -> Any:
    """The pipeline, on `device`, in eval mode.

    `pipeline_class` is an import path, `module:Class`, of a class with `from_pretrained`; None lets
    the model's own index choose. Raises `ModelError` when the model cannot be read,
    `ConfigError` for a class that cannot be imported, `DeviceMemoryError` when it does not fit.
    """
    loader = diffusers.DiffusionPipeline if pipeline_class is None else import_class(pipeline_class)
    try:
        pipeline = loader.from_pretrained(
            source.name,
            revision=source.revision,
            dtype=dtype,
            local_files_only=source.is_local,
            token=os.environ.get("HF_TOKEN"),
        )
        pipeline = pipeline.to(device)
    except torch.OutOfMemoryError as error:
        raise DeviceMemoryError(f"model {source.name} does not fit on {device}: {error}") from error
    except (OSError, ValueError, KeyError, AttributeError, HfHubHTTPError) as error:
        raise ModelError(f"model {source.name}: {type(error).__name__}: {error}") from error
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def import_class(path: str) -> Any:
    """The class at `module:Class`. Raises `ConfigError`."""
    module, _, name = path.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"class {path!r}: {error}; allowed: module:Class, importable") from error
