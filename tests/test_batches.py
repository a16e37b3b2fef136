"""What runs together, and what is tried when it cannot."""

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from seat.batches import PADDING_LIMIT, Entry, Ticket, choose_batch, smaller
from seat.queueing import SHORTS_A_TURN
from seat.recognizer import SAMPLE_RATE
from seat.telemetry import here


def _ticket(arrival: int = 1, *, long: bool = False, deadline_at: float = 0, served: int = 0) -> Ticket:
    return Ticket(arrival=arrival, long=long, deadline_at=deadline_at, served=served)


def _entry(seconds: float, ticket: Ticket, *, turn: int = 0) -> Entry:
    return Entry(
        waveform=np.zeros(round(seconds * SAMPLE_RATE), np.int16),
        turn=turn,
        ticket=ticket,
        origin=here(),
        future=None,  # type: ignore[arg-type]  the policy does not look at it
    )


def _within(seconds: float) -> Callable[[int, Entry], bool]:
    return lambda samples, _leader: samples <= round(seconds * SAMPLE_RATE)


@given(
    clips=st.lists(st.tuples(st.floats(1, 45), st.floats(0, 600)), max_size=20),
    files=st.lists(st.tuples(st.lists(st.floats(1, 45), min_size=1, max_size=9), st.integers(0, 9)), max_size=6),
    batch_s=st.floats(1, 200),
    long_leads=st.booleans(),
)
def test_a_batch_keeps_its_budget_and_is_led_by_the_right_one(
    clips: list[tuple[float, float]], files: list[tuple[list[float], int]], batch_s: float, *, long_leads: bool
) -> None:
    """Whatever waits: the most urgent of the right kind is first, padding stays in bounds, one window always fits."""
    entries = [
        _entry(seconds, _ticket(number, deadline_at=deadline_at))
        for number, (seconds, deadline_at) in enumerate(clips, 1)
    ]
    for number, (windows, served) in enumerate(files, 100):
        ticket = _ticket(number, long=True, served=served)
        entries += [_entry(seconds, ticket, turn=turn) for turn, seconds in enumerate(windows)]
    assume(entries)
    batch = choose_batch(entries, _within(batch_s), long_leads=long_leads)
    leader, lengths = batch[0], [len(entry.waveform) for entry in batch]
    assert len(set(batch)) == len(batch)
    assert leader.ticket.long == (bool(files) and (long_leads or not clips))
    if leader.ticket.long:
        assert leader.turn == 0
        assert leader.ticket.served == min(served for _, served in files)
    else:
        assert leader.ticket.deadline_at == min(deadline_at for _, deadline_at in clips)
    assert len(batch) == 1 or max(lengths) * len(batch) <= batch_s * SAMPLE_RATE + 1
    assert max(lengths) <= PADDING_LIMIT * min(lengths)


@given(
    files=st.lists(st.integers(1, 12), min_size=1, max_size=6),
    clips_a_batch=st.integers(0, 3),
    windows_a_batch=st.integers(1, 4),
)
def test_nobody_starves(files: list[int], clips_a_batch: int, windows_a_batch: int) -> None:
    """Clips keep coming before every batch, and still every file gets on; no file is two windows ahead of another."""
    tickets = [_ticket(number, long=True) for number in range(len(files))]
    waiting = [
        _entry(30, ticket, turn=turn) for ticket, count in zip(tickets, files, strict=True) for turn in range(count)
    ]
    done: Counter[Ticket] = Counter()
    led_by_short, batches, arrivals = 0, 0, len(files)
    while any(entry.ticket.long for entry in waiting):
        for _ in range(clips_a_batch):
            arrivals += 1
            waiting.append(_entry(20, _ticket(arrivals, deadline_at=arrivals)))
        batch = choose_batch(waiting, _within(900), windows_a_batch, long_leads=led_by_short >= SHORTS_A_TURN)
        led_by_short, batches = 0 if batch[0].ticket.long else led_by_short + 1, batches + 1
        for entry in batch:
            entry.ticket.served += 1
            done[entry.ticket] += 1
            waiting.remove(entry)
        unfinished = [done[ticket] for ticket, count in zip(tickets, files, strict=True) if done[ticket] < count]
        assert not unfinished or max(unfinished) - min(unfinished) <= 1
    assert batches <= (1 + SHORTS_A_TURN) * sum(files)


def test_a_batch_holds_no_more_windows_than_it_may() -> None:
    """However short they are."""
    waiting = [_entry(1, _ticket(number)) for number in range(9)]
    assert choose_batch(waiting, _within(120), 4) == waiting[:4]


def test_a_clip_goes_before_the_windows_of_a_file_and_then_it_is_the_files_turn() -> None:
    """A clip that arrives last waits for the batch in work, not for the file; clips alone do not hold up the file."""
    ticket = _ticket(1, long=True, served=3)
    file = [_entry(45, ticket, turn=turn) for turn in range(3, 10)]
    clip = _entry(3, _ticket(7))
    assert choose_batch([*file, clip], _within(120)) == [clip]
    assert choose_batch([*file, clip], _within(120), long_leads=True) == file[:2]


def test_files_take_turns() -> None:
    """The least served first, then window by window."""
    first, second = _ticket(1, long=True, served=8), _ticket(2, long=True, served=7)
    files = [_entry(45, ticket, turn=turn) for ticket in (first, second) for turn in range(2)]
    assert choose_batch(files, _within(180)) == [files[2], files[0], files[3], files[1]]


@pytest.mark.parametrize(
    "size, tries, sizes",
    [(5, 0, [3, 2]), (2, 0, [1, 1]), (1, 0, [1]), (3, 1, [1, 1, 1]), (1, 1, []), (1, 2, [])],
)
def test_what_ran_out_of_memory_is_tried_in_halves_and_then_singly(size: int, tries: int, sizes: list[int]) -> None:
    """A lone window is tried again once, as what was cached has been given back; then there is nothing left to try."""
    batch = [_entry(1, _ticket(number)) for number in range(size)]
    parts = smaller(batch, tries)
    assert [len(part) for part in parts] == sizes
    assert not parts or [entry for part in parts for entry in part] == batch
