"""A small real stand-in for a model: it implements `seat.recognizer.Recognizer`, and what it says the samples say."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import numpy as np

from seat.meter import MIB, Allocator, Meter, Outside, Reported
from seat.recognizer import SAMPLE_RATE, Chunk, Examination, ModelInfo, Recognition, Vocabulary, Waveform
from seat.resident import ResidentMeter

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

    It records who called it, and can be told to fail or to wait. Its weights are bytes that are really there.
    """

    def __init__(
        self,
        *,
        before: Callable[[Sequence[Waveform]], None] | None = None,
        meter: Meter | None = None,
        weights_mib: int = 0,
    ) -> None:
        self.info = INFO
        self.vocabulary = VOCABULARY
        self.meter = meter or ResidentMeter()
        self.graphs = "off"
        self.weights_mib = weights_mib
        self.moves: list[str] = []
        self.restore()
        self.threads: set[int] = set()
        self.batches: list[list[int]] = []
        self.padded: list[list[int]] = []
        self.captured: list[tuple[int, int]] = []
        self.inside = 0
        self.most_inside = 0
        self._before = before

    def attention(self, _samples: int) -> str:
        """It has one kind only."""
        return "full"

    def capture(self, rows: int, samples: int) -> None:
        """Note for how much, before anything is recognized."""
        assert not self.batches
        self.captured.append((rows, samples))

    def examine(self) -> Examination:
        """Find its weights on the CPU, whatever `info` says."""
        weights = {"cpu": self.weights_mib * MIB}
        return Examination(weights=weights, process_nbytes=None, driver=None, matrix_flop_per_s=1e10)

    def release(self) -> None:
        """Drop the weights."""
        self.weights: np.ndarray | None = None
        self.moves.append("release")

    def restore(self) -> None:
        """Have weights."""
        self.weights = np.ones(self.weights_mib * MIB, np.uint8)
        self.moves.append("restore")

    def pad(self, waveforms: Sequence[Waveform]) -> list[Waveform]:
        """Note what was padded ahead."""
        self.padded.append([len(waveform) for waveform in waveforms])
        return list(waveforms)

    def proceed(self, chunks: Sequence[Chunk], padded: object | None = None) -> list[tuple[Recognition, object]]:
        """Hear each waveform and keep what lies in its stretch; what is carried is how often it went on."""
        heard = self.recognize([chunk.waveform for chunk in chunks], padded)
        counts = [1 if chunk.carried is None else int(str(chunk.carried)) + 1 for chunk in chunks]
        return [
            (_within(recognition, chunk), count)
            for recognition, chunk, count in zip(heard, chunks, counts, strict=True)
        ]

    def recognize(self, waveforms: Sequence[Waveform], padded: object | None = None) -> list[Recognition]:
        """Hear each waveform, after what the test put before it."""
        assert padded is None or padded == list(waveforms)
        self.inside += 1
        self.most_inside = max(self.most_inside, self.inside)
        try:
            assert self.weights is not None
            self.threads.add(threading.get_ident())
            self.batches.append([len(waveform) for waveform in waveforms])
            if self._before is not None:
                self._before(waveforms)
            return [hear(waveform) for waveform in waveforms]
        finally:
            self.inside -= 1


def _within(recognition: Recognition, chunk: Chunk) -> Recognition:
    """The tokens of a recognition that are emitted in a chunk's stretch."""
    stop = None if chunk.ahead else chunk.stop
    kept = [place for place, frame in enumerate(recognition.frames) if chunk.first <= frame < (stop or frame + 1)]
    return Recognition(
        tokens=tuple(recognition.tokens[place] for place in kept),
        frames=tuple(recognition.frames[place] for place in kept),
        durations=tuple(recognition.durations[place] for place in kept),
        confidences=tuple(recognition.confidences[place] for place in kept),
    )


class Hunger:
    """What a fake recognizer is told to do first: take memory for a moment, so much for a padded second."""

    def __init__(self, mib_per_s: float) -> None:
        self.mib_per_s = mib_per_s

    def __call__(self, waveforms: Sequence[Waveform]) -> None:
        """Touch every byte, and forget them."""
        np.ones(round(self.mib_per_s * MIB * padded_s(waveforms)), np.uint8)


def padded_s(waveforms: Sequence[Waveform]) -> float:
    """Seconds of a batch, padding included."""
    return len(waveforms) * max(map(len, waveforms)) / SAMPLE_RATE


class OutOfMemoryError(RuntimeError):
    """Named as torch's own."""


class FakeMeter:
    """A card of which every byte is counted, with an allocator that keeps what it got and raises beyond its bound."""

    def __init__(self, *, reserved_mib: int = 100, outside_mib: int = 50) -> None:
        self.outside = Outside(nbytes=outside_mib * MIB, source="nvml")
        self.allocated = self.most_allocated = self.reserved = self.highest = reserved_mib * MIB
        self.bound_to: int | None = None
        self.releases = self.remeasured = 0
        self.free_nbytes: int | None = None

    def used(self) -> int:
        """What is reserved, and what lies outside."""
        return self.outside.nbytes + self.reserved

    def peak(self) -> int:
        """As `used`, at most."""
        return self.outside.nbytes + self.highest

    def held(self) -> int:
        """What is allocated, and what lies outside."""
        return self.outside.nbytes + self.allocated

    def held_peak(self) -> int:
        """As `held`, at most."""
        return self.outside.nbytes + self.most_allocated

    def allocator(self) -> Allocator:
        """What was reserved at most, all of it by tensors."""
        return Allocator(reserved=self.highest, allocated=self.highest)

    def free(self) -> int | None:
        """As the test says."""
        return self.free_nbytes

    def remeasure(self) -> None:
        """Count how often that was asked for."""
        self.remeasured += 1

    def reported(self) -> Reported:
        """The process as counted, alone on a card that tells no more."""
        return Reported(process=self.used(), taken=self.used(), total=None)

    def reset_peak(self) -> None:
        """Begin again at what is reserved."""
        self.highest, self.most_allocated = self.reserved, self.allocated

    def release(self) -> None:
        """Give back what is not allocated."""
        self.reserved = self.allocated
        self.releases += 1

    def bound(self, cap_nbytes: int | None) -> None:
        """Take the cap for what is outside and what is reserved."""
        self.bound_to = cap_nbytes

    def hunger(self, mib_per_s: float) -> Callable[[Sequence[Waveform]], None]:
        """As `Hunger`, of this card."""

        def take(waveforms: Sequence[Waveform]) -> None:
            wanted = self.allocated + round(mib_per_s * MIB * padded_s(waveforms))
            if self.bound_to is not None and self.outside.nbytes + max(self.reserved, wanted) > self.bound_to:
                message = "CUDA out of memory."
                raise OutOfMemoryError(message)
            self.reserved = max(self.reserved, wanted)
            self.highest, self.most_allocated = max(self.highest, self.reserved), max(self.most_allocated, wanted)

        return take


def hear(waveform: Waveform) -> Recognition:
    """Find the bursts of `speech`: one token at the frame where each begins, covering the frames until it ends."""
    levels = np.round(np.abs(waveform.astype(np.float64)) / TONE_LEVEL).astype(int)
    edges = np.flatnonzero(np.diff(levels, prepend=0, append=0))
    starts = [edge for edge in edges if edge < len(levels) and levels[edge] > 0]
    tokens = tuple(min(int(levels[start]), len(SPOKEN)) for start in starts)
    frames = tuple(int(start / SAMPLE_RATE / FRAME_S) for start in starts)
    return Recognition(tokens=tokens, frames=frames, durations=(5,) * len(tokens), confidences=(0.9,) * len(tokens))
