"""The story, step by step."""

import json
from pathlib import Path

import yaml
from PIL import Image

import images
from demo import manifests
from demo.kill import Kill
from demo.narrator import Narrator
from demo.operations import Operations
from demo.paint import PARAMS, Answers, Event, paint
from demo.report import Report
from demo.sheet import contact_sheet
from demo.target import Target
from icons.judge import Judge
from icons.prompts import PROMPTS

ROOT = Path(__file__).parents[1]
CHART = ROOT / "charts" / "diffusion-operator"
RELEASE = "diffusion-operator"
OPERATOR_NAMESPACE = "diffusion-system"
LONG_STEPS = 100  # long enough that each worker is at work when one is killed
READY_TIMEOUT_S = 300


class Scenario:
    """Runs on any target; fills the report."""

    def __init__(self, target: Target, narrator: Narrator, report: Report, output: Path) -> None:
        self._target = target
        self._narrator = narrator
        self._report = report
        self._output = output
        self._icons: list[tuple[str, Image.Image]] = []

    def install(self) -> None:
        """The images and the operator."""
        say, step, target = self._narrator.say, self._narrator.step, self._target
        with step("build images"):
            stage, operator = images.demo_stage(), images.build("operator")
        with step("bring images in"):
            self._stage_image = target.load(stage)
            self._next_image = target.load(images.rename(stage, f"{stage.name}-next"))
            operator_image = target.load(operator)
        with step("helm install"):
            repository, _, tag = operator_image.rpartition(":")
            target.helm(
                *("install", RELEASE, str(CHART), "--namespace", OPERATOR_NAMESPACE),
                *("--create-namespace", "--wait"),
                *("--set", f"image.repository={repository}", "--set", f"image.tag={tag}"),
            )
        say(f"{operator_image} and the DiffusionStage definition")

    def start_stage(self) -> None:
        """The one manifest, and a pod to ask from."""
        say, step, target = self._narrator.say, self._narrator.step, self._target
        stage = manifests.read("stage.yaml", self._stage_image)
        client = manifests.read("client.yaml", self._stage_image)
        with step("kubectl apply"):
            say(stage)
            target.kubectl("apply", "-f", "-", stdin=f"{stage}\n---\n{client}")
        with step("kubectl wait --for=condition=Ready"):
            self._wait_until_ready()
            target.kubectl("wait", "pod/painter", "--for=condition=Ready", "--timeout=60s")
        say(target.kubectl("get", "diffusionstages,pods"))

    def _wait_until_ready(self) -> None:
        self._target.kubectl(
            "wait", "dstage/icons", "--for=condition=Ready", f"--timeout={READY_TIMEOUT_S}s"
        )

    def draw(self, first: int, last: int) -> None:
        """Icons for prompts number `first` to before `last`, asked for at the same time."""
        prompts = PROMPTS[first:last]
        with self._narrator.step(f"{len(prompts)} icons from {len(prompts)} prompts at once"):
            answers = paint(
                self._target, prompts, first=first, params=PARAMS, on_event=self._show_progress
            )
        self._count(answers)
        pictures = answers.images()
        self._icons += zip(prompts, pictures, strict=True)
        right = Judge().is_right(pictures, prompts)
        self._report.icons.total += len(pictures)
        self._report.icons.right += sum(right)
        self._narrator.say(
            f"{_shares(answers)}; {sum(right)} of {len(right)} are what they should be"
        )
        sizes = _batch_sizes(answers)
        self._report.batches.append(sizes)
        counts = ", ".join(f"{size}: {count}" for size, count in sizes.items())
        self._narrator.say(f"steps by number of requests in the batch: {counts}")

    def kill_a_worker(self) -> None:
        """While all workers are at work; the client's requests are answered all the same."""
        say, step, death = self._narrator.say, self._narrator.step, self._report.death
        kill = Kill(self._target)

        def on_event(answers: Answers, event: Event) -> None:
            self._show_progress(answers, event)
            kill.strike_when_busy(answers)

        with step("a worker is killed in mid-generation"):
            params = {**PARAMS, "num_inference_steps": LONG_STEPS}
            answers = paint(self._target, PROMPTS[:4], first=100, params=params, on_event=on_event)
        self._count(answers)
        first_error = min((event["at"] for event in answers.failures), default=None)
        if first_error is not None:
            death.secondsToClientError = round(first_error - kill.at, 3)
        say(f"worker {kill.worker['rank']} of {kill.replica} got SIGKILL")
        say(f"the client knew after {death.secondsToClientError} s, and asked again elsewhere:")
        say(f"{len(answers.done)} of {len(answers.sent)} answered; {_shares(answers)}")
        with step("kubectl get diffusionstages -o wide shows the death"):
            failure, seconds = kill.failure()
        death.reason, death.exitCode = failure["reason"], failure["exitCode"]
        death.rank, death.secondsToStatus = failure.get("workerRank"), round(seconds, 3)
        say(self._target.kubectl("get", "diffusionstages", "-o", "wide"))
        say(f"status after {death.secondsToStatus} s: {failure['message']}")
        with step("Ready again"):
            self._wait_until_ready()
        say(self._target.kubectl("get", "diffusionstages"))

    def operate(self) -> None:
        """What people do to a stage, and that no request is lost over it."""
        manifest = yaml.safe_load(manifests.read("stage.yaml", self._stage_image))
        operations = Operations(self._target, self._narrator, self._report, manifest)
        operations.roll_out(self._next_image)
        operations.drain()
        operations.break_and_mend()
        operations.scale(1, 3, 0)
        operations.lock()

    def finish(self) -> None:
        """The contact sheet, and everything taken away again but the cluster."""
        sheet = self._output / "icons.png"
        contact_sheet(self._icons).save(sheet)
        self._narrator.say(f"{sheet}: {self._report.icons.right} right of {len(self._icons)}")

    def uninstall(self) -> None:
        with self._narrator.step("helm uninstall"):
            target = self._target
            pods = ("pod/painter", "pod/keyholder", "secret/keyholder")
            target.kubectl("delete", "dstage/icons", *pods, "--ignore-not-found", "--wait")
            target.kubectl("wait", "pod", "--all", "--for=delete", "--timeout=90s")
            target.helm("uninstall", RELEASE, "--namespace", OPERATOR_NAMESPACE, "--wait")

    def _show_progress(self, answers: Answers, _event: Event) -> None:
        done = len(answers.done)
        steps = sum(answers.steps.values())
        self._narrator.advance(f"{done} of {len(answers.sent)} done, {steps} steps")

    def _count(self, answers: Answers) -> None:
        requests = self._report.requests
        requests.sent += len(answers.sent)
        requests.answered += len({event["id"] for event in answers.done})
        requests.duplicated += answers.duplicated
        requests.lost += answers.lost
        if answers.failed:
            raise RuntimeError(f"requests failed: {json.dumps(answers.failed)}")


def _shares(answers: Answers) -> str:
    """How the workers shared the work."""
    counts: dict[str, int] = {}
    for event in answers.done:
        who = f"{event['replica']} worker {event['rank']}"
        counts[who] = counts.get(who, 0) + 1
    return ", ".join(f"{who}: {count}" for who, count in sorted(counts.items()))


def _batch_sizes(answers: Answers) -> dict[int, int]:
    """How many steps the workers took with how many requests, since they started."""
    counts: dict[int, int] = {}
    for sizes in answers.batches.values():
        for size, count in sizes.items():
            counts[int(size)] = counts.get(int(size), 0) + count
    return dict(sorted(counts.items()))
