"""The command `diffusion-stage`: serve, generate, status."""

from diffusion_stage.cli.entry import main

__all__ = ["main"]
