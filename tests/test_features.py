"""Features equal NeMo's, and are made without asking the device anything."""

from __future__ import annotations

import pytest

from tests.tiny import chirps

pytestmark = pytest.mark.model

SAMPLES = (48000, 47999, 16000, 1600, 480, 320, 161, 0)
"""Of rows side by side; the last but one has a single frame, the last none."""


@pytest.mark.parametrize("normalize", ["per_feature", "all_features", None])
def test_features_equal_nemos_bit_by_bit(normalize: str | None) -> None:
    """However they are normalized; by feature also of rows that are too short for a deviation."""
    import torch
    from nemo.collections.asr.modules import AudioToMelSpectrogramPreprocessor

    from seat.gpu.features import Features

    nemos, ours = (
        AudioToMelSpectrogramPreprocessor(normalize=normalize, features=80, n_fft=512, dither=0.0, pad_to=0).eval()
        for _ in range(2)
    )
    rows = len(SAMPLES) if normalize == "per_feature" else 5
    signal, lengths = torch.zeros(rows, max(SAMPLES)), torch.tensor(SAMPLES[:rows])
    for row, samples in enumerate(SAMPLES[:rows]):
        signal[row, :samples] = torch.from_numpy(chirps(3, row)[:samples])
    with torch.inference_mode():
        expected, frames = nemos(input_signal=signal, length=lengths)
        made, counted = Features(ours)(signal, lengths)
    assert torch.equal(made, expected)
    assert torch.equal(counted, frames)
    assert made.isfinite().all()
