"""Requests that go on and on while something happens to the stage."""

import json
import subprocess
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from demo.paint import Answers, client_command
from demo.target import Target

END_TIMEOUT_S = 180.0


class Load:
    """Within `with`, `at_once` requests are always under way; `answers` is whole afterwards."""

    def __init__(
        self, target: Target, prompts: Sequence[str], *, at_once: int, params: dict[str, Any]
    ) -> None:
        self.answers = Answers()
        job = {"address": "icons", "params": params, "prompts": prompts, "at_once": at_once}
        self._client = target.kubectl_popen(
            *client_command(job), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._reader = threading.Thread(target=self._read, name="answers of the load")

    def __enter__(self) -> Self:
        self._reader.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """The end of its input tells the client to ask no more; it waits for what it asked."""
        assert self._client.stdin is not None
        self._client.stdin.close()
        self._reader.join(END_TIMEOUT_S)
        if self._reader.is_alive():
            self._client.kill()
            self._reader.join()
        self._client.wait()

    def _read(self) -> None:
        assert self._client.stdout is not None
        for line in self._client.stdout:
            self.answers.take(json.loads(line))
