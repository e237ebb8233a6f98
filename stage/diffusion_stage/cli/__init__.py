"""The command `diffusion-stage`: serve, generate, status, keys."""

from diffusion_stage.cli.entry import main

__all__ = ["main"]
