"""Choose how far a frame sees, and how much memory that takes. Knows NeMo's attention; no audio, no subsampling layers.

*Full* attention lets every frame of a window see the whole window. NeMo computes it with about seven matrices of
heads x frames x frames at once. At 360 s and the dimensions of a 0.6B model in bfloat16 that is the encoder's peak,
2411 MiB of live tensors, whatever the subsampling saves. `bound_attention` computes the same a block of rows at a time:
167 MiB, and memory grows with the window, not with its square, but for the boolean mask of frames x frames that NeMo
makes first. (Local attention at 360 s: NeMo 1127 MiB, for its subsampling; 193 MiB with ours.)

*Local* attention lets a frame see ``local_context`` frames to each side, and takes time in proportion to the window.
NeMo's own `change_attention_model` builds new modules for it at each switch: in float32, in training mode, with random
biases in a model that has none, with gradients, and it keeps the old ones alive through a cache. `AttentionBank` builds
both sets once around the same weights and switches by reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn

from seat.gpu.subsampling import ChunkedSubsampling

Attention = Literal["full", "local", "auto"]
"""What may be asked for."""

Kind = Literal["full", "local"]
"""What a batch is computed with."""

SCORES_PER_BLOCK = 2**23
"""Attention scores of a block of rows, all items and heads together: 16 MiB in bfloat16; three such live at once."""

_MASKED = -10_000.0
"""What NeMo puts in place of the score of a frame that must not be seen."""

_LINEAR = ("linear_q", "linear_k", "linear_v", "linear_out", "linear_pos")
_BIASES = ("pos_bias_u", "pos_bias_v")


def choose(mode: Attention, seconds: float, threshold_s: float) -> Kind:
    """Name the attention for a batch.

    Args:
        mode: 'full' and 'local' mean themselves; 'auto' is local for what is longer than the threshold.
        seconds: The longest window of the batch.
        threshold_s: The longest window that 'auto' gives full attention.
    """
    if mode == "auto":
        return "local" if seconds > threshold_s else "full"
    return mode


def see_all(encoder: Any) -> None:  # noqa: ANN401
    """Let every frame of a window see the whole window, also on models trained with chunks of several sizes."""
    if encoder.att_context_style == "chunked_limited_with_rc":
        encoder.att_context_size = [-1, -1, -1]


def bound_attention(encoder: Any, *, scores_per_block: int = SCORES_PER_BLOCK) -> bool:  # noqa: ANN401
    """Let a loaded encoder compute full attention in blocks of rows; its weights keep their names and their storage.

    Where the subsampling is ours, too, its table of positions, 5000 rows, is counted in encoder frames from then on,
    where NeMo counts mel frames, eight times as many: it lasts for 400 s instead of 50 s before it grows.

    Args:
        encoder: NeMo's `ConformerEncoder`, its subsampling installed.
        scores_per_block: Scores of all items and heads in a block of rows.

    Returns:
        Whether the encoder has relative positions, computed without `scaled_dot_product_attention`. Any other computes
        as before.
    """
    chunked = isinstance(encoder.pre_encode, ChunkedSubsampling)
    _keep_movable(encoder.pos_enc, encoder.subsampling_factor if chunked else 1)
    if encoder.self_attention_model != "rel_pos" or encoder.use_pytorch_sdpa:
        return False
    for layer in encoder.layers:
        layer.self_attn = BlockwiseAttention(layer.self_attn, scores_per_block=scores_per_block)
    return True


def _keep_movable(positions: Any, factor: int) -> None:  # noqa: ANN401
    """Let a table of positions grow, by fewer frames than NeMo asks for, to one that can be moved like any other."""
    extend = type(positions).extend_pe

    def extend_pe(length: int, device: torch.device, dtype: torch.dtype) -> None:
        with torch.inference_mode(mode=False):
            extend(positions, -(-length // factor), device, dtype)

    positions.extend_pe = extend_pe


class BlockwiseAttention(nn.Module):
    """Takes the place of NeMo's `RelPositionMultiHeadAttention`, made from it; for inference, without a cache.

    The score of query i and key j is ``((q_i + u) k_j + (q_i + v) p_(T-1-i+j)) / sqrt(d)`` (Transformer-XL, section
    3.3): row i needs T consecutive rows of the projected positions p, and n rows together need T + n - 1.
    """

    def __init__(self, whole: Any, *, scores_per_block: int) -> None:  # noqa: ANN401
        super().__init__()
        for name in (*_LINEAR, *_BIASES):
            setattr(self, name, getattr(whole, name))
        self.h: int = whole.h
        self.d_k: int = whole.d_k
        self.s_d_k: float = whole.s_d_k
        self._scores_per_block = scores_per_block
        self.train(whole.training)

    def forward(  # noqa: PLR0913, PLR0917  NeMo's signature
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        mask: torch.Tensor,
        pos_emb: torch.Tensor,
        cache: None = None,
    ) -> torch.Tensor:
        """Attend.

        Args:
            query: Shape (items, frames, features); key and value alike.
            key: What is looked at.
            value: What is taken from there.
            mask: True where a query must not see a key, shape (items, frames, frames).
            pos_emb: Positions from frames - 1 down to 1 - frames, shape (1, 2 * frames - 1, features).
            cache: Of streaming models, which are not served.

        Returns:
            Shape (items, frames, features).
        """
        del cache
        items, frames, features = query.shape
        q = self.linear_q(query).view(items, frames, self.h, self.d_k)
        k, v, p = (
            linear(x).view(x.shape[0], -1, self.h, self.d_k).transpose(1, 2)
            for linear, x in ((self.linear_k, key), (self.linear_v, value), (self.linear_pos, pos_emb))
        )
        rows = max(self._scores_per_block // (items * self.h * frames), 1)
        seen = q.new_empty(items, frames, features)
        for start in range(0, frames, rows):
            block = q[:, start : start + rows]
            stop = start + block.shape[1]
            scores = self._scores(block, k, p[:, :, frames - stop : 2 * frames - 1 - start])
            hidden = mask[:, None, start:stop]
            weights = scores.masked_fill_(hidden, _MASKED).softmax(dim=-1).masked_fill_(hidden, 0.0)
            del scores
            seen[:, start:stop] = torch.matmul(weights, v).transpose(1, 2).flatten(2)
        return self.linear_out(seen)

    def _scores(self, q: torch.Tensor, k: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
        rows, frames = q.shape[1], k.shape[2]
        by_distance = torch.matmul((q + self.pos_bias_v).transpose(1, 2), p.transpose(-2, -1))
        items, heads, row, column = by_distance.stride()
        # Row i looks at p from rows - 1 - i on: a diagonal band, read in place.
        by_key = by_distance.as_strided(
            (*by_distance.shape[:2], rows, frames), (items, heads, row - column, column), (rows - 1) * column
        )
        return torch.matmul((q + self.pos_bias_u).transpose(1, 2), k.transpose(-2, -1)).add_(by_key).div_(self.s_d_k)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Set:
    """What makes an encoder's attention full or local."""

    model: str
    """NeMo's name for it."""
    context: list[int]
    """Encoder frames seen to the left and right; -1 is all. Models trained with several chunk sizes have three."""
    positions: Any
    """The table of positions."""
    attentions: list[Any]
    """One module for each layer."""


class AttentionBank:
    """Both sets of attention modules of an encoder, around the same weights; full attention is in use at first.

    May be built before or after the encoder is cast and moved: what a set holds of its own follows at the next switch.

    Args:
        encoder: NeMo's `ConformerEncoder` with relative positions.
        local_context: Encoder frames that local attention sees to the left and to the right, at least 1.

    Raises:
        ValueError: The encoder has another kind of attention, or the context is empty.
    """

    def __init__(self, encoder: Any, *, local_context: Sequence[int] = (128, 128)) -> None:  # noqa: ANN401
        if encoder.self_attention_model != "rel_pos":
            found = encoder.self_attention_model
            message = f"its attention is '{found}', and local attention can be built only beside 'rel_pos'"
            raise ValueError(message)
        if min(local_context) < 1:
            message = f"local attention must see at least 1 frame to each side, not {tuple(local_context)}"
            raise ValueError(message)
        see_all(encoder)
        self._encoder = encoder
        self._in_use: Kind = "full"
        self._sets: dict[Kind, _Set] = {
            "full": _Set(
                model="rel_pos",
                context=encoder.att_context_size,
                positions=encoder.pos_enc,
                attentions=[layer.self_attn for layer in encoder.layers],
            ),
            "local": _local_set(encoder, list(local_context)),
        }
        self._reach = dict.fromkeys(self._sets, encoder.max_audio_length)

    def use(self, kind: Kind) -> None:
        """Let the encoder compute with this set from now on: 0.2 ms for 24 layers, nothing where it does already."""
        if kind == self._in_use:
            return
        encoder, chosen = self._encoder, self._sets[kind]
        # How far the table of positions reaches is the encoder's attribute, but the tables are two.
        self._reach[self._in_use], encoder.max_audio_length = encoder.max_audio_length, self._reach[kind]
        weight = next(encoder.parameters())
        encoder.pos_enc = chosen.positions.to(weight.device, weight.dtype).train(encoder.training)
        encoder.self_attention_model = chosen.model
        encoder.att_context_size = chosen.context
        for layer, attention in zip(encoder.layers, chosen.attentions, strict=True):
            layer.self_attn = attention if attention.training == layer.training else attention.train(layer.training)
            layer.self_attention_model = chosen.model
        self._in_use = kind


def _local_set(encoder: Any, context: list[int]) -> _Set:  # noqa: ANN401
    """Build local attention around the encoder's weights, on the meta device: it allocates only its positions."""
    from nemo.collections.asr.parts.submodules.multi_head_attention import (
        LocalAttRelPositionalEncoding,
        RelPositionMultiHeadAttentionLongformer,
    )

    edges: dict[torch.device, tuple[torch.Tensor, torch.Tensor]] = {}

    def invalid_locations(width: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
        """What NeMo's method gives, which keeps the module itself in a cache of the class."""
        if device not in edges:
            steps = torch.arange(width + 1, device=device)
            before = (steps[:-1, None] + steps < width)[None, None]
            edges[device] = before, before.flip(dims=(2, 3))
        return edges[device]

    attentions = []
    for layer in encoder.layers:
        full = layer.self_attn
        with torch.device("meta"):
            local = RelPositionMultiHeadAttentionLongformer(
                n_head=full.h,
                n_feat=full.h * full.d_k,
                dropout_rate=0.0,
                pos_bias_u=full.pos_bias_u,
                pos_bias_v=full.pos_bias_v,
                max_cache_len=context[0],
                att_context_size=context,
            )
        for name in _LINEAR:
            setattr(local, name, getattr(full, name))
        local._get_invalid_locations_mask = invalid_locations  # noqa: SLF001
        attentions.append(local.train(full.training))
    weight = next(encoder.parameters())
    positions = LocalAttRelPositionalEncoding(
        att_context_size=context, d_model=encoder.d_model, dropout_rate=0.0, xscale=encoder.xscale
    )
    with torch.inference_mode(mode=False):
        positions.extend_pe(1, weight.device, weight.dtype)
    return _Set(model="rel_pos_local_attn", context=context, positions=positions, attentions=attentions)
