"""Weights to a pipeline on its device."""

import logging
from typing import Any

import torch
from safetensors import SafetensorError

from diffusion_stage.config.imports import import_class
from diffusion_stage.errors import DeviceMemoryError, ModelError
from diffusion_stage.pipelines import hub
from diffusion_stage.pipelines.source import ModelSource

logger = logging.getLogger(__name__)

UNREADABLE = (
    *hub.ERRORS,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    OSError,
    RuntimeError,
    SafetensorError,
    TypeError,
    ValueError,
)
"""What diffusers and transformers raise for files that are missing, damaged or do not fit."""


def load(
    source: ModelSource, *, device: torch.device, dtype: torch.dtype, pipeline_class: str | None
) -> Any:
    """The pipeline, on `device`, in eval mode.

    `pipeline_class` is an import path, `module:Class`, of a class with `from_pretrained`; None lets
    the model's own index choose. Raises `ModelError` when the model cannot be read,
    `ConfigError` for a class that cannot be imported, `DeviceMemoryError` when it does not fit.
    """
    loader = _diffusers_loader() if pipeline_class is None else import_class(pipeline_class)
    try:
        pipeline = _read(loader, source, dtype).to(device)
    except torch.OutOfMemoryError as error:
        raise DeviceMemoryError(f"model {source} does not fit on {device}: {error}") from error
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def _diffusers_loader() -> Any:
    from diffusers import DiffusionPipeline  # twice torch's own time, and not for every class

    return DiffusionPipeline


def _read(loader: Any, source: ModelSource, dtype: torch.dtype) -> Any:
    """From the cache if the model is there as a whole: a hub that is cut off stops no restart."""
    if not source.is_local:
        try:
            return _from_pretrained(loader, source, dtype, local_files_only=True)
        except torch.OutOfMemoryError:  # a RuntimeError too
            raise
        except UNREADABLE as error:
            logger.info("%s is not in the cache, so the hub is asked: %s", source, error)
    try:
        return _from_pretrained(loader, source, dtype, local_files_only=source.is_local)
    except torch.OutOfMemoryError:
        raise
    except UNREADABLE as error:
        raise ModelError(f"model {source}: {hub.explain(error, source)}") from error


def _from_pretrained(
    loader: Any, source: ModelSource, dtype: torch.dtype, *, local_files_only: bool
) -> Any:
    return loader.from_pretrained(
        source.name,
        revision=source.revision,
        dtype=dtype,
        local_files_only=local_files_only,
        token=hub.token(),
    )
