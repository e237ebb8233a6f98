"""One port of one pod at a free port of this machine's loopback, by `kubectl port-forward`."""

import asyncio
import re
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from diffusion_stage.cli.kube.errors import KubectlError, kubectl_error
from diffusion_stage.cli.kube.kubectl import Kubectl, text

HOST = "127.0.0.1"
START_TIMEOUT_S = 20.0
FORWARDING = re.compile(rb"Forwarding from 127\.0\.0\.1:(\d+) -> \d+")
KEPT_BYTES = 4096  # of what kubectl says, for the words of its end


@dataclass(frozen=True, slots=True)
class Forward:
    """A running port-forward; `port` is the one on this machine."""

    port: int
    process: Process

    async def ended(self) -> str:
        """Waits for its end, and returns kubectl's last words."""
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        # Both must be read all the time: kubectl writes a line for each connection.
        _, words = await asyncio.gather(_drain(self.process.stdout), _drain(self.process.stderr))
        await self.process.wait()
        return text(words)


@asynccontextmanager
async def forward(
    kubectl: Kubectl, pod: str, remote: int, *, local: int | None = None
) -> AsyncIterator[Forward]:
    """`local` None: a port that kubectl finds free. Raises KubectlError."""
    ports = f"{'' if local is None else local}:{remote}"
    command = ("port-forward", f"--address={HOST}", f"pod/{pod}", ports)
    async with kubectl.started(*command) as process:
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                port = await _announced(process)
        except TimeoutError:
            raise KubectlError(f"no port within {START_TIMEOUT_S:g} s: {pod}") from None
        yield Forward(port, process)


async def _announced(process: Process) -> int:
    assert process.stdout is not None
    assert process.stderr is not None
    async for line in process.stdout:
        if found := FORWARDING.match(line):
            return int(found[1])
    raise kubectl_error(text(await process.stderr.read()) or "nothing")


async def _drain(stream: asyncio.StreamReader) -> bytes:
    """The end of all that comes."""
    kept = b""
    while chunk := await stream.read(KEPT_BYTES):
        kept = (kept + chunk)[-KEPT_BYTES:]
    return kept
