"""What a refusal does to a comparison: it is told, and takes nothing from what was heard."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from seat.ab.clips import Clip
from seat.ab.comparison import _series
from seat.ab.contenders import Contender, Heard


class Side:
    """Hears the right words, but for the calls in which it refuses."""

    def __init__(self, *refuses: int) -> None:
        self._refuses, self._calls = refuses, 0

    def hear(self, _file: bytes) -> Heard:
        """Answer, or refuse."""
        self._calls += 1
        if self._calls in self._refuses:
            return Heard(seconds=0.1, text="", error="no")
        return Heard(seconds=0.1, text="one two", error=None)


@pytest.mark.parametrize("refuses", [(), (3,), (1, 2), (2, 3)])
def test_a_refusal_is_no_wrong_word(refuses: tuple[int, ...]) -> None:
    """Whichever round it comes in."""
    clip = Clip(name="a", waveform=np.zeros(16_000, np.int16), text="one two")
    sides = [cast("Contender", cast("Any", side)) for side in (Side(*refuses), Side())]
    series = _series(*sides, [clip], 2, lambda: None)
    assert series.texts == {"A": {0: "one two"}, "B": {0: "one two"}}
    assert len(series.refused["A"]) == len(refuses)
