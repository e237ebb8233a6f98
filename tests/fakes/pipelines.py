"""Pipelines that draw at once and fail as they are told; loaded by `--pipeline-class`.

They need torch alone, so a worker that loads one starts as quickly as torch can be imported. What a
request's `fault` names happens after `fault_at` steps.
"""

import os
import re
import signal
import time
import zlib

import numpy as np
import torch

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
