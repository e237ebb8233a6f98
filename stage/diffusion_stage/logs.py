"""Log lines on standard error, with the worker's rank where there is one."""

import logging
import sys

FORMAT = "%(asctime)s %(levelname).1s {who}%(name)s: %(message)s"


def configure(rank: int | None = None, level: str = "INFO") -> None:
    """Set up the root logger of this process."""
    who = "" if rank is None else f"rank {rank} "
    logging.basicConfig(stream=sys.stderr, level=level, format=FORMAT.format(who=who), force=True)
    for noisy in ("httpx", "httpcore", "urllib3", "filelock"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
