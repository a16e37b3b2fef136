"""Measure how loud sound is, moment by moment. Knows samples and decibels; not what is speech."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from seat.recognizer import SAMPLE_RATE, Waveform

FRAME: Final = SAMPLE_RATE // 50
"""Samples over which loudness is averaged: 20 ms, as voice detectors and telephone codecs do."""

FULL_SCALE_POWER: Final = 32_768.0**2
"""That of the loudest square wave."""


def levels_db(waveform: Waveform) -> NDArray[np.float64]:
    """Decibels below full scale of every `FRAME`, of which the samples are a multiple.

    Digital silence counts as one bit of noise: a logarithm has to be finite.
    """
    power = np.square(waveform.astype(np.float64)).reshape(-1, FRAME).mean(axis=1)
    levels: NDArray[np.float64] = 10 * np.log10(np.maximum(power, 1.0) / FULL_SCALE_POWER)
    return levels
