"""Decode a transducer greedily, looking at many frames at once. Knows NeMo's prediction network and joint; no encoder.

Most frames are blank, and a blank leaves the prediction network as it is. So the joint is asked for `AHEAD` frames with
one call, and of what it says all counts up to the first label: a call for every label instead of one for every frame.
NeMo asks frame by frame (label looping, arXiv 2406.06220), and hears the same.

An RNN-T is a TDT whose blanks last one frame and whose labels last none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

AHEAD = 16
"""Frames of 80 ms that the joint sees at once. Speech has some three tokens a second: with 8 there are
a fifth more steps, with 32 hardly fewer."""

NO_TOKEN = -1
"""The token of a row that found none in a step."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Carried:
    """What the decoder knows at the end of a stretch; all on the device."""

    states: Any
    """The prediction network's, of one row."""
    output: torch.Tensor
    """What it gave last, projected, shape (1, width)."""
    jump: torch.Tensor
    """Frames of the next stretch that the last duration already covers, shape ()."""


class Greedy:
    """Decodes batches with one model's prediction network and joint; on one thread."""

    def __init__(self, model: Any, *, durations: Sequence[int], most_per_frame: int) -> None:  # noqa: ANN401
        """Take a model's parts.

        Args:
            model: NeMo's transducer.
            durations: Frames that a TDT's token may last; empty for an RNN-T.
            most_per_frame: Tokens in one frame, after which it counts as blank.
        """
        self._predictor, self._joint = model.decoder, model.joint
        self._blank = int(model.decoder.blank_idx)
        self._kinds = self._blank + 1  # the blank is the last of them; behind it are a TDT's durations
        self._device = next(model.joint.parameters()).device
        self._durations = torch.tensor(durations, device=self._device) if durations else None
        self._longest, self._most_per_frame = max([1, *durations]), most_per_frame
        # Else NeMo normalizes all logits on a processor, where only the chosen one's share is of interest.
        self._joint.log_softmax = False

    def __call__(
        self,
        encoded: torch.Tensor,
        lengths: torch.Tensor,
        carried: Sequence[Carried | None],
        *,
        patient: bool = True,
    ) -> tuple[torch.Tensor, list[Carried]]:
        """Decode a batch.

        Args:
            encoded: What the encoder gave, shape (rows, frames, width), in the joint's number type.
            lengths: Frames of each row, shape (rows,), on the same device.
            carried: For each row what the stretch before it left; None where it is the first.
            patient: Whether the host may wait for a card once, until the encoder is done.

        Returns:
            float32 on the device, shape (rows, steps, 4): token, frame, duration in frames, and confidence, with
            NO_TOKEN where a step found none; and what each row leaves.
        """
        if self._device.type != "cpu":
            return self._decode(encoded, lengths, carried, patient=patient)
        # oneDNN's LSTM takes twice as long as torch's own, one token at a time. None leaves the other flags alone.
        with torch.backends.mkldnn.flags(enabled=False, deterministic=None, allow_tf32=None, fp32_precision=None):
            return self._decode(encoded, lengths, carried, patient=patient)

    def _decode(
        self, encoded: torch.Tensor, lengths: torch.Tensor, carried: Sequence[Carried | None], *, patient: bool
    ) -> tuple[torch.Tensor, list[Carried]]:
        frames = self._joint.project_encoder(encoded)
        rows, last = len(frames), frames.shape[1] - 1
        row, ahead = torch.arange(rows, device=self._device), torch.arange(AHEAD, device=self._device)
        beyond = torch.arange(AHEAD, AHEAD + self._longest, device=self._device).expand(rows, -1)
        output, states, at = self._begin(frames, carried)
        spoken_at, spoken_there = torch.full_like(at, -1), torch.zeros_like(at)
        steps: list[tuple[torch.Tensor, ...]] = []
        progress = _Progress(self._device, patient=patient)
        while last >= 0 and progress.may_go_on((at < lengths).any()):
            seen = at[:, None] + ahead
            left = seen < lengths[:, None]
            logits = self._joint.joint_after_projection(frames[row[:, None], seen.clamp(max=last)], output)[:, :, 0]
            tokens = logits[..., : self._kinds].argmax(-1)
            lasting = tokens * 0 if self._durations is None else self._durations[logits[..., self._kinds :].argmax(-1)]
            speaks = left & (tokens != self._blank)
            # Where each frame leads: a blank to another one, what speaks or is no more to itself. The way from the
            # first is followed in steps of 1, 2, 4 and so on.
            way = torch.cat([torch.where(left & ~speaks, ahead + lasting.clamp(min=1), ahead), beyond], dim=1)
            for _ in range(AHEAD.bit_length() - 1):  # doubles each time, so AHEAD is a power of two
                way = way.gather(1, way)
            found = way[:, 0].clamp(max=AHEAD - 1)
            heard = speaks[row, found] & (way[:, 0] < AHEAD)
            token, lasts, at = tokens[row, found], lasting[row, found], at + way[:, 0]
            share = logits[row, found, : self._kinds].softmax(-1).amax(-1)
            steps.append((torch.where(heard, token, NO_TOKEN), at, lasts, share))
            spoken_there = torch.where(at == spoken_at, spoken_there, 0) + heard
            spoken_at = torch.where(heard, at, spoken_at)
            output, states = self._predict(token, states, (heard, output))
            stuck = heard & (lasts == 0) & (spoken_there >= self._most_per_frame)
            at = at + heard * lasts + stuck
        return self._table(steps, frames), self._carried(states, output, at - lengths)

    def _table(self, steps: list[tuple[torch.Tensor, ...]], like: torch.Tensor) -> torch.Tensor:
        """What all steps told; the confidence is NeMo's 'max_prob', 0 where all tokens are as likely."""
        if not steps:
            return like.new_zeros(len(like), 0, 4, dtype=torch.float32)
        tokens, at, lasts, shares = (torch.stack(column, dim=1).float() for column in zip(*steps, strict=True))
        lasts = torch.ones_like(lasts) if self._durations is None else lasts
        return torch.stack([tokens, at, lasts, (shares * self._kinds - 1) / self._blank], dim=-1)

    def _begin(self, frames: torch.Tensor, carried: Sequence[Carried | None]) -> tuple[torch.Tensor, Any, torch.Tensor]:
        """Output, states and first frame of each row."""
        known = [before for before in carried if before]
        if len(known) < len(carried):
            start = torch.full((len(frames),), self._blank, device=self._device)
            output, states = self._predict(start, self._predictor.initialize_state(frames))
            at = torch.zeros_like(start)
            if not known:
                return output, states, at
            known = [before or fresh for before, fresh in zip(carried, self._carried(states, output, at), strict=True)]
        return (
            torch.stack([each.output for each in known]),
            self._predictor.batch_unsplit_states([each.states for each in known]),
            torch.stack([each.jump for each in known]),
        )

    def _predict(
        self,
        tokens: torch.Tensor,
        states: Any,  # noqa: ANN401
        kept: tuple[torch.Tensor, torch.Tensor] | None = None,
    ) -> tuple[torch.Tensor, Any]:
        """Advance the prediction network, but keep output and states where a mask does not say so."""
        output, after, *_ = self._predictor.predict(tokens[:, None], states, add_sos=False, batch_size=len(tokens))
        output = self._joint.project_prednet(output)
        if kept is not None:
            mask, before = kept
            self._predictor.batch_replace_states_mask(src_states=states, dst_states=after, mask=~mask)
            output = torch.where(mask[:, None, None], output, before)
        return output, after

    def _carried(self, states: Any, output: torch.Tensor, jumps: torch.Tensor) -> list[Carried]:  # noqa: ANN401
        return [
            Carried(states=self._predictor.batch_select_state(states, row), output=output[row], jump=jumps[row])
            for row in range(len(output))
        ]


class _Progress:
    """Asks whether anything is left to do; a card is not waited for, but once.

    What is given to a card that lags behind may be in vain. It lags most while the encoder is at work: so the first
    answer is waited for, with a step in line behind it. Later it lags only where others share it, as an idle card
    computes a step faster than the host gives one, and by no more than CUDA's own queue takes.
    """

    def __init__(self, device: torch.device, *, patient: bool) -> None:
        self._asynchronous, self._patient = device.type == "cuda", patient
        self._asked: deque[tuple[torch.Tensor, torch.cuda.Event]] = deque()

    def may_go_on(self, unfinished: torch.Tensor) -> bool:
        """Tell whether another step may find something, as far as the device has answered."""
        if not self._asynchronous:
            return bool(unfinished)
        told = torch.cuda.Event()
        self._asked.append((unfinished.to("cpu", non_blocking=True), told))
        told.record()
        if self._patient and len(self._asked) > 1:
            self._asked[0][1].synchronize()
            self._patient = False
        while self._asked and self._asked[0][1].query():
            answer, _ = self._asked.popleft()
            if not answer:
                return False
        return True
