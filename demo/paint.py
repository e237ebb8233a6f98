"""Requests from the client pod, read as they are answered."""

import base64
import io
import json
import subprocess
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PIL import Image

from demo.target import Target
from icons.prompts import GUIDANCE, SIDE, STEPS

PARAMS = {"height": SIDE, "width": SIDE, "num_inference_steps": STEPS, "guidance_scale": GUIDANCE}
"""As the icon model was trained."""
PROGRAM = Path(__file__).with_name("painter.py")
Event = dict[str, Any]


@dataclass(slots=True)
class Answers:
    """All events of one run of the client, sorted by what they tell."""

    sent: list[str] = field(default_factory=list)
    done: list[Event] = field(default_factory=list)
    failed: list[Event] = field(default_factory=list)
    failures: list[Event] = field(default_factory=list)
    workers: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    steps: dict[str, int] = field(default_factory=dict)
    batches: dict[str, dict[str, int]] = field(default_factory=dict)

    def take(self, event: Event) -> None:
        match event["event"]:
            case "sent":
                self.sent.append(event["id"])
            case "progress":
                self.steps[event["id"]] = event["step"]
            case "workers":
                self.workers = event["workers"]
            case "batches":
                self.batches = event["batches"]
            case "done" | "failed" | "failure" as kind:
                getattr(self, kind if kind != "failure" else "failures").append(event)

    @property
    def duplicated(self) -> int:
        return sum(count - 1 for count in Counter(event["id"] for event in self.done).values())

    @property
    def lost(self) -> int:
        return len(set(self.sent) - {event["id"] for event in self.done})

    def images(self) -> list[Image.Image]:
        """In the order in which they were asked for."""
        found = {event["id"]: event["png"] for event in self.done}
        return [Image.open(io.BytesIO(base64.b64decode(found[each]))) for each in self.sent]


def client_command(job: dict[str, Any], pod: str = "painter") -> list[str]:
    """What kubectl runs in a client pod."""
    return ["exec", "-i", pod, "--", "python", "-c", PROGRAM.read_text(), json.dumps(job)]


def ask_once(target: Target, pod: str, prompt: str, params: dict[str, Any]) -> Answers:
    """One picture, from a pod of choice."""
    request = {"id": f"from-{pod}", "prompt": prompt, "seed": 1}
    job = {"address": "icons", "params": params, "requests": [request]}
    return _read(target, client_command(job, pod), lambda _answers, _event: None)


def paint(
    target: Target,
    prompts: Sequence[str],
    *,
    first: int,
    params: dict[str, Any],
    on_event: Callable[[Answers, Event], None],
) -> Answers:
    """Send the prompts, all at once; `on_event` is called after each event was taken.

    `first` is the number of the first prompt, which is its seed as well.
    """
    requests = [
        {"id": f"request-{first + i}", "prompt": prompt, "seed": first + i}
        for i, prompt in enumerate(prompts)
    ]
    job = {"address": "icons", "params": params, "requests": requests, "about_stages": True}
    return _read(target, client_command(job), on_event)


def _read(
    target: Target, command: list[str], on_event: Callable[[Answers, Event], None]
) -> Answers:
    answers = Answers()
    pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE}
    with target.kubectl_popen(*command, **pipes, text=True) as client:
        assert client.stdout is not None
        for line in client.stdout:
            event = json.loads(line)
            answers.take(event)
            on_event(answers, event)
    if client.returncode != 0:
        raise RuntimeError(f"the client in the pod ended with {client.returncode}")
    return answers
