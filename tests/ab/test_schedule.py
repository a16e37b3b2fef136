"""Who is asked when, and which clips are of one length."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seat.ab.schedule import bin_of, count, turns


def test_one_clip_goes_a_b_b_a() -> None:
    """After a warm-up that does not count."""
    assert "".join(turn.side for turn in turns(1, 4)) == "BA" + "ABBAABBA"
    assert [turn.round for turn in turns(1, 2)] == [-1, -1, 0, 0, 1, 1]


@given(clips=st.integers(1, 9), rounds=st.integers(1, 9))
def test_every_clip_goes_to_each_side_once_a_round(clips: int, rounds: int) -> None:
    """A pair is two turns in a row, so that both meet the same machine."""
    order = list(turns(clips, rounds))
    assert len(order) == count(clips, rounds)
    assert set(Counter((turn.clip, turn.side, turn.round) for turn in order).values()) == {1}
    for first, second in zip(order[::2], order[1::2], strict=True):
        assert (first.clip, first.round, {first.side, second.side}) == (second.clip, second.round, {"A", "B"})


@given(clips=st.integers(1, 9), rounds=st.integers(1, 9).map(lambda half: 2 * half))
def test_neither_side_goes_first_more_often(clips: int, rounds: int) -> None:
    """Over an even number of rounds, with each clip."""
    firsts = Counter((turn.clip, turn.side) for turn in list(turns(clips, rounds))[::2] if turn.round >= 0)
    assert set(firsts.values()) == {rounds // 2}


@pytest.mark.parametrize(
    "seconds, expected",
    [(0.4, "1-3 s"), (2.99, "1-3 s"), (3, "3-8 s"), (8, "8-20 s"), (20, "20-60 s"), (60, "long"), (7200, "long")],
)
def test_a_length_lies_in_one_bin(seconds: float, expected: str) -> None:
    """A bin begins where the one before it ends."""
    assert expected == bin_of(seconds)
