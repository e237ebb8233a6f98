"""Stages that a Python program owns, in its own process or in one of their own."""

from diffusion_stage.owned.inline import InlineStageDiffusionClient
from diffusion_stage.owned.interface import OwnedStage
from diffusion_stage.owned.process import StageDiffusionClient

__all__ = ["InlineStageDiffusionClient", "OwnedStage", "StageDiffusionClient"]
