"""Keep the latest stretch of a stream, as much as windows of it need. Knows samples and their places."""

from __future__ import annotations

import numpy as np

from seat.recognizer import Waveform
from seat.windows import SHORTEST, SILENCE_LEVEL

_SAMPLE_NBYTES = 2


class Tape:
    """Samples come in at the end, and are forgotten at the beginning."""

    def __init__(self, grid: int) -> None:
        """Begin empty.

        Args:
            grid: Samples of which the beginning always is a multiple: those of an encoder frame.
        """
        self._grid = grid
        self._samples = bytearray()  # grows and shrinks in place
        self.start = 0
        """The first sample that is still there."""

    @property
    def end(self) -> int:
        """The first sample that has not come yet."""
        return self.start + len(self._samples) // _SAMPLE_NBYTES

    def append(self, samples: Waveform) -> None:
        """Take in the next samples."""
        self._samples += samples.tobytes()

    def forget(self, before: int) -> None:
        """Drop what lies before a sample, as far as the grid allows."""
        start = max(self.start, min(before, self.end) // self._grid * self._grid)
        del self._samples[: (start - self.start) * _SAMPLE_NBYTES]
        self.start = start

    def cut(self, first: int, stop: int) -> Waveform:
        """Copy a stretch; where it is shorter than a model takes, there is silence behind it."""
        heard = self._between(first, stop)
        return np.pad(heard, (0, max(0, SHORTEST - len(heard))))

    def silent(self, first: int, stop: int) -> bool:
        """Whether no sample of a stretch is louder than silence."""
        stretch = self._between(first, stop)
        return not (stretch > SILENCE_LEVEL).any() and not (stretch < -SILENCE_LEVEL).any()

    def _between(self, first: int, stop: int) -> Waveform:
        window = slice(*((place - self.start) * _SAMPLE_NBYTES for place in (first, stop)))
        return np.frombuffer(bytes(self._samples[window]), np.int16)
