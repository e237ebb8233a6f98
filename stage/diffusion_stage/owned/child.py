"""The main of a stage process that `StageDiffusionClient` started.

`python -m diffusion_stage.owned.child READY_FD LIFELINE_FD CONFIG`: the port is written to READY_FD
as soon as the socket listens, CONFIG is JSON.
"""

import os
import sys

from diffusion_stage import logs
from diffusion_stage.config.stage import StageConfig
from diffusion_stage.lifeline import follow_parent
from diffusion_stage.server.proc import StageDiffusionProc


def main(ready_fd: int, lifeline_fd: int, config: str) -> int:
    """Serve until SIGTERM, or the owner's end; returns the exit code."""
    follow_parent(lifeline_fd)
    logs.configure()

    def listening(port: int) -> None:
        os.write(ready_fd, f"{port}\n".encode())
        os.close(ready_fd)

    parsed = StageConfig.model_validate_json(config)
    return StageDiffusionProc(parsed, on_listening=listening).run()


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
