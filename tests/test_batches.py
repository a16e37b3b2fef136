"""What runs together, and what is tried when it cannot."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seat.batches import PADDING_LIMIT, Entry, choose_batch, smaller
from seat.recognizer import SAMPLE_RATE
from seat.telemetry import here


def _entry(seconds: float, *, turn: int = 0, arrival: int = 0) -> Entry:
    return Entry(
        waveform=np.zeros(round(seconds * SAMPLE_RATE), np.int16),
        turn=turn,
        arrival=arrival,
        origin=here(),
        future=None,  # type: ignore[arg-type]  the policy does not look at it
    )


def _within(seconds: float) -> Callable[[int], bool]:
    return lambda samples: samples <= round(seconds * SAMPLE_RATE)


@given(
    waiting=st.lists(st.tuples(st.floats(1, 45), st.integers(0, 5), st.integers(0, 20)), min_size=1, max_size=30),
    batch_s=st.floats(1, 200),
)
def test_a_batch_holds_the_most_urgent_and_keeps_its_budget(
    waiting: list[tuple[float, int, int]], batch_s: float
) -> None:
    """Whatever waits: the first in order is in, padding stays within bounds, one window always fits."""
    entries = [_entry(seconds, turn=turn, arrival=arrival) for seconds, turn, arrival in waiting]
    batch = choose_batch(entries, _within(batch_s))
    lengths = [len(entry.waveform) for entry in batch]
    assert min((entry.turn, entry.arrival) for entry in entries) == (batch[0].turn, batch[0].arrival)
    assert len(batch) == 1 or max(lengths) * len(batch) <= batch_s * SAMPLE_RATE + 1
    assert max(lengths) <= PADDING_LIMIT * min(lengths)


def test_a_short_request_goes_before_the_later_windows_of_a_long_file() -> None:
    """A clip that arrives last waits for the batch in work, not for the file."""
    long = [_entry(45, turn=turn, arrival=0) for turn in range(1, 10)]
    short = _entry(3, turn=0, arrival=7)
    assert choose_batch([*long, short], _within(120)) == [short]


def test_long_files_take_turns() -> None:
    """Two files that arrived one after the other share a batch window by window."""
    files = [_entry(45, turn=turn, arrival=arrival) for arrival in range(2) for turn in range(3)]
    batch = choose_batch(files, _within(90))
    assert [(entry.turn, entry.arrival) for entry in batch] == [(0, 0), (0, 1)]


@pytest.mark.parametrize(
    "size, tries, sizes",
    [(5, 0, [3, 2]), (2, 0, [1, 1]), (1, 0, [1]), (3, 1, [1, 1, 1]), (1, 1, []), (1, 2, [])],
)
def test_what_ran_out_of_memory_is_tried_in_halves_and_then_singly(size: int, tries: int, sizes: list[int]) -> None:
    """A lone window is tried again once, as what was cached has been given back; then there is nothing left to try."""
    batch = [_entry(1, arrival=number) for number in range(size)]
    parts = smaller(batch, tries)
    assert [len(part) for part in parts] == sizes
    assert not parts or [entry for part in parts for entry in part] == batch
