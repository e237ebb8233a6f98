"""The tests' side of the proxy, and an operator behind it."""

import json
import subprocess
import sys
import time
from pathlib import Path

from tests.cluster.operator.requests import Request

ROOT = Path(__file__).parents[3]
PORT = 16443


class Faults:
    """The proxy as a process inside the cluster; each method is one command to it."""

    def __init__(self, cluster, folder, port=PORT):
        program = [sys.executable, "-m", "tests.cluster.operator.proxy"]
        self._log = (folder / f"proxy-{port}.log").open("ab")
        self._process = cluster.popen(
            *(*program, cluster.kubeconfig, str(port)),
            env={"PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        self.server = f"http://127.0.0.1:{port}"

    def close(self):
        self._process.stdin.close()
        self._process.wait(timeout=10)
        self._process.stdout.close()
        self._log.close()

    def add(self, fault, **rule):
        """`status`, `garbage`, `slow`, `drop` or `replay`; the rest says for which requests."""
        self._tell("add", fault=fault, **rule)

    def heal(self):
        self._tell("heal")

    def mark(self):
        """This moment, for `requests` to count from."""
        return self._tell("mark")

    def requests(self, since):
        """Those that were answered since a mark, and the watches begun since then."""
        return [Request(**one) for one in self._tell("requests", since=since)]

    def watches(self, become):
        """How many there were; they are `stalled`, `gone` (410) or `cut` now."""
        return self._tell("watches", become=become)

    def hold(self, *, after_writes):
        self._tell("hold", after_writes=after_writes)

    def is_held(self):
        return self._tell("is_held")

    def away(self):
        """Refuse connections until healed."""
        self._tell("away")

    def send(self, *requests, at_once=8):
        """An administrator's requests: method, path and body each. None may be refused."""
        statuses = self._tell("send", requests=requests, at_once=at_once)
        assert all(status.startswith("2") for status in statuses), statuses

    def writes_within(self, seconds):
        """The write requests of the seconds to come."""
        now = self.mark()
        time.sleep(seconds)
        return [one for one in self.requests(now) if one.is_write]

    def _tell(self, do, **options):
        self._process.stdin.write(json.dumps({"do": do, **options}) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"the proxy has ended: see {self._log.name}"
        return json.loads(answer)
