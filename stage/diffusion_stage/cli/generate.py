"""`diffusion-stage generate`: prompts in, PNG files out, all prompts at the same time."""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from diffusion_stage import logs
from diffusion_stage.cli import curve
from diffusion_stage.cli.pictures import save
from diffusion_stage.cli.progress import ProgressLine
from diffusion_stage.client import AsyncStageClient, CurveKeys, Progress
from diffusion_stage.errors import InvalidArgumentError, RequestError

EX_FAILED = 1
EX_USAGE = 2
EX_INTERRUPTED = 130

SHORTHANDS: tuple[tuple[str, type[int | float], str], ...] = (
    ("--steps", int, "num_inference_steps"),
    ("--height", int, "height"),
    ("--width", int, "width"),
    ("--guidance-scale", float, "guidance_scale"),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one prompt; `error` is None when the files were written."""

    prompt: str
    seconds: float
    files: list[str]
    seed: int | None = None
    request_id: str | None = None
    replica: str | None = None
    attempts: int | None = None
    error: str | None = None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--address", required=True, help="tcp://HOST:PORT or a Service's name")
    curve.add_argument(parser)
    parser.add_argument(
        "--prompt", required=True, action="append", metavar="TEXT", help="once for each request"
    )
    parser.add_argument("--seed", type=int, help="of the first prompt; the next has one more")
    parser.add_argument(
        "--param",
        dest="params",
        action="append",
        default=[],
        type=parameter,
        metavar="NAME=VALUE",
        help="any parameter of the pipeline; VALUE is JSON, or text if it is none",
    )
    for flag, kind, name in SHORTHANDS:
        parser.add_argument(
            flag,
            dest="params",
            action="append",
            type=_named(name, kind),
            metavar="N",
            help=f"short for --param {name}=N",
        )
    parser.add_argument("--out", type=Path, default=Path(), metavar="FOLDER", help="default: here")
    parser.add_argument("--json", action="store_true", help="tell the outcomes as JSON")
    parser.add_argument(
        "--timeout", type=float, default=600.0, metavar="SECONDS", help="for each request"
    )
    parser.add_argument(
        "--connect-timeout", type=float, default=60.0, metavar="SECONDS", help="for the first word"
    )


def parameter(text: str) -> tuple[str, Any]:
    """`name=value` as the pipeline gets it."""
    name, separator, value = text.partition("=")
    if not name or not separator:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value


def _named(name: str, kind: type[int | float]) -> Callable[[str], tuple[str, int | float]]:
    def convert(text: str) -> tuple[str, int | float]:
        try:
            return name, kind(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is no {kind.__name__}") from None

    return convert


def run(args: argparse.Namespace) -> int:
    logs.configure(level="WARNING")
    try:
        args.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        return _refuse(f"--out {args.out}: {error.strerror}")
    try:
        keys = curve.keys_of(args)
    except InvalidArgumentError as error:
        return _refuse(f"{curve.FLAG}: {error}")
    try:
        outcomes = asyncio.run(_generate_all(args, keys))
    except InvalidArgumentError as error:
        return _refuse(f"--address: {error}")
    except KeyboardInterrupt:
        return EX_INTERRUPTED
    _report(outcomes, as_json=args.json)
    return EX_FAILED if any(each.error is not None for each in outcomes) else 0


def _refuse(message: str) -> int:
    print(f"diffusion-stage generate: {message}", file=sys.stderr)
    return EX_USAGE


def _report(outcomes: list[Outcome], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps([asdict(each) for each in outcomes], indent=2, ensure_ascii=False))
        return
    for outcome in outcomes:
        for file in outcome.files:
            print(file)


async def _generate_all(args: argparse.Namespace, keys: CurveKeys | None) -> list[Outcome]:
    line = ProgressLine(len(args.prompt), sys.stderr)
    client = AsyncStageClient(args.address, connect_timeout_s=args.connect_timeout, curve=keys)
    async with client:
        jobs = [_Job(client, args, line, index) for index in range(len(args.prompt))]
        return await asyncio.gather(*(job.run() for job in jobs))


@dataclass(frozen=True, slots=True)
class _Job:
    """The request for one prompt, and the files that it becomes."""

    client: AsyncStageClient
    args: argparse.Namespace
    line: ProgressLine
    index: int

    async def run(self) -> Outcome:
        prompt: str = self.args.prompt[self.index]
        started_at = time.monotonic()
        try:
            outcome = await self._generate(prompt, started_at)
        except (RequestError, OSError) as error:
            seconds = time.monotonic() - started_at
            outcome = Outcome(prompt, seconds, [], error=str(error))
        what = ", ".join(outcome.files) if outcome.error is None else f"failed: {outcome.error}"
        self.line.finish(self.index, f"{prompt!r}: {what} ({outcome.seconds:.1f} s)")
        return outcome

    async def _generate(self, prompt: str, started_at: float) -> Outcome:
        parameters = dict(self.args.params)
        seed = None if self.args.seed is None else self.args.seed + self.index
        generation = await self.client.generate(
            prompt,
            seed=seed,
            timeout_s=self.args.timeout,
            on_progress=self._advance,
            **parameters,
        )
        seconds = time.monotonic() - started_at
        files = await asyncio.to_thread(
            save,
            generation,
            self.args.out,
            number=self.index + 1,
            prompt=prompt,
            parameters=parameters,
        )
        return Outcome(
            prompt=prompt,
            seconds=seconds,
            files=[str(file) for file in files],
            seed=generation.seed,
            request_id=generation.request_id,
            replica=generation.replica,
            attempts=generation.attempts,
        )

    def _advance(self, progress: Progress) -> None:
        self.line.advance(self.index, progress.step, progress.total_steps)
