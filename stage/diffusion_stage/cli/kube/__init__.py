"""The kubectl plug-in `kubectl dstage`: stages as the cluster of the user's kubectl shows them."""

from diffusion_stage.cli.kube.entry import add_arguments, main, run

__all__ = ["add_arguments", "main", "run"]
