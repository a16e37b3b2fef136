"""Conformer encoders alone, with random weights: the dimensions and layouts of many models, without a checkpoint."""

from __future__ import annotations

import copy
from typing import Any

import torch

from seat.gpu import logs
from tests.tiny import UNIFIED as UNIFIED  # noqa: PLC0414  for those who build encoders

TINY = {"feat_in": 16, "d_model": 32, "n_heads": 4, "subsampling_conv_channels": 8, "n_layers": 2}
"""Milliseconds a second."""

DEMO = {"feat_in": 80, "d_model": 128, "n_heads": 4, "subsampling_conv_channels": 40, "n_layers": 1}
"""The bundled model's, of whose five layers one is enough for a peak: each frees what it used."""

PARAKEET = {"feat_in": 128, "d_model": 1024, "n_heads": 8, "subsampling_conv_channels": 256, "n_layers": 1}
"""Those of 0.6 billion parameters, one layer of 24."""


def conformer(dimensions: dict[str, Any], **changes: Any) -> Any:
    """Build a frozen encoder in evaluation mode, whose position biases are not the zeros that NeMo starts with."""
    logs.hush()
    from nemo.collections.asr.modules import ConformerEncoder
    from omegaconf import OmegaConf

    logs.adopt()
    torch.manual_seed(0)
    options: dict[str, Any] = {
        "subsampling": "dw_striding",
        "subsampling_factor": 8,
        "self_attention_model": "rel_pos",
        "xscaling": False,
        "conv_kernel_size": 9,
        "pos_emb_max_len": 5000,
        "dropout": 0.1,
        "dropout_emb": 0.1,
        "dropout_att": 0.1,
    }
    options |= dimensions | changes
    encoder = ConformerEncoder(**options)
    encoder._cfg = OmegaConf.create(options)  # as NeMo does for a checkpoint, and reads when it switches attention
    encoder.eval()
    encoder.freeze()
    for layer in encoder.layers:
        for bias in (layer.self_attn.pos_bias_u, layer.self_attn.pos_bias_v):
            bias.copy_(torch.randn(bias.shape) / 3)
    return encoder


def peak(encoder: Any, seconds: int, *, items: int = 1, grown: bool = True) -> int:
    """Bytes of live tensors at the most, while an encoder computes windows of that many seconds.

    Args:
        encoder: On any device; on the meta device nothing is computed.
        seconds: Length of each window.
        items: Windows of the batch.
        grown: Do not count the table of positions, as if a window of that length had been computed before.
    """
    from tests.tracker import LiveBytes

    weight = next(encoder.parameters())
    frames = seconds * 100
    features = torch.zeros(items, encoder._feat_in, frames, dtype=weight.dtype, device=weight.device)
    lengths = torch.full((items,), frames, device=weight.device)
    with torch.inference_mode():
        if grown:
            encoder.update_max_seq_length(frames, weight.device)
        with LiveBytes([*encoder.parameters(), *encoder.buffers(), features, lengths]) as tensors:
            encoder(audio_signal=features, length=lengths)
    return tensors.peak


def on_meta(encoder: Any, dtype: torch.dtype) -> Any:
    """A copy of shapes without numbers."""
    return copy.deepcopy(encoder).to("meta").to(dtype)


def batch(encoder: Any, frames: int, lengths: list[int]) -> dict[str, torch.Tensor]:
    """Random mel frames, in the padding too, as arguments of an encoder."""
    weight = next(encoder.parameters())
    generator = torch.Generator().manual_seed(frames)
    signal = torch.randn(len(lengths), encoder._feat_in, frames, generator=generator)
    return {"audio_signal": signal.to(weight.dtype), "length": torch.tensor(lengths)}
