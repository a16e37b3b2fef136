"""Compute NeMo's convolutional subsampling in stretches of time. Knows its layers; no attention, no audio.

NeMo's `MaskedConvSequential` keeps two full copies of its first convolution's output alive: 3.13 MiB per padded second
and item (bfloat16, 256 channels, 128 mel bands), which is the encoder's peak for windows below three minutes. Three
convolutions with a stride of 2 and a kernel of 3 make one encoder frame of 8 mel frames and the 7 before them, so a
stretch that starts one encoder frame early, and ends on a multiple of 8, holds all that its own frames depend on: the
first frame is dropped, the others are those of the whole. Masks are multiplied in place. The same numbers come out.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

FRAMES_PER_CHUNK = 1600
"""Mel frames of all items of a batch together in one stretch: 16 s, 31 MiB in bfloat16 at 256 channels and 128 bands.

On one thread of a CPU, 800 to 3200 took 0.6 to 0.8 of the time of NeMo's own on windows of 30 and 45 s, 1600 the least.
"""

_LEAST_FRAMES = 400
"""Mel frames of one item in a stretch, at least: a halo of 8 costs 2 % then, and a batch of many items few calls."""


def chunk_subsampling(encoder: Any, *, frames_per_chunk: int = FRAMES_PER_CHUNK) -> bool:  # noqa: ANN401
    """Let a loaded encoder compute its subsampling in stretches; its weights keep their names and their storage.

    Args:
        encoder: NeMo's `ConformerEncoder`.
        frames_per_chunk: Mel frames of all items together in one stretch.

    Returns:
        Whether the layout is the one known here: 'dw_striding' without causal convolutions, as in every Parakeet.
        Any other encoder is left as it is.
    """
    if not _is_known(encoder.pre_encode):
        return False
    encoder.pre_encode = ChunkedSubsampling(encoder.pre_encode, frames_per_chunk=frames_per_chunk)
    return True


class ChunkedSubsampling(nn.Module):
    """Takes the place of NeMo's `ConvSubsampling`, made from it; for inference."""

    def __init__(self, whole: Any, *, frames_per_chunk: int, least_frames: int = _LEAST_FRAMES) -> None:  # noqa: ANN401
        super().__init__()
        self.conv = whole.conv
        self.out = whole.out
        self.subsampling_factor: int = whole.subsampling_factor
        self._frames_per_chunk = frames_per_chunk
        self._least_frames = least_frames
        self.train(whole.training)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Subsample and project a batch.

        Args:
            x: Mel frames, shape (items, frames, bands).
            lengths: Valid mel frames of each item, shape (items,).

        Returns:
            Encoder frames, shape (items, ceil(frames / factor), features), and the valid ones of each item.
        """
        items, frames, _ = x.shape
        factor = self.subsampling_factor
        step = max(self._frames_per_chunk // items, self._least_frames) // factor * factor
        pieces = []
        for start in range(0, max(frames, 1), step):
            early = max(start - factor, 0)
            piece = self._subsample(x[:, early : start + step], lengths - early)
            pieces.append(piece[:, 1:] if start else piece)
        return torch.cat(pieces, dim=1), -(-lengths.long() // factor)

    def _subsample(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """What `MaskedConvSequential` and the projection do, each mask only where frames meet: before a stride."""
        x = x.unsqueeze(1) * _mask(x.unsqueeze(1), lengths)
        for layer in self.conv:
            x = layer(x)
            if isinstance(layer, nn.Conv2d) and layer.stride != (1, 1):
                lengths = -(-lengths // 2)
            elif isinstance(layer, nn.ReLU):
                x.mul_(_mask(x, lengths))
        return self.out(x.transpose(1, 2).flatten(2))


def _is_known(pre_encode: Any) -> bool:  # noqa: ANN401
    return getattr(pre_encode, "_subsampling", None) == "dw_striding" and not pre_encode.is_causal


def _mask(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """Ones for the valid frames of each item, in the type and the four dimensions of ``x``."""
    times = torch.arange(x.shape[2], device=x.device)
    return (times < lengths[:, None]).to(x.dtype)[:, None, :, None]
