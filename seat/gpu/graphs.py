"""Capture NeMo's greedy decoder as CUDA graphs, once and for good. Knows its decoding computer; no encoder, no audio.

NeMo sizes its graphs by the call at hand, and captures them anew for every call with more rows or more frames. A
capture empties the allocator's cache, and the bodies of the loops hold memory outside the graphs' own pool: after a
second one, as after every `empty_cache`, a replay may be an illegal access. So they are captured for the largest call
there can be, and a larger one is refused. Every replay computes all rows, those of a smaller batch with no frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Never

import torch

from seat.gpu.greedy import NO_TOKEN


class Graphs:
    """NeMo's decoding computer, called as `seat.gpu.greedy.Greedy` is; what it carries is NeMo's."""

    def __init__(self, computer: Any) -> None:  # noqa: ANN401  NeMo has no types
        self._computer = computer

    def __call__(
        self, encoded: torch.Tensor, lengths: torch.Tensor, carried: Sequence[Any], *, patient: bool = True
    ) -> tuple[torch.Tensor, list[Any]]:
        """Decode a batch; see `seat.gpu.greedy.Greedy`. NeMo decides when to wait."""
        del patient
        rows = len(encoded)
        if not encoded.shape[1]:
            return encoded.new_zeros(rows, 0, 4), list(carried)
        before = self._computer.merge_to_batched_state(list(carried)) if any(carried) else None
        hypotheses, after = self._computer(x=encoded, out_len=lengths, prev_batched_state=before)
        # The graphs' own rows are as many as were captured.
        found: list[Any] = [None if part is None else part[:rows] for part in hypotheses.get_data_without_blank()]
        emitted, tokens, frames, durations, confidences = found
        there = torch.arange(tokens.shape[1], device=tokens.device) < emitted[:, None]
        columns = [
            tokens.where(there, NO_TOKEN),
            frames if before is None else frames - before.decoded_lengths[:, None],
            torch.ones_like(frames) if durations is None else durations,
            confidences,
        ]
        table = torch.stack([column.float() for column in columns], dim=-1)
        return table, self._computer.split_batched_state(after)[:rows]


def capture(  # noqa: PLR0913  the shape of the largest call, each number named
    computer: Any,  # noqa: ANN401  NeMo has no types
    *,
    rows: int,
    frames: int,
    width: int,
    device: torch.device,
    dtype: torch.dtype,
) -> None:
    """Capture, for calls of up to so many rows and frames; only where NeMo decodes with graphs at all.

    Args:
        computer: NeMo's `GreedyBatchedRNNTLabelLoopingComputer` or its twin for TDT.
        rows: Items of the largest batch.
        frames: Encoder frames of the longest item.
        width: Features of an encoder frame.
        device: Where it decodes; with graphs on CUDA only.
        dtype: Number type of the joint.

    Raises:
        RuntimeError: NeMo keeps graphs of another size.
    """
    computer(
        x=torch.zeros(rows, frames, width, device=device, dtype=dtype),
        out_len=torch.ones(rows, dtype=torch.long, device=device),
        prev_batched_state=None,
    )
    state = computer.state
    if state is None:
        return
    if (state.batch_size, state.max_time) != (rows, max(frames, computer.INITIAL_MAX_TIME)):
        message = f"graphs of {state.batch_size} rows and {state.max_time} frames, asked for {rows} and {frames}"
        raise RuntimeError(message)
    computer._graph_reinitialize = partial(_refuse, state.batch_size, state.max_time)  # noqa: SLF001


def _refuse(rows: int, frames: int, encoded: torch.Tensor) -> Never:
    message = (
        f"the decoder is made for {rows} rows of {frames} frames, not for {encoded.shape[0]} of {encoded.shape[1]}"
    )
    raise RuntimeError(message)
