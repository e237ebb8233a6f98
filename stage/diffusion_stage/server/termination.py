"""The last words of a stage: one line of JSON that the kubelet puts into the pod's status."""

import json
import logging
from pathlib import Path

from diffusion_stage.errors import FatalError

logger = logging.getLogger(__name__)

MAX_BYTES = 4096  # what the kubelet keeps
MAX_MESSAGE = 2000


def write(path: str, error: FatalError, *, phase: str, inflight: int, uptime_s: float) -> None:
    """Write the message; a path that cannot be written is logged, and no reason to stay."""
    text = compose(error, phase=phase, inflight=inflight, uptime_s=uptime_s)
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as failure:
        logger.warning("no termination message at %s: %s; it says: %s", path, failure, text)


def compose(error: FatalError, *, phase: str, inflight: int, uptime_s: float) -> str:
    """The message, at most `MAX_BYTES` long."""
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
        "msg": str(error)[:MAX_MESSAGE],
    }
    text = json.dumps(said)
    if len(text) > MAX_BYTES:  # escapes make a character up to twelve bytes
        text = json.dumps({**said, "msg": str(said["msg"])[: MAX_MESSAGE // 12]})
    return text
