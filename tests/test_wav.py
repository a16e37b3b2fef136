"""Waveforms as files."""

import io

import numpy as np
import pytest

from seat import audio
from seat.recognizer import Waveform
from seat.wav import wav


@pytest.mark.parametrize("samples", [[], [0], [1, -1, 32_767, -32_768]])
def test_what_is_written_is_read(samples: list[int]) -> None:
    """To the sample, the loudest included."""
    waveform: Waveform = np.array(samples, np.int16)
    assert audio.decode(io.BytesIO(wav(waveform)), limit_s=None).tolist() == samples
