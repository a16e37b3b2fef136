"""The latest stretch of a stream."""

import numpy as np

from seat.tape import Tape
from seat.windows import SHORTEST

GRID = 100


def test_samples_keep_their_place_when_others_are_forgotten() -> None:
    """Places count from the stream's beginning; the tape begins on the grid, and never after its end."""
    tape = Tape(GRID)
    tape.append(np.arange(30_000, dtype=np.int16))
    assert (tape.start, tape.end) == (0, 30_000)
    tape.forget(5_250)
    assert (tape.start, tape.end) == (5_200, 30_000)
    assert tape.cut(6_000, 6_000 + SHORTEST).tolist() == list(range(6_000, 6_000 + SHORTEST))
    tape.forget(1_000)
    assert tape.start == 5_200
    tape.forget(10**9)
    assert (tape.start, tape.end) == (30_000, 30_000)


def test_a_short_stretch_has_silence_behind_it() -> None:
    """A model takes a second at least."""
    tape = Tape(GRID)
    tape.append(np.full(500, 7, np.int16))
    assert tape.cut(100, 500).tolist() == [7] * 400 + [0] * (SHORTEST - 400)


def test_silence_is_what_hardly_sounds() -> None:
    """A hundred of 32,768 is silence, on either side of zero; the loudest negative sample is not."""
    tape = Tape(GRID)
    tape.append(np.array([100, -100, 0, 101, 0, -32_768], np.int16))
    assert tape.silent(0, 3)
    assert not tape.silent(0, 4)
    assert not tape.silent(4, 6)
