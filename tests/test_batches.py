"""What runs together, and what is tried when it cannot."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from seat.batches import PADDING_LIMIT, Entry, Heard, Kind, Ran, Ticket, choose_batch, smaller
from seat.memory import Footprint
from seat.recognizer import NOTHING, SAMPLE_RATE
from seat.telemetry import here


def _ticket(arrival: int = 1, kind: Kind = Kind.CLIP, *, deadline_at: float = 0, served_s: float = 0) -> Ticket:
    return Ticket(arrival=arrival, kind=kind, deadline_at=deadline_at, served=round(served_s * SAMPLE_RATE))


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


SHORTS = st.lists(st.tuples(st.floats(1, 45), st.floats(0, 600)), max_size=12)
"""Lengths and deadlines."""


@given(
    clips=SHORTS,
    chunks=SHORTS,
    files=st.lists(st.tuples(st.lists(st.floats(1, 45), min_size=1, max_size=9), st.floats(0, 90)), max_size=6),
    batch_s=st.floats(1, 200),
    lead=st.sampled_from(Kind),
    eldest=st.booleans(),
)
def test_a_batch_keeps_its_budget_and_is_led_by_the_right_one(  # noqa: PLR0913  what may wait, each named
    clips: list[tuple[float, float]],
    chunks: list[tuple[float, float]],
    files: list[tuple[list[float], float]],
    batch_s: float,
    lead: Kind,
    *,
    eldest: bool,
) -> None:
    """The most urgent of the kind that leads is first, padding stays in bounds, and one window always fits."""
    entries = [
        _entry(seconds, _ticket(number, kind, deadline_at=deadline_at))
        for kind, shorts in ((Kind.CLIP, clips), (Kind.LIVE, chunks))
        for number, (seconds, deadline_at) in enumerate(shorts, 1)
    ]
    for number, (windows, served_s) in enumerate(files, 100):
        ticket = _ticket(number, Kind.FILE, served_s=served_s)
        entries += [_entry(seconds, ticket, turn=turn) for turn, seconds in enumerate(windows)]
    assume(any(entry.ticket.kind is lead for entry in entries))
    batch = choose_batch(entries, _within(batch_s), lead, eldest=eldest)
    leader, lengths = batch[0], [len(entry.waveform) for entry in batch]
    assert len(set(batch)) == len(batch)
    assert leader.ticket.kind is lead
    if lead is Kind.FILE:
        assert leader.turn == 0
        assert leader.ticket.served == min(round(served_s * SAMPLE_RATE) for _, served_s in files)
    elif lead is Kind.CLIP and eldest:
        assert leader.ticket.arrival == 1
    else:
        assert leader.ticket.deadline_at == min(until for _, until in (clips if lead is Kind.CLIP else chunks))
    assert len(batch) == 1 or max(lengths) * len(batch) <= batch_s * SAMPLE_RATE + 1
    assert max(lengths) <= PADDING_LIMIT * min(lengths)


def test_a_batch_holds_no_more_windows_than_it_may() -> None:
    """However short they are."""
    waiting = [_entry(1, _ticket(number)) for number in range(9)]
    assert choose_batch(waiting, _within(120), Kind.CLIP, most=4) == waiting[:4]


def test_of_equals_the_first_goes_first() -> None:
    """Where deadlines are the same, or what files were served."""
    for kind in Kind:
        waiting = [_entry(1, _ticket(number, kind)) for number in (3, 1, 2)]
        assert [each.ticket.arrival for each in choose_batch(waiting, _within(120), kind)] == [1, 2, 3]


def test_a_batch_is_filled_with_its_leaders_kind_then_with_clips_and_chunks_then_with_files() -> None:
    """All of them in one batch."""
    clip, chunk = _entry(8, _ticket(1, deadline_at=9)), _entry(8, _ticket(2, Kind.LIVE, deadline_at=1))
    file = [_entry(8, _ticket(3, Kind.FILE))]
    file.append(_entry(8, file[0].ticket, turn=1))
    waiting = [*file, clip, chunk]
    assert choose_batch(waiting, _within(120), Kind.CLIP) == [clip, chunk, *file]
    assert choose_batch(waiting, _within(120), Kind.LIVE) == [chunk, clip, *file]
    assert choose_batch(waiting, _within(120), Kind.FILE) == [*file, chunk, clip]


def test_files_take_turns_by_the_audio_that_has_run() -> None:
    """The least served first, then window by window: many short ones for a long one."""
    first, second = (_ticket(n, Kind.FILE, served_s=served_s) for n, served_s in ((1, 90), (2, 45)))
    files = [_entry(45, ticket, turn=turn) for ticket in (first, second) for turn in range(2)]
    assert choose_batch(files, _within(180), Kind.FILE) == [files[2], files[0], files[3], files[1]]
    short, long = _ticket(1, Kind.FILE), _ticket(2, Kind.FILE)
    files = [_entry(20, long, turn=turn) for turn in range(2)] + [_entry(10, short, turn=turn) for turn in range(4)]
    order = [(each.ticket.arrival, each.turn) for each in choose_batch(files, _within(180), Kind.FILE)]
    assert order == [(1, 0), (2, 0), (1, 1), (1, 2), (2, 1), (1, 3)]


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


def test_what_a_request_took_counts_its_second_tries() -> None:
    """Until the last of them ended, at the most of them all; its windows have the batches they were heard in first."""
    rans = [
        Ran(
            size=size,
            began_at=began_at,
            ended_at=began_at + 1,
            footprint=Footprint(rest_before=0, peak=peak, rest_after=rest, allocator=None),
        )
        for size, began_at, peak, rest in ((2, 5.0, 10, 1), (3, 6.0, 20, 2), (1, 9.0, 30, 3))
    ]
    heard = Heard.of([(NOTHING, ran) for ran in rans[:2]], 4.0, rans[2:])
    assert (heard.queue_s, heard.inference_s, heard.batch_sizes) == (1.0, 5.0, (2, 3))
    assert (heard.peak_nbytes, heard.rest_nbytes) == (30, 3)
