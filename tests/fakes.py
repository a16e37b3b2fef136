"""A small real stand-in for a model: it implements `seat.recognizer.Recognizer`, and what it says the samples say."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import numpy as np

from seat.recognizer import SAMPLE_RATE, ModelInfo, Recognition, Vocabulary, Waveform

FRAME_S = 0.08
SPOKEN = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")

INFO = ModelInfo(
    id="fake",
    revision=None,
    sha256=None,
    architecture="FakeRecognizer",
    parameters=0,
    device="cpu",
    device_name="none",
    dtype="float32",
    languages=("en",),
    versions={},
)
VOCABULARY = Vocabulary(
    pieces=("<unk>", *(f"▁{word}" for word in SPOKEN), "."),
    punctuation=frozenset({"."}),
    frame_s=FRAME_S,
    predicts_durations=False,
)

TONE_LEVEL = 1000
"""Loudness of digit 0 in `speech`; each following digit is that much louder."""


def speech(digits: Sequence[int], *, word_s: float = 0.4, gap_s: float = 0.6) -> Waveform:
    """A waveform in which `FakeRecognizer` hears these digits: one burst each, its loudness telling the digit."""
    gap = np.zeros(round(gap_s * SAMPLE_RATE), np.int16)
    parts = [gap]
    for digit in digits:
        parts += [np.full(round(word_s * SAMPLE_RATE), TONE_LEVEL * (digit + 1), np.int16), gap]
    return np.concatenate(parts)


class FakeRecognizer:
    """Hears bursts as digits by their loudness, wherever they lie: what it says depends on the samples alone.

    It records who called it, and can be told to fail or to wait.
    """

    def __init__(self, *, before: Callable[[Sequence[Waveform]], None] | None = None) -> None:
        self.info = INFO
        self.vocabulary = VOCABULARY
        self.threads: set[int] = set()
        self.batches: list[list[int]] = []
        self.inside = 0
        self.most_inside = 0
        self._before = before

    def recognize(self, waveforms: Sequence[Waveform]) -> list[Recognition]:
        """Hear each waveform, after what the test put before it."""
        self.inside += 1
        self.most_inside = max(self.most_inside, self.inside)
        try:
            self.threads.add(threading.get_ident())
            self.batches.append([len(waveform) for waveform in waveforms])
            if self._before is not None:
                self._before(waveforms)
            return [hear(waveform) for waveform in waveforms]
        finally:
            self.inside -= 1


def hear(waveform: Waveform) -> Recognition:
    """Find the bursts of `speech`: one token at the frame where each begins, covering the frames until it ends."""
    levels = np.round(np.abs(waveform.astype(np.float64)) / TONE_LEVEL).astype(int)
    edges = np.flatnonzero(np.diff(levels, prepend=0, append=0))
    starts = [edge for edge in edges if edge < len(levels) and levels[edge] > 0]
    tokens = tuple(min(int(levels[start]), len(SPOKEN)) for start in starts)
    frames = tuple(int(start / SAMPLE_RATE / FRAME_S) for start in starts)
    return Recognition(tokens=tokens, frames=frames, durations=(5,) * len(tokens), confidences=(0.9,) * len(tokens))
