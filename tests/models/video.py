"""A SkyReels-V2 diffusion forcing pipeline of random weights, small enough for a CPU."""

import torch
from diffusers import (
    AutoencoderKLWan,
    SkyReelsV2DiffusionForcingPipeline,
    SkyReelsV2Transformer3DModel,
    UniPCMultistepScheduler,
)
from transformers import T5Tokenizer, UMT5Config, UMT5EncoderModel

WIDTH = 32


def _tokenizer():
    letters = [(chr(code), -8.0) for code in range(33, 127)]
    special = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("\u2581", -4.0)]
    return T5Tokenizer(vocab=[*special, *letters], extra_ids=0, model_max_length=512)


def _text_encoder(tokenizer):
    return UMT5EncoderModel(
        UMT5Config(
            vocab_size=len(tokenizer),
            d_model=WIDTH,
            d_kv=8,
            d_ff=64,
            num_layers=2,
            num_heads=4,
            feed_forward_proj="gated-gelu",
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
            decoder_start_token_id=tokenizer.pad_token_id,
        )
    ).eval()


def make():
    torch.manual_seed(0)
    tokenizer = _tokenizer()
    pipeline = SkyReelsV2DiffusionForcingPipeline(
        tokenizer=tokenizer,
        text_encoder=_text_encoder(tokenizer),
        transformer=SkyReelsV2Transformer3DModel(
            patch_size=(1, 2, 2),
            num_attention_heads=2,
            attention_head_dim=16,
            in_channels=4,
            out_channels=4,
            text_dim=WIDTH,
            freq_dim=64,
            ffn_dim=64,
            num_layers=2,
            rope_max_seq_len=64,
            inject_sample_info=True,
        ).eval(),
        vae=AutoencoderKLWan(
            base_dim=8,
            z_dim=4,
            dim_mult=[1, 1, 2, 2],
            num_res_blocks=1,
            temperal_downsample=[False, True, True],
            latents_mean=[0.1] * 4,
            latents_std=[1.5] * 4,
        ).eval(),
        scheduler=UniPCMultistepScheduler(
            use_flow_sigmas=True, prediction_type="flow_prediction", flow_shift=8.0
        ),
    )
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


class Loader:
    """What `--pipeline-class` names: it is made, not read."""

    @classmethod
    def from_pretrained(cls, name, **given):
        return make()
