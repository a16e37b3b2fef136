"""Loudness in numbers."""

import numpy as np
import pytest

from seat.loudness import FRAME, levels_db


@pytest.mark.parametrize("sample, level_db", [(-32_768, 0.0), (3277, -20.0), (1, -90.3), (0, -90.3)])
def test_a_frame_has_the_level_of_its_samples(sample: int, level_db: float) -> None:
    """From full scale to the last bit, and no lower; each frame for itself."""
    frames = np.concatenate([np.full(FRAME, sample, np.int16), np.zeros(FRAME, np.int16)])
    assert levels_db(frames).tolist() == pytest.approx([level_db, -90.3], abs=0.01)


def test_no_samples_have_no_level() -> None:
    """Nothing is divided by."""
    assert levels_db(np.zeros(0, np.int16)).size == 0
