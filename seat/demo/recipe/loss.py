"""Alignment-restricted RNN-T loss, computed only where the alignment allows. Knows log-probabilities; no speech.

Each token may only be emitted in its own span of frames (Mahadeokar et al. 2020, arXiv 2011.03072). Inside the spans
the loss is the exact RNN-T loss. A frame then has only a few reachable cells, so the joint network runs on those cells
alone, and the recursion over time is a product of small matrices, done as a tree: log2(T) steps instead of T.
"""

import dataclasses
from collections.abc import Callable

import torch
from torch import Tensor

IMPOSSIBLE = -1e30
"""Log-probability of what the alignment forbids; finite, so that no gradient turns into NaN."""

Joint = Callable[[Tensor, Tensor], Tensor]
"""Encoder cells (N, D) and prediction cells (N, P) to logits (N, V + 1), blank last."""


def _product(left: Tensor, right: Tensor) -> Tensor:
    """Multiply (..., K, K) matrices of log-probabilities."""
    return torch.logsumexp(left.unsqueeze(-1) + right.unsqueeze(-3), -2).clamp(min=IMPOSSIBLE)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Targets:
    """What a batch of utterances should be written as, and when."""

    tokens: Tensor
    """(B, U) token numbers."""
    counts: Tensor
    """(B,) valid tokens of each row."""
    spans: Tensor
    """(B, U, 2) first and last frame at which a token may be emitted, both inside the row and never falling."""


def restricted_loss(joint: Joint, encoded: Tensor, frames: Tensor, predicted: Tensor, targets: Targets) -> Tensor:
    """Give the loss of each utterance.

    Args:
        joint: The joint network.
        encoded: (B, T, D).
        frames: (B,) valid frames of each row.
        predicted: (B, U + 1, P); row u has seen u tokens.
        targets: What should be written.

    Returns:
        (B,) negative log-likelihoods.
    """
    tokens, counts, spans = targets.tokens, targets.counts, targets.spans
    batch, longest, _ = encoded.shape
    times = torch.arange(longest)
    valid = torch.arange(tokens.shape[1])[None] < counts[:, None]
    first = spans[..., 0].masked_fill(~valid, longest + 1)
    last = spans[..., 1].masked_fill(~valid, longest + 1)
    # Cells (t, u) that can be entered: every token with its span behind t has been emitted, none with its span ahead.
    low = (last[:, None] < times[None, :, None]).sum(-1)
    high = (first[:, None] <= times[None, :, None]).sum(-1)
    width = int((high - low).max()) + 1
    state = low[..., None] + torch.arange(width)
    reachable = (state <= high[..., None]) & (times[None, :] < frames[:, None])[..., None]
    row, time, slot = reachable.nonzero(as_tuple=True)
    cell = state[row, time, slot]
    logits = joint(encoded[row, time], predicted[row, cell]).float()
    scores = logits.log_softmax(-1)
    token = torch.nn.functional.pad(tokens, (0, 1))[row, cell]
    begin = torch.nn.functional.pad(first, (0, 1), value=longest + 1)[row, cell]
    end = torch.nn.functional.pad(last, (0, 1), value=-1)[row, cell]
    emit = scores.gather(-1, token[:, None]).squeeze(-1)
    emit = torch.where((begin <= time) & (time <= end), emit, emit.new_full((), IMPOSSIBLE))
    grid = (row, time, slot)
    empty = logits.new_full((batch, longest, width), IMPOSSIBLE)
    emits = empty.index_put(grid, emit)
    blanks = empty.index_put(grid, scores[:, -1])
    # Within a frame: from entering at slot v to leaving at slot u, emitting tokens v .. u - 1.
    slots = torch.arange(width)
    between = (slots[:, None, None] <= slots[None, None, :]) & (slots[None, None, :] < slots[None, :, None])
    runs = (emits[:, :, None, None, :] * between).sum(-1)
    runs = runs.masked_fill(slots[:, None] > slots[None, :], IMPOSSIBLE).clamp(min=IMPOSSIBLE)
    # Then one blank to the next frame, where slots count from that frame's lowest state.
    shift = torch.nn.functional.pad(low[:, 1:] - low[:, :-1], (0, 1)).masked_fill(times >= frames[:, None] - 1, 0)
    source = slots[None, None] + shift[..., None]
    leave = (runs + blanks[:, :, None]).clamp(min=IMPOSSIBLE)
    inside = source < width
    index = source.clamp(max=width - 1)[:, :, None].expand(-1, -1, width, -1)
    moves = leave.gather(-1, index).masked_fill(~inside[:, :, None], IMPOSSIBLE)
    unit = torch.full((width, width), IMPOSSIBLE).fill_diagonal_(0.0)
    moves = torch.where((times[None] < frames[:, None])[..., None, None], moves, unit)
    while moves.shape[1] > 1:
        if moves.shape[1] % 2:
            moves = torch.cat([moves, unit.expand(batch, 1, -1, -1)], 1)
        moves = _product(moves[:, 0::2], moves[:, 1::2])
    final = counts - low.gather(1, frames[:, None] - 1).squeeze(1)
    return -moves[torch.arange(batch), 0, 0, final]
