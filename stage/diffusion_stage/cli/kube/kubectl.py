"""The user's own kubectl, run as a process: its contexts, its credentials, its plug-ins."""

import asyncio
import os
import re
import shutil
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from diffusion_stage.cli.kube.errors import KubectlError, KubeError, kubectl_error

READ_TIMEOUT_S = 30.0
LOG_LINE = re.compile(r"[IWEF]\d{4} \d\d:")  # kubectl's own log, for its developers
CHUNK_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Kubectl:
    """A program, and the flags that go with each of its commands."""

    program: str
    flags: tuple[str, ...] = ()

    async def read(self, *command: str, timeout_s: float | None = READ_TIMEOUT_S) -> str:
        """What the command prints. Raises KubectlError."""
        async with self.started(*command) as process:
            try:
                out, words = await asyncio.wait_for(process.communicate(), timeout_s)
            except TimeoutError:
                line = " ".join(("kubectl", *command))
                raise KubectlError(f"nothing in {timeout_s:g} s to `{line}`") from None
        if process.returncode != 0:
            raise kubectl_error(text(words) or f"nothing, and ended with {process.returncode}")
        return out.decode(errors="replace")

    @asynccontextmanager
    async def started(self, *command: str) -> AsyncIterator[Process]:
        """The running command. It is ended with the block, however that ends."""
        read_fd, write_fd = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                *(self.program, *command, *self.flags),
                stdin=DEVNULL,
                stdout=PIPE,
                stderr=PIPE,
                **_tie(read_fd),
            )
        except OSError as error:
            os.close(write_fd)
            raise KubeError(f"{self.program} cannot be run: {error.strerror}") from None
        finally:
            os.close(read_fd)
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
            os.close(write_fd)


def find(context: str | None, namespace: str | None, kubeconfig: str | None) -> Kubectl:
    """The kubectl that KUBECTL names, or that of the PATH. Raises KubeError where there is none."""
    named = os.environ.get("KUBECTL") or "kubectl"
    program = shutil.which(named)
    if program is None:
        raise KubeError(f"no program {named!r}: put kubectl into the PATH, or its path in KUBECTL")
    given = (("context", context), ("namespace", namespace), ("kubeconfig", kubeconfig))
    return Kubectl(program, tuple(f"--{name}={value}" for name, value in given if value))


async def lines(stream: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Lines of any length, without their ends."""
    rest = b""
    while chunk := await stream.read(CHUNK_BYTES):
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line
    if rest:
        yield rest


def text(words: bytes) -> str:
    """What kubectl said, in one line; its log only where it said nothing else."""
    written = list(filter(None, map(str.strip, words.decode(errors="replace").splitlines())))
    said = [line for line in written if not LOG_LINE.match(line)]
    return "; ".join(dict.fromkeys(said or written))


def _tie(read_fd: int) -> dict[str, Any]:
    """Linux ends the command also when this process is killed."""
    if sys.platform != "linux":
        return {}
    from diffusion_stage.lifeline import follow_parent

    return {"pass_fds": (read_fd,), "preexec_fn": partial(follow_parent, read_fd)}
