"""`python -m benchmarks.fused MODEL`: the batches of step mode as a bare torch loop.

The limit of what batching can give: all prompts encoded at once, each step one call of the
transformer for all that still run, all images decoded at once. Each line of input runs the requests
of `benchmarks.mixed`, and is answered by a line with the seconds they took.
"""

import copy
import json
import sys
import time
from typing import Any

import torch
from diffusers import DiffusionPipeline

from benchmarks.mixed import REQUESTS, SIDE


@torch.no_grad()
def run(pipe: Any) -> None:
    """All requests, from prompt to image."""
    positive, negative = pipe.encode_prompt([each["prompt"] for each in REQUESTS])
    latents, schedulers = [], []
    for each in REQUESTS:
        generator = torch.Generator("cpu").manual_seed(each["seed"])
        channels = pipe.transformer.in_channels
        shape = (1, channels, SIDE, SIDE, torch.float32, "cpu", generator)
        latents.append(pipe.prepare_latents(*shape)[0])
        scheduler = copy.deepcopy(pipe.scheduler)
        scheduler.set_timesteps(each["num_inference_steps"])
        scheduler.set_begin_index(0)
        schedulers.append(scheduler)
    for step in range(max(each["num_inference_steps"] for each in REQUESTS)):
        running = [n for n, e in enumerate(REQUESTS) if step < e["num_inference_steps"]]
        _step(pipe, step, running, latents, schedulers, positive, negative)
    scaled = torch.stack(latents).to(pipe.vae.dtype) / pipe.vae.config.scaling_factor
    pixels = pipe.vae.decode(scaled + pipe.vae.config.shift_factor, return_dict=False)[0]
    pipe.image_processor.postprocess(pixels, output_type="np")


def _step(  # noqa: PLR0913, PLR0917  # what the loop has at hand
    pipe: Any,
    step: int,
    running: list[int],
    latents: list[torch.Tensor],
    schedulers: list[Any],
    positive: list[torch.Tensor],
    negative: list[torch.Tensor],
) -> None:
    guided = [n for n in running if REQUESTS[n]["guidance_scale"] > 0]
    rows = running + guided
    times = torch.stack([schedulers[n].timesteps[step] for n in rows])
    noise = pipe.transformer(
        [latents[n].to(pipe.transformer.dtype).unsqueeze(1) for n in rows],
        (1000 - times) / 1000,
        [positive[n] for n in running] + [negative[n] for n in guided],
        return_dict=False,
    )[0]
    unguided = dict(zip(guided, noise[len(running) :], strict=True))
    for n, predicted in zip(running, noise, strict=False):
        total = predicted.float()
        if n in unguided:
            total = total + REQUESTS[n]["guidance_scale"] * (total - unguided[n].float())
        scheduler = schedulers[n]
        latents[n] = scheduler.step(
            -total.squeeze(1), scheduler.timesteps[step], latents[n], return_dict=False
        )[0]


def main(model: str) -> None:
    pipe = DiffusionPipeline.from_pretrained(model)
    pipe.set_progress_bar_config(disable=True)
    print(json.dumps({"ready": True}), flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        run(pipe)
        print(json.dumps({"seconds": time.perf_counter() - start}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
