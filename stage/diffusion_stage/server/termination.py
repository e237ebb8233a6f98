"""The last words of a stage: one line of JSON that the kubelet puts into the pod's status."""

import json
import logging
from pathlib import Path

from diffusion_stage.errors import FatalError

logger = logging.getLogger(__name__)

MAX_BYTES = 4096  # what the kubelet keeps
MAX_MESSAGE = 2000
MAX_CHARACTER_BYTES = 12  # of a character outside the basic plane, escaped


def write(path: str, error: FatalError, *, phase: str, inflight: int, uptime_s: float) -> None:
    """Write the message; a path that cannot be written is logged, and no reason to stay."""
    text = compose(error, phase=phase, inflight=inflight, uptime_s=uptime_s)
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as failure:
        logger.warning("no termination message at %s: %s; it says: %s", path, failure, text)


def compose(error: FatalError, *, phase: str, inflight: int, uptime_s: float) -> str:
    """The message, at most `MAX_BYTES` long, with as much of the error's words as fits."""
    said = {
        "v": 1,
        "reason": error.reason,
        "exitCode": error.exit_code,
        "rank": error.rank,
        "device": error.device,
        "signal": error.signal,
        "phase": phase,
        "step": error.step,
        "inflight": inflight,
        "uptime_s": round(uptime_s, 1),
    }
    words = str(error)[:MAX_MESSAGE]
    while len(text := json.dumps({**said, "msg": words})) > MAX_BYTES:
        words = words[: -max(1, (len(text) - MAX_BYTES) // MAX_CHARACTER_BYTES)]
    return text
