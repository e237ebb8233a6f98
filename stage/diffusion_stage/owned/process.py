"""A stage in a process of its own, which lives and dies with its owner."""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any

from diffusion_stage.client.async_client import AsyncStageClient
from diffusion_stage.client.calls import StreamEvent
from diffusion_stage.client.submission import Submission
from diffusion_stage.config.stage import StageConfig
from diffusion_stage.errors import (
    ConfigError,
    EngineDeadError,
    EngineDiedError,
    RequestError,
    UnavailableError,
    fatal_error,
)
from diffusion_stage.owned.interface import OwnedStage

POLL_S = 0.05
END_S = 20.0
REPLY_S = 5.0  # for a reply that comes when the call's own time is up
LOCAL = {"host": "127.0.0.1", "port": 0, "admin_port": 0}


class StageDiffusionClient(OwnedStage):
    """Starts a `StageDiffusionProc` on this machine's loopback and speaks ZMQ with it.

    The kernel ends the process with this one, whichever way that ends. Raises `ConfigError` for
    CURVE keys: its only client has none.
    """

    def __init__(self, config: StageConfig) -> None:
        super().__init__()
        if config.serving.curve_secret_key_file is not None:
            raise ConfigError(
                f"--curve-secret-key-file {config.serving.curve_secret_key_file} for a stage that "
                "its own program alone speaks with; allowed: none"
            )
        self._folder = tempfile.TemporaryDirectory(prefix="diffusion-stage-")
        self._last_words = Path(self._folder.name, "termination-log")
        serving = config.serving.model_copy(
            update={**LOCAL, "termination_log": str(self._last_words)}
        )
        self._config = config.model_copy(update={"serving": serving})
        self._process: subprocess.Popen[bytes] | None = None
        self._client: AsyncStageClient | None = None
        self._is_ending = False

    async def start(self) -> None:
        try:
            port = await asyncio.to_thread(self._spawn)
            self._client = AsyncStageClient(f"tcp://127.0.0.1:{port}")
            await self._wait_until_ready(self._client)
        except BaseException:
            await self.shutdown()
            raise

    def _spawn(self) -> int:
        """The port, as soon as the process listens. Raises its `FatalError` if it ended before."""
        ready, ours = os.pipe()
        lifeline, self._lifeline = os.pipe()
        command = [sys.executable, "-m", "diffusion_stage.owned.child", str(ours), str(lifeline)]
        try:
            self._process = subprocess.Popen(
                [*command, self._config.model_dump_json()],
                pass_fds=(ours, lifeline),
                stdin=subprocess.DEVNULL,
            )
        finally:
            os.close(ours)
            os.close(lifeline)
        with os.fdopen(ready) as said:
            port = said.readline()
        if not port:
            self._process.wait()
            raise self._cause()
        return int(port)

    async def _wait_until_ready(self, client: AsyncStageClient) -> None:
        while not any(each.is_ready for each in await client.status()):
            if self._has_ended:
                raise self._cause()
            await asyncio.sleep(POLL_S)

    @property
    def _has_ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def _cause(self) -> Exception:
        """The `FatalError` that the process told of, or what its exit code says."""
        assert self._process is not None
        code = self._process.returncode
        if self._last_words.exists():
            said = json.loads(self._last_words.read_text())
            return fatal_error(said["reason"])(
                said["msg"], rank=said["rank"], device=said["device"]
            )
        return EngineDiedError(f"the stage process ended with {code}")

    async def _events(self, submission: Submission) -> AsyncGenerator[StreamEvent, None]:
        self.check_health()
        assert self._client is not None
        try:
            async with aclosing(self._client.follow(submission, is_retried=False)) as events:
                async for event in events:
                    yield event
        except RequestError as error:
            raise await self._explained(error) from None

    async def _explained(self, error: RequestError) -> RequestError:
        """A connection lost is a death, if the process has ended."""
        if isinstance(error, UnavailableError) and not self._is_ending:
            await asyncio.sleep(POLL_S)
            if self._has_ended:
                return EngineDeadError(str(self._cause()))
        return error

    async def collective_rpc(
        self, method: str, args: dict[str, Any], *, timeout_s: float = 30.0
    ) -> list[Any]:
        self.check_health()
        assert self._client is not None
        call: dict[str, Any] = {"call": method, "args": args, "call_timeout_s": timeout_s}
        replies = await self._client.control(
            "collective_rpc", replica=None, timeout_s=timeout_s + REPLY_S, **call
        )
        (values,) = replies.values()
        return list(values)

    def check_health(self) -> None:
        if self._is_ending:
            raise EngineDeadError("the stage is shut down")
        if self._has_ended:
            raise EngineDeadError(str(self._cause()) if self._process else "it is not started")

    async def shutdown(self) -> None:
        if self._is_ending:
            return
        self._is_ending = True
        for task in list(self._under_way.values()):
            task.cancel()
        if self._client is not None:
            await self._client.close()
        if self._process is not None:
            self._process.terminate()
            try:
                await asyncio.to_thread(self._process.wait, END_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                await asyncio.to_thread(self._process.wait)
            os.close(self._lifeline)
        self._folder.cleanup()
