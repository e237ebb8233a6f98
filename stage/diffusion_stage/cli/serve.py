"""`diffusion-stage serve`: run one stage until SIGTERM."""

import argparse
import logging

from diffusion_stage import logs
from diffusion_stage.config import arguments
from diffusion_stage.config.stage import ServingConfig
from diffusion_stage.errors import ConfigError

logger = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    arguments.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Serve; returns the exit code of a drained or misconfigured stage."""
    logs.configure()
    try:
        config = arguments.from_namespace(args)
    except ConfigError as error:
        return refuse(error, args.termination_log)
    from diffusion_stage.server.proc import StageDiffusionProc

    return StageDiffusionProc(config).run()


def refuse(error: ConfigError, termination_log: str | None = None) -> int:
    """Report arguments that make no configuration, as a death that the pod's status shows."""
    from diffusion_stage.server import termination

    logger.error("%s: %s", error.reason, error)
    path = termination_log or ServingConfig.model_fields["termination_log"].default
    termination.write(path, error, phase="startup", inflight=0, uptime_s=0.0)
    return error.exit_code
