"""Video in blocks of latent frames by diffusion forcing (arXiv:2407.01392), as in SkyReels-V2.

Each block lags `ar_step` steps behind the one before it, so blocks become final one after the
other, and each is decoded and handed over while later ones are still noisy. Made from the parts of
diffusers' `SkyReelsV2DiffusionForcingPipeline`.
"""

import copy
import inspect
from dataclasses import dataclass, field
from typing import Any

import torch
from diffusers.models.autoencoders.autoencoder_kl_wan import unpatchify

from diffusion_stage.capabilities import BatchFields
from diffusion_stage.pipelines.steps.batch import InputBatch
from diffusion_stage.pipelines.steps.state import StepRequestState


@dataclass(slots=True)
class _Video:
    """Embeddings [1, tokens, features]; `updates` [steps, frames] tells which frames move.

    `decoded` latent frames were given already; `cache` is what the decoder keeps of them.
    """

    positive: torch.Tensor
    negative: torch.Tensor | None
    scale: float
    fps: int
    block: int
    updates: torch.Tensor
    schedulers: list[Any]
    decoded: int = 0
    cache: list[Any] = field(default_factory=list)


class DiffusionForcingSteps:
    """Latents are [videos, channels, frames, height / 8, width / 8], float32."""

    supports_step_execution = True
    has_chunks = True
    step_batch = BatchFields(
        key=("height", "width", "num_frames", "causal_block_size", "fps", "max_sequence_length"),
        free=(
            "ar_step",
            "guidance_scale",
            "negative_prompt",
            "num_inference_steps",
            "num_videos_per_prompt",
            "prompt",
        ),
    )

    def __init__(self, pipeline: Any) -> None:
        self._pipeline = pipeline
        call = inspect.signature(type(pipeline).__call__).parameters
        self._defaults = {name: parameter.default for name, parameter in call.items()}

    def prepare_encode(self, state: StepRequestState) -> None:
        """As the protocol says. Raises `ValueError` for what only whole calls can do."""
        pipeline, given = self._pipeline, {**self._defaults, **state.arguments}
        state.check_arguments(self.step_batch)
        self._check_frames(given["num_frames"])
        device = pipeline._execution_device
        positive, negative = self._encode(given)
        state.latents, frames, _, _ = pipeline.prepare_latents(
            len(positive),
            pipeline.transformer.config.in_channels,
            given["height"],
            given["width"],
            given["num_frames"],
            torch.float32,
            device,
            state.generator,
        )
        block = given["causal_block_size"] or pipeline.transformer.config.num_frame_per_block
        if frames % block:
            raise ValueError(f"`causal_block_size` {block} must divide {frames} latent frames")
        scheduler = copy.deepcopy(pipeline.scheduler)
        scheduler.set_timesteps(given["num_inference_steps"], device=device)
        state.timesteps, _, updates, _ = pipeline.generate_timestep_matrix(
            frames, scheduler.timesteps, frames, given["ar_step"], 0, block
        )
        schedulers = [copy.deepcopy(scheduler) for _ in range(frames)]
        scale = float(given["guidance_scale"])
        state.extra = _Video(positive, negative, scale, given["fps"], block, updates, schedulers)

    def _check_frames(self, frames: int) -> None:
        temporal = self._pipeline.vae_scale_factor_temporal
        if frames % temporal != 1:
            raise ValueError(f"`num_frames` must be a multiple of {temporal}, plus 1")

    def _encode(self, given: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Embeddings of the prompt, and of the negative one where it guides."""
        is_guided = given["guidance_scale"] > 1
        positive, negative = self._pipeline.encode_prompt(
            prompt=given["prompt"],
            negative_prompt=given["negative_prompt"],
            do_classifier_free_guidance=is_guided,
            num_videos_per_prompt=given["num_videos_per_prompt"],
            max_sequence_length=given["max_sequence_length"],
            device=self._pipeline._execution_device,
        )
        dtype = self._pipeline.transformer.dtype
        return positive.to(dtype), negative.to(dtype) if is_guided else None

    def denoise_step(self, batch: InputBatch) -> torch.Tensor:
        """As the protocol says: rows of all requests, then those again that are guided."""
        transformer = self._pipeline.transformer
        block = batch.states[0].extra.block
        if transformer.config.num_frame_per_block != block:
            transformer._set_ar_attention(block)
        samples = batch.latents.to(transformer.dtype)
        of_row = [state.extra for state in batch.states for _ in state.latents]
        guided = [row for row, video in enumerate(of_row) if video.negative is not None]
        rows = [*range(len(of_row)), *guided]
        positive = [state.extra.positive for state in batch.states]
        negative = [s.extra.negative for s in batch.states if s.extra.negative is not None]
        predicted = transformer(
            hidden_states=samples[rows],
            timestep=batch.timesteps[rows],
            encoder_hidden_states=torch.cat([*positive, *negative]),
            enable_diffusion_forcing=True,
            fps=[0 if of_row[0].fps == 16 else 1],  # of all: the model takes no batch of these
            return_dict=False,
        )[0]
        noise: torch.Tensor = predicted[: len(of_row)]
        for row, unguided in zip(guided, predicted[len(of_row) :], strict=True):
            noise[row] = unguided + of_row[row].scale * (noise[row] - unguided)
        return noise

    def step_scheduler(self, state: StepRequestState, prediction: torch.Tensor) -> None:
        """As the protocol says; each frame has a scheduler of its own."""
        video: _Video = state.extra
        moved = video.updates[state.step_index].nonzero().flatten().tolist()
        for frame in moved:
            state.latents[:, :, frame] = video.schedulers[frame].step(
                prediction[:, :, frame],
                state.current_timestep[frame],
                state.latents[:, :, frame],
                return_dict=False,
            )[0]
        later = video.updates[state.step_index + 1 :].any(dim=0)
        state.has_chunk = not later[: video.decoded + video.block].any()

    def post_decode(self, state: StepRequestState) -> dict[str, Any]:
        """As the protocol says: the frames of all blocks that are final and were not given yet."""
        video: _Video = state.extra
        later = video.updates[state.step_index :].any(dim=0).tolist()
        final = later.index(True) if True in later else len(later)
        latents = state.latents[:, :, video.decoded : final]
        output_type = state.arguments["output_type"]
        if output_type == "latent":
            video.decoded = final
            return {"frames": latents}
        pixels = self._decode(latents, video)
        video.decoded = final
        return {"frames": self._pipeline.video_processor.postprocess_video(pixels, output_type)}

    def _decode(self, latents: torch.Tensor, video: _Video) -> torch.Tensor:
        """As `AutoencoderKLWan.decode`, which is causal, going on where it ended before."""
        vae = self._pipeline.vae
        shape = (1, vae.config.z_dim, 1, 1, 1)
        mean = torch.tensor(vae.config.latents_mean).view(shape).to(latents.device, vae.dtype)
        std = torch.tensor(vae.config.latents_std).view(shape).to(latents.device, vae.dtype)
        # The pipeline divides by 1 / std; the same image comes from the same rounding.
        samples = vae.post_quant_conv(latents.to(vae.dtype) / (1.0 / std) + mean)
        vae.clear_cache()
        if video.cache:
            vae._feat_map = video.cache
        frames = []
        for index in range(samples.shape[2]):
            vae._conv_idx = [0]
            is_first = {"first_chunk": True} if video.decoded + index == 0 else {}
            frames.append(
                vae.decoder(
                    samples[:, :, index : index + 1],
                    feat_cache=vae._feat_map,
                    feat_idx=vae._conv_idx,
                    **is_first,
                )
            )
        video.cache = vae._feat_map
        vae.clear_cache()
        pixels = torch.cat(frames, dim=2)
        if vae.config.patch_size is not None:
            pixels = unpatchify(pixels, patch_size=vae.config.patch_size)
        clamped: torch.Tensor = pixels.clamp(-1.0, 1.0)
        return clamped
