"""Pipelines that draw at once and fail as they are told; loaded by `--pipeline-class`.

They need torch alone, so a worker that loads one starts as quickly as torch can be imported. What a
request's `fault` names happens after `fault_at` steps.
"""

import inspect
import os
import re
import signal
import time
import zlib

import numpy as np
import torch

from diffusion_stage.capabilities import BatchFields

SIZE = 8


def picture(prompt, seed, size=SIZE):
    """What the pipelines draw: pixels of their own for each prompt and seed."""
    chance = np.random.default_rng([zlib.crc32(prompt.encode()), seed])
    return chance.integers(0, 256, (size, size, 3), dtype=np.uint8)


def _raise(error):
    raise error


FAULTS = {
    "value error": lambda: _raise(ValueError("`guidance_scale` is too high")),
    "runtime error": lambda: _raise(RuntimeError("a bug in the model")),
    "assertion": lambda: _raise(AssertionError),
    "out of memory": lambda: _raise(torch.OutOfMemoryError("tried to allocate 80 GiB")),
    "sleep": lambda: time.sleep(3600),
    "hold the GIL": lambda: re.match("(a+)+$", "a" * 60 + "b"),
    "exit": lambda: os._exit(3),
    "crash": lambda: os.kill(os.getpid(), signal.SIGSEGV),
}


DEFAULTS = {
    "chunks": 0,
    "fault": None,
    "fault_at": 0,
    "height": SIZE,
    "latents": None,
    "num_inference_steps": 4,
    "output_mb": 0,
    "step_s": 0.0,
}
QUICK = {"num_inference_steps": 0}


def signature_of(call, **more):
    """The call's signature with more parameters, as these defaults."""
    found = inspect.signature(call)
    added = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=value, annotation=type(value)
        )
        for name, value in more.items()
    ]
    return found.replace(parameters=[*found.parameters.values(), *added])


class Pipeline:
    """Steps of `step_s` seconds each, then the picture; `output_mb` of zeros in its place."""

    num_timesteps = 4

    @classmethod
    def from_pretrained(cls, name, **given):
        return cls()

    def to(self, device):
        return self

    def set_progress_bar_config(self, **given):
        pass

    def __call__(
        self,
        prompt: str | list[str],
        *,
        height: int = SIZE,
        width: int = SIZE,
        num_inference_steps: int = 4,
        step_s: float = 0.0,
        fault: str | None = None,
        fault_at: int = 0,
        output_mb: int = 0,
        latents: torch.Tensor | None = None,
        generator=None,
        output_type="pil",
        callback_on_step_end=None,
    ):
        self.num_timesteps = num_inference_steps
        for step in range(num_inference_steps):
            if fault in FAULTS and step == fault_at:
                FAULTS[fault]()
            time.sleep(step_s)
            if callback_on_step_end is not None:
                callback_on_step_end(self, step, None, {})
        if fault == "complex output":
            return (torch.zeros(2, dtype=torch.complex64),)
        if output_mb:
            return (np.zeros(output_mb << 20, np.uint8),)
        if latents is not None:
            return (latents,)
        prompts = [prompt] if isinstance(prompt, str) else prompt
        pictures = [picture(text, generator.initial_seed(), height) for text in prompts]
        return (np.stack(pictures).astype(np.float32) / 255,)


EVERYTHING = (
    *("chunks", "fault", "fault_at", "latents", "num_inference_steps", "output_mb", "prompt"),
    "step_s",
)


class Steps(Pipeline):
    """The same, step by step: a chunk of zeros after each of the first `chunks` steps."""

    supports_step_execution = True
    has_chunks = True
    step_batch = BatchFields(key=("height",), free=EVERYTHING)

    def __call__(self, prompt: str | list[str], *, chunks: int = 0, **given):
        return super().__call__(prompt, **given)

    __call__.__signature__ = signature_of(Pipeline.__call__, chunks=0)

    def prepare_encode(self, state):
        given = state.extra = DEFAULTS | state.arguments
        if given["fault"] in FAULTS and given["fault_at"] == 0:
            FAULTS[given["fault"]]()
        state.latents = torch.zeros(1, 1)
        state.timesteps = torch.arange(given["num_inference_steps"])

    def denoise_step(self, batch):
        for state in batch.states:
            if state.extra["fault"] in FAULTS and state.extra["fault_at"] == state.step_index > 0:
                FAULTS[state.extra["fault"]]()
        time.sleep(max(state.extra["step_s"] for state in batch.states))
        return batch.latents + 1

    def step_scheduler(self, state, prediction):
        state.latents = prediction
        state.has_chunk = state.step_index < state.extra["chunks"]

    def post_decode(self, state):
        if not state.denoise_completed:
            return {"frames": np.full((1, 2), state.step_index, np.float32)}
        (output,) = Pipeline.__call__(
            self,
            state.request.params.get("prompt", ""),
            height=state.extra["height"],
            num_inference_steps=0,
            generator=state.generator,
            **{name: state.extra[name] for name in ("fault", "output_mb", "latents")},
        )
        return {"output_0": output}


class Batches(Pipeline):
    """Takes several requests in one call, whose faults then hit all of them."""

    request_batch = BatchFields(key=("height", "num_inference_steps"), free=EVERYTHING)

    def call_batch(self, states, shared):
        given = [DEFAULTS | state.arguments for state in states]
        steps = given[0]["num_inference_steps"]
        self.num_timesteps = steps
        for step in range(steps):
            for each in given:
                if each["fault"] in FAULTS and each["fault_at"] == step:
                    FAULTS[each["fault"]]()
            time.sleep(max(each["step_s"] for each in given))
            shared["callback_on_step_end"](self, step, None, {})
        return [
            {"output_0": self(**state.arguments | QUICK, generator=state.generator)[0]}
            for state in states
        ]


class WithoutSteps(Pipeline):
    """Tells nobody of its steps."""

    def __call__(self, prompt: str, step_s: float = 0.0, fault: str | None = None, generator=None):
        return super().__call__(prompt, step_s=step_s, fault=fault, generator=generator)


class TooLarge(Pipeline):
    def to(self, device):
        raise torch.OutOfMemoryError("tried to allocate 80 GiB")


class Unreadable(Pipeline):
    @classmethod
    def from_pretrained(cls, name, **given):
        raise OSError(f"no file named model.safetensors in {name}")


class NeverLoads(Pipeline):
    @classmethod
    def from_pretrained(cls, name, **given):
        time.sleep(3600)


class ExitsAtLoad(Pipeline):
    @classmethod
    def from_pretrained(cls, name, **given):
        os._exit(3)


class DiesAtLoad(Pipeline):
    @classmethod
    def from_pretrained(cls, name, **given):
        os.kill(os.getpid(), signal.SIGKILL)


class FailsWarmUp(Pipeline):
    def __call__(self, prompt: str, generator=None):
        raise AssertionError


class HangsInWarmUp(Pipeline):
    def __call__(self, prompt: str, generator=None):
        time.sleep(3600)


class OneRankDoesNotFit(Pipeline):
    """One of two workers cannot load, the other can."""

    def to(self, device):
        if torch.distributed.get_rank() == 1:
            raise torch.OutOfMemoryError("tried to allocate 80 GiB")
        return self


class Extension:
    """Adds methods to a worker."""

    def echo(self, value):
        return value

    def give_what_cannot_travel(self):
        return object()


class Conflict:
    """Would take a method's place."""

    def report(self):
        return {}
