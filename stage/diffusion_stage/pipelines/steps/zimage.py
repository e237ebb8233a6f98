"""Z-Image step by step, from the parts of diffusers' `ZImagePipeline` (arXiv:2511.22699).

The transformer takes a list of samples with a prompt each, so requests with prompts, steps and
guidance of their own share a forward; guided ones have a second row in it.
"""

import copy
import inspect
from dataclasses import dataclass
from typing import Any

import torch
from diffusers.pipelines.z_image import pipeline_z_image as parts

from diffusion_stage.capabilities import BatchFields
from diffusion_stage.pipelines.steps.batch import InputBatch
from diffusion_stage.pipelines.steps.state import StepRequestState

DEFAULT_SIZE = 1024  # pixels
NEGATIVES_KEPT = 32
FREE_IN_STEPS = (
    "cfg_normalization",
    "cfg_truncation",
    "guidance_scale",
    "latents",
    "max_sequence_length",
    "negative_prompt",
    "num_images_per_prompt",
    "num_inference_steps",
    "prompt",
    "sigmas",
)
FREE_IN_CALLS = ("negative_prompt", "prompt")


@dataclass(slots=True)
class _Conditions:
    """Embeddings [tokens, features] of each row, and how strongly they guide."""

    positive: list[torch.Tensor]
    negative: list[torch.Tensor]
    scale: float
    normalization: float
    truncation: float | None

    def scale_at(self, timestep: torch.Tensor) -> float:
        """Guidance ends where the normalised time passes the truncation."""
        truncation = self.truncation
        if truncation is not None and truncation <= 1 and 1 - timestep / 1000 > truncation:
            return 0.0
        return self.scale


class ZImageSteps:
    """Latents are [images, channels, height / 8, width / 8], float32."""

    supports_step_execution = True
    has_chunks = False
    step_batch = BatchFields(key=("height", "width"), free=FREE_IN_STEPS)
    request_batch = BatchFields(
        key=("height", "width", *(name for name in FREE_IN_STEPS if name not in FREE_IN_CALLS)),
        free=FREE_IN_CALLS,
    )

    def __init__(self, pipeline: Any) -> None:
        self._pipeline = pipeline
        self._negatives: dict[tuple[str, int], torch.Tensor] = {}
        call = inspect.signature(type(pipeline).__call__).parameters
        self._defaults = {name: parameter.default for name, parameter in call.items()}

    def prepare_encode(self, state: StepRequestState) -> None:
        """As the protocol says; prompt and noise are those of the pipeline's own call."""
        state.check_arguments(self.step_batch)
        pipeline, given = self._pipeline, {**self._defaults, **state.arguments}
        scale, length = float(given["guidance_scale"]), given["max_sequence_length"]
        prompts = _texts(given["prompt"])
        positive = state.extra or self._encode(prompts, length)  # see `encode_together`
        negative: list[torch.Tensor] = []
        if scale > 0:
            texts = _texts(given["negative_prompt"] or [""] * len(prompts))
            if len(texts) != len(prompts):
                raise ValueError(f"`negative_prompt`: {len(texts)} for {len(prompts)} prompt(s)")
            negative = [self._encode_negative(text, length) for text in texts]
        images = given["num_images_per_prompt"]
        state.extra = _Conditions(
            [each for each in positive for _ in range(images)],
            [each for each in negative for _ in range(images)],
            scale,
            float(given["cfg_normalization"]),
            given["cfg_truncation"],
        )
        state.latents = self._noise(state, rows=len(positive) * images)
        state.scheduler = scheduler = copy.deepcopy(pipeline.scheduler)
        state.timesteps = self._schedule(scheduler, state.latents, given)

    def encode_together(self, states: list[StepRequestState]) -> None:
        """As the protocol says; the embeddings wait in `extra` for `prepare_encode`."""
        length = self._defaults["max_sequence_length"]
        plain = [s for s in states if s.arguments.get("max_sequence_length", length) == length]
        texts = [_texts(state.arguments["prompt"]) for state in plain]
        found = iter(self._encode([text for each in texts for text in each], length))
        for state, own in zip(plain, texts, strict=True):
            state.extra = [next(found) for _ in own]

    def _encode(self, prompts: list[str], length: int) -> list[torch.Tensor]:
        found: list[torch.Tensor]
        found, _ = self._pipeline.encode_prompt(
            prompt=list(prompts), do_classifier_free_guidance=False, max_sequence_length=length
        )
        return found

    def _encode_negative(self, text: str, length: int) -> torch.Tensor:
        """Remembered: most requests have the same one, and it costs as much as the prompt."""
        known = self._negatives.pop((text, length), None)
        if known is None:
            (known,) = self._encode([text], length)
        self._negatives[text, length] = known
        if len(self._negatives) > NEGATIVES_KEPT:
            del self._negatives[next(iter(self._negatives))]
        return known

    def _noise(self, state: StepRequestState, *, rows: int) -> torch.Tensor:
        given = state.arguments
        latents: torch.Tensor = self._pipeline.prepare_latents(
            rows,
            self._pipeline.transformer.in_channels,
            given.get("height") or DEFAULT_SIZE,
            given.get("width") or DEFAULT_SIZE,
            torch.float32,
            self._pipeline._execution_device,
            state.generator,
            given.get("latents"),
        )
        return latents

    def _schedule(
        self, scheduler: Any, latents: torch.Tensor, given: dict[str, Any]
    ) -> torch.Tensor:
        steps = given["num_inference_steps"]
        config = scheduler.config
        shift = parts.calculate_shift(
            (latents.shape[2] // 2) * (latents.shape[3] // 2),
            config.get("base_image_seq_len", 256),
            config.get("max_image_seq_len", 4096),
            config.get("base_shift", 0.5),
            config.get("max_shift", 1.15),
        )
        sigmas = given["sigmas"] or parts.get_default_z_image_sigmas(steps)
        timesteps: torch.Tensor
        timesteps, _ = parts.retrieve_timesteps(
            scheduler, steps, latents.device, sigmas=sigmas, mu=shift
        )
        scheduler.set_begin_index(0)
        return timesteps

    def denoise_step(self, batch: InputBatch) -> torch.Tensor:
        """As the protocol says: rows of all requests, then those again that are guided now."""
        scales = [s.extra.scale_at(s.current_timestep) for s in batch.states for _ in s.latents]
        guided = [row for row, scale in enumerate(scales) if scale > 0]
        positive = [each for s in batch.states for each in s.extra.positive]
        negative = [n for s in batch.states for n in s.extra.negative or s.extra.positive]
        rows = [*range(len(scales)), *guided]
        transformer = self._pipeline.transformer
        samples = batch.latents.to(transformer.dtype).unsqueeze(2)
        predicted = transformer(
            [samples[row] for row in rows],
            ((1000 - batch.timesteps) / 1000)[rows],
            positive + [negative[row] for row in guided],
            return_dict=False,
        )[0]
        noise = [each.float() for each in predicted[: len(scales)]]
        normalizations = [s.extra.normalization for s in batch.states for _ in s.latents]
        for row, unguided in zip(guided, predicted[len(scales) :], strict=True):
            noise[row] = _guide(noise[row], unguided.float(), scales[row], normalizations[row])
        return -torch.stack(noise).squeeze(2)

    def step_scheduler(self, state: StepRequestState, prediction: torch.Tensor) -> None:
        """As the protocol says."""
        (state.latents,) = state.scheduler.step(
            prediction, state.current_timestep, state.latents, return_dict=False
        )

    def post_decode(self, state: StepRequestState) -> dict[str, Any]:
        """As the protocol says: the images at the end."""
        output_type = state.arguments["output_type"]
        if output_type == "latent":
            return {"images": state.latents}
        vae = self._pipeline.vae
        latents = state.latents.to(vae.dtype) / vae.config.scaling_factor + vae.config.shift_factor
        pixels = vae.decode(latents, return_dict=False)[0]
        return {"images": self._pipeline.image_processor.postprocess(pixels, output_type)}

    def call_batch(
        self, states: list[StepRequestState], shared: dict[str, Any]
    ) -> list[dict[str, Any]]:
        """As the protocol says. Each request draws its noise as it would alone."""
        prompts = [_texts(state.arguments["prompt"]) for state in states]
        arguments = {k: v for k, v in states[0].arguments.items() if k not in FREE_IN_CALLS}
        images = arguments.get("num_images_per_prompt", 1)
        latents = [
            self._noise(state, rows=len(texts) * images)
            for state, texts in zip(states, prompts, strict=True)
        ]
        negatives = [
            _texts(state.arguments.get("negative_prompt") or [""] * len(texts))
            for state, texts in zip(states, prompts, strict=True)
        ]
        arguments |= shared | {
            "prompt": [text for texts in prompts for text in texts],
            "negative_prompt": [text for texts in negatives for text in texts],
            "latents": torch.cat(latents),
        }
        pixels = self._pipeline(**arguments).images
        ends = torch.tensor([len(each) for each in latents]).cumsum(0).tolist()
        starts = [0, *ends[:-1]]
        return [{"images": pixels[start:end]} for start, end in zip(starts, ends, strict=True)]


def _guide(
    positive: torch.Tensor, negative: torch.Tensor, scale: float, normalization: float
) -> torch.Tensor:
    """Classifier-free guidance (arXiv:2207.12598), its norm bounded where that is asked for."""
    guided = positive + scale * (positive - negative)
    if normalization > 0:
        limit = torch.linalg.vector_norm(positive) * normalization
        norm = torch.linalg.vector_norm(guided)
        if norm > limit:
            guided = guided * (limit / norm)
    return guided


def _texts(prompt: str | list[str]) -> list[str]:
    return [prompt] if isinstance(prompt, str) else list(prompt)
