"""What people do to a stage in its life, most of it while it is asked for pictures."""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from demo import manifests
from demo.load import Load
from demo.narrator import Narrator
from demo.paint import PARAMS, Answers, ask_once
from demo.report import Keys, Operation, Report
from demo.target import Target
from icons.prompts import PROMPTS

AT_ONCE = 1  # more would only slow down the starting replicas, which share the cores
READY_TIMEOUT_S = 600
BAD_MODEL = "/models/typo"


class Operations:
    """Each method is one chapter; all leave a stage that is ready, with two replicas."""

    def __init__(
        self, target: Target, narrator: Narrator, report: Report, manifest: dict[str, Any]
    ) -> None:
        self._target = target
        self._narrator = narrator
        self._report = report
        self._manifest = manifest

    def roll_out(self, image: str) -> None:
        """A new image tag."""
        with self._under_load("rolling update to a new image tag"):
            self._apply(image=image)
            self._wait_until(lambda: self._status()["updatedReplicas"] == 2)
            self._wait_until_ready()

    def drain(self) -> None:
        """The node of the first replica, which may be the only node: so it is let back in soon.

        Until then no second replica goes: the PodDisruptionBudget sees to it.
        """
        node = self._target.get("pod", "icons-0")["spec"]["nodeName"]
        before = self._pods()
        selector = "--pod-selector=diffusionstage.io/stage=icons"
        command = ["drain", node, selector, "--delete-emptydir-data", "--timeout=240s"]
        with self._under_load(f"kubectl drain {node}"):
            pipe = subprocess.PIPE
            drain = self._target.kubectl_popen(*command, stdout=pipe, stderr=pipe, text=True)
            self._wait_until(lambda: bool(self._pods() - before))
            self._target.kubectl("uncordon", node)
            _, said = drain.communicate(timeout=READY_TIMEOUT_S)
            if drain.returncode != 0:
                raise RuntimeError(f"kubectl drain ended with {drain.returncode}: {said}")
            refused = said.count("Cannot evict")
            self._narrator.say(f"the PodDisruptionBudget had it wait {refused} times for a replica")
            self._wait_until_ready()

    def break_and_mend(self) -> None:
        """A model path with a typo: what is shown, and the way back."""
        with self._under_load(f"kubectl apply with the model {BAD_MODEL}"):
            self._apply(model={"uri": BAD_MODEL})
            self._wait_until(lambda: self._condition("Ready")["reason"] == "ModelUnavailable")
            self._narrator.say(self._target.kubectl("get", "diffusionstages"))
            self._narrator.say(self._condition("Ready")["message"])
            self._apply(model={"uri": "/models/icons-zimage-tiny"})
            self._wait_until_ready()

    def scale(self, *sizes: int) -> None:
        """By the scale subresource, as people and autoscalers do."""
        for size in sizes:
            with self._narrator.step(f"kubectl scale --replicas={size}"):
                self._scale(size)

    def lock(self) -> None:
        """CURVE on, for one client; the stage comes back from no replica at all."""
        with self._narrator.step("CURVE on: a client with a key, and one without"):
            with tempfile.TemporaryDirectory() as folder:
                name, public_key = _make_keys(folder).split()
                files = f"--from-file={folder}"
                self._target.kubectl("create", "secret", "generic", "keyholder", files)
            clients = [{"name": name, "publicKey": public_key}]
            self._apply(curve={"clients": clients}, replicas=2)
            client = manifests.read("keyholder.yaml", self._manifest["spec"]["image"])
            self._target.kubectl("apply", "-f", "-", stdin=client)
            self._wait_until_ready()
            self._target.kubectl("wait", "pod/keyholder", "--for=condition=Ready", "--timeout=60s")
            served = ask_once(self._target, "keyholder", PROMPTS[0], PARAMS)
            refused = ask_once(self._target, "painter", PROMPTS[0], PARAMS)
        heard = refused.failed[0]["message"] if refused.failed else "nothing"
        self._report.keys = Keys(served=len(served.done) == 1, refused=heard)
        self._narrator.say(f"with a key: {len(served.done)} picture; without: {heard}")

    def _scale(self, size: int) -> None:
        self._target.kubectl("scale", "dstage/icons", f"--replicas={size}")
        self._manifest["spec"]["replicas"] = size
        self._wait_until(lambda: self._status()["replicas"] == size)
        self._wait_until_ready()

    @contextmanager
    def _under_load(self, name: str) -> Iterator[None]:
        """Asks from before the chapter begins until after it ends, and reports how it went."""
        with self._narrator.step(f"{name}, under load"):
            answers = yield from self._asking()
        self._report.operations.append(
            Operation(
                name=name,
                sent=len(answers.sent),
                answered=len({event["id"] for event in answers.done}),
                lost=answers.lost,
                duplicated=answers.duplicated,
            )
        )
        self._narrator.say(self._report.operations[-1].describe())
        if answers.failed:
            raise RuntimeError(f"requests failed: {json.dumps(answers.failed)}")

    def _asking(self) -> Generator[None, None, Answers]:
        with Load(self._target, PROMPTS, at_once=AT_ONCE, params=PARAMS) as load:
            self._wait_until(lambda: bool(load.answers.done))
            yield
        return load.answers

    def _apply(self, **spec: Any) -> None:
        self._manifest["spec"] |= spec
        self._target.kubectl("apply", "-f", "-", stdin=json.dumps(self._manifest))

    def _pods(self) -> set[str]:
        """By their uids: one that was replaced is another one of the same name."""
        uids = "-o=jsonpath={.items[*].metadata.uid}"
        found = self._target.kubectl("get", "pods", "-l", "diffusionstage.io/stage=icons", uids)
        return set(found.split())

    def _status(self) -> dict[str, Any]:
        found: dict[str, Any] = self._target.get("dstage", "icons")["status"]
        return found

    def _condition(self, kind: str) -> dict[str, Any]:
        [found] = [one for one in self._status()["conditions"] if one["type"] == kind]
        return dict(found)

    def _wait_until_ready(self) -> None:
        timeout = f"--timeout={READY_TIMEOUT_S}s"
        self._target.kubectl("wait", "dstage/icons", "--for=condition=Ready", timeout)

    def _wait_until(self, check: Callable[[], bool]) -> None:
        deadline = time.monotonic() + READY_TIMEOUT_S
        while not check():
            if time.monotonic() > deadline:
                raise RuntimeError("what the demo waits for did not happen")
            time.sleep(0.3)


def _make_keys(folder: str) -> str:
    """Returns the line for the stage's list of clients."""
    program = str(Path(sys.executable).with_name("diffusion-stage"))
    command = [program, "keys", folder, "--name=keyholder"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
