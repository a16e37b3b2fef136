"""Who may wait, and who runs next: the queue in front of the GPU thread."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seat.batches import Entry, Kind, Ticket
from seat.errors import QueueFull
from seat.queueing import LONGEST_RETRY_AFTER_S, SHORTS_A_TURN, Queue, QueueLimits
from seat.recognizer import SAMPLE_RATE, Waveform
from seat.telemetry import here

LONG = np.zeros(3600 * SAMPLE_RATE, np.int16)
RATE = 0.02
"""Seconds of computing for a second of audio, unless a test says another."""


def _sound(seconds: float) -> Waveform:
    return LONG[: round(seconds * SAMPLE_RATE)]


class Waiting:
    """A queue whose clock stands still at 0, and what waits in it."""

    def __init__(self, *, audio_s: float = 1e6, batch_s: float = 30, windows: int | None = None) -> None:
        limits = QueueLimits(audio_s=audio_s, batch_s=batch_s, windows=windows)
        self.queue = Queue(limits, lambda _padded_s: True, lambda: 0.0)
        self.queue.learn(RATE, 1.0)

    def add(self, kind: Kind, *seconds: float, deadline_at: float = math.inf) -> Ticket:
        """Let windows of one request wait, whatever waits."""
        ticket = self.queue.place(kind, deadline_at)
        self.more(ticket, *seconds)
        return ticket

    def more(self, ticket: Ticket, *seconds: float) -> None:
        """Let more windows of it wait."""
        self.queue.add(
            [
                Entry(
                    waveform=_sound(each),
                    turn=turn,
                    ticket=ticket,
                    origin=here(),
                    future=None,  # type: ignore[arg-type]  the policy does not look at it
                )
                for turn, each in enumerate(seconds)
            ]
        )

    def run(self) -> list[Ticket]:
        """Run the next batch: whose windows were in it, its leader first."""
        batch = self.queue.choose()
        self.queue.take(batch)
        return [entry.ticket for entry in batch]

    def refusal(self, *seconds: float, deadline_at: float = math.inf) -> int | None:
        """After how many seconds a request shall come again; None where it may come in."""
        try:
            self.queue.refuse([_sound(each) for each in seconds], deadline_at)
        except QueueFull as fault:
            return fault.retry_after_s
        return None


def test_audio_is_bounded_with_that_of_who_comes() -> None:
    """To the second; who is refused is told when there will be room, and a lone request may be of any length."""
    waiting = Waiting(audio_s=1000)
    assert waiting.refusal(5000) is None
    waiting.add(Kind.CLIP, 900)
    assert waiting.refusal(100) is None
    assert waiting.refusal(400) == round(300 * RATE)
    assert waiting.refusal(5000) == round(900 * RATE), "when it will be alone"


@pytest.mark.parametrize("rate, retry_after_s", [(0.001, 1), (0.02, 8), (0.2, 80), (0.9, LONGEST_RETRY_AFTER_S)])
def test_a_time_to_come_again_is_that_of_what_must_run_first(rate: float, retry_after_s: int) -> None:
    """In whole seconds from 1 to 120."""
    waiting = Waiting(audio_s=1000)
    waiting.queue.learn(rate, 1.0)
    for _ in range(500):
        waiting.queue.learn(rate, 1.0)
    waiting.add(Kind.FILE, *[20] * 50)
    assert waiting.refusal(200, 200) == retry_after_s


def test_speed_is_learnt_from_batches() -> None:
    """The first counts in full, each later one for a tenth."""
    waiting = Waiting()
    waiting.add(Kind.CLIP, 1000, deadline_at=0)

    def wait_s() -> float:
        return next(limit / 100 for limit in range(100_000) if waiting.refusal(1, deadline_at=limit / 100) is None)

    assert wait_s() == pytest.approx(1000 * RATE)
    waiting.queue.learn(2 * RATE * 50, 50.0)
    assert wait_s() == pytest.approx(1100 * RATE)


def test_a_clip_that_would_be_late_is_refused_by_what_goes_before_it() -> None:
    """Clips with earlier deadlines, and a share for others that came first; not the whole of what waits."""
    waiting = Waiting()
    waiting.add(Kind.CLIP, 400, deadline_at=100)
    assert waiting.refusal(3, deadline_at=9) is None, "it goes first"
    waiting.add(Kind.CLIP, 200, deadline_at=1)
    assert waiting.refusal(3, deadline_at=8.1) is None
    assert waiting.refusal(3, deadline_at=7.9) == 1, "for 200 s that are urgent, and as much that came first"
    waiting.add(Kind.FILE, *[20] * 1000)
    assert waiting.refusal(3, deadline_at=8 * 4 / 3 + 0.1) is None
    assert waiting.refusal(3, deadline_at=8 * 4 / 3 - 1.1) == 2, "each fourth batch is a file's"
    waiting.add(Kind.LIVE, 1000)
    assert waiting.refusal(3, deadline_at=12 * 4 / 3 + 0.1) is None
    assert waiting.refusal(3, deadline_at=12 * 4 / 3 - 0.1) == 1, "and each second one a chunk's"


def test_a_file_that_would_be_late_is_refused_by_turns() -> None:
    """It waits for as much of each other as it has itself: beside an hour, a minute is done in two."""
    waiting = Waiting()
    waiting.add(Kind.FILE, *[20] * 180)
    assert waiting.refusal(20, 20, 20, deadline_at=60 * RATE + 0.1) is None
    assert waiting.refusal(20, 20, 20, deadline_at=60 * RATE - 0.1) == 1
    waiting.add(Kind.CLIP, 100)
    waiting.add(Kind.LIVE, 50)
    assert waiting.refusal(20, 20, 20, deadline_at=210 * RATE + 0.1) is None
    assert waiting.refusal(20, 20, 20, deadline_at=210 * RATE - 0.1) == 1


def test_what_comes_one_after_the_other_waits_as_well() -> None:
    """A file whose decoder goes on from window to window has one in the queue at most, and counts whole."""
    waiting = Waiting(audio_s=1000)
    ticket = waiting.queue.place(Kind.FILE, math.inf)
    windows = [_sound(300)] * 3
    with waiting.queue.reserved(ticket, windows) as comes:
        assert (waiting.queue.statistics().requests, waiting.queue.statistics().audio_s) == (1, 900)
        comes(windows[0])
        waiting.more(ticket, 300)
        waiting.run()
        assert (waiting.queue.statistics().requests, waiting.queue.statistics().audio_s) == (1, 600)
        assert waiting.refusal(250, 250) == round(100 * RATE)
        assert waiting.refusal(100, 100, deadline_at=3.9) == 1
        for window in windows[1:]:
            comes(window)
        assert waiting.queue.statistics().requests == 0
    assert (waiting.queue.statistics().requests, waiting.queue.statistics().audio_s) == (0, 0)


def test_a_batch_is_bounded_in_seconds_and_in_windows() -> None:
    """Padding included."""
    for bounds, size in (({"batch_s": 30}, 3), ({"batch_s": 30, "windows": 2}, 2), ({"batch_s": 5}, 1)):
        waiting = Waiting(**bounds)  # type: ignore[arg-type]  each is what it says
        for _ in range(5):
            waiting.add(Kind.CLIP, 10)
        assert len(waiting.run()) == size


def test_a_files_batch_computes_no_longer_than_a_clip_may_wait() -> None:
    """A window by itself where a second of audio takes long; where it does not, company costs nothing."""
    for rate, size in ((0.02, 1), (0.001, 3)):
        waiting = Waiting()
        waiting.queue.learn(rate, 1.0)
        for _ in range(500):
            waiting.queue.learn(rate, 1.0)
        waiting.add(Kind.FILE, *[10] * 5)
        assert len(waiting.run()) == size


def test_a_clip_leads_and_then_who_was_passed_over() -> None:
    """A chunk after one clip, a file after three batches of others."""
    waiting = Waiting(windows=1)
    file, led = waiting.add(Kind.FILE, *[20] * 9), list[Kind]()
    for _ in range(16):
        waiting.add(Kind.CLIP, 3)
        waiting.add(Kind.LIVE, 8)
        led.append(waiting.run()[0].kind)
    assert led == [*(Kind.CLIP, Kind.LIVE, Kind.CLIP, Kind.FILE), *(Kind.LIVE, Kind.CLIP, Kind.LIVE, Kind.FILE)] * 2
    assert file.served == 4 * 20 * SAMPLE_RATE


def test_chunks_of_a_flood_do_not_hold_up_a_clip() -> None:
    """Though they are always more urgent, and too long to take it in: it leads the batch after the one that runs."""
    waiting = Waiting(batch_s=60)
    for _ in range(20):
        waiting.add(Kind.LIVE, 7.68, deadline_at=1)
        waiting.add(Kind.LIVE, 7.68, deadline_at=1)
        waiting.run()
    waiting.add(Kind.LIVE, 7.68, deadline_at=1)
    clip = waiting.add(Kind.CLIP, 3, deadline_at=600)
    assert waiting.run() == [clip]


def test_clips_go_by_deadline_and_none_is_passed_over_twice() -> None:
    """Whatever comes later with an earlier deadline."""
    waiting = Waiting(windows=1)
    patient = [waiting.add(Kind.CLIP, 3, deadline_at=600 - number) for number in range(3)]
    led: list[Ticket] = []
    for _ in range(6):
        hasty = waiting.add(Kind.CLIP, 8, deadline_at=30)
        led += waiting.run()
        assert led[-1] in (hasty, *patient) or led[-1].deadline_at == 30
    assert [patient.index(each) if each in patient else "hasty" for each in led] == ["hasty", 0, "hasty", 1, "hasty", 2]


def test_who_comes_later_has_nothing_to_catch_up_with() -> None:
    """A new file takes turns with an old one from then on, also where none of the old one's windows is in the queue."""
    waiting = Waiting(windows=1)
    old = waiting.add(Kind.FILE, *[20] * 60)
    for _ in range(50):
        waiting.run()
    new = waiting.add(Kind.FILE, *[20] * 60)
    assert Counter(waiting.run()[0] for _ in range(8)) == {old: 4, new: 4}
    waiting = Waiting(windows=1)
    carried = waiting.queue.place(Kind.FILE, math.inf)
    for _ in range(50):
        waiting.more(carried, 20)
        waiting.run()
    others = [waiting.add(Kind.FILE, *[20] * 60) for _ in range(2)]  # while its next window is on its way
    led = []
    for _ in range(9):
        if not any(entry.ticket is carried for entry in waiting.queue._entries):
            waiting.more(carried, 20)
        led += waiting.run()
    assert Counter(led) == {carried: 3, others[0]: 3, others[1]: 3}


def test_turns_are_counted_by_audio_and_not_by_windows() -> None:
    """A file of short windows beside one of long ones gets as much of the card."""
    waiting = Waiting(windows=1)
    short, long = waiting.add(Kind.FILE, *[2] * 100), waiting.add(Kind.FILE, *[20] * 10)
    for _ in range(55):
        waiting.run()
    assert abs(short.served - long.served) <= 20 * SAMPLE_RATE
    assert min(short.served, long.served) >= 90 * SAMPLE_RATE


@settings(max_examples=200, deadline=None)
@given(
    arrivals=st.lists(
        st.tuples(st.lists(st.floats(0, 600), max_size=2), st.integers(0, 2), st.booleans()), min_size=1, max_size=60
    )
)
def test_nobody_starves(arrivals: list[tuple[list[float], int, bool]]) -> None:
    """Whatever comes before each batch: a window waits for no more batches than those before it in its kind make."""
    waiting, came, bounds = Waiting(windows=1), dict[Ticket, int](), dict[Ticket, int]()
    passed_over = batches = 0

    def add(kind: Kind, deadline_at: float) -> None:
        before = sum(ticket.kind is kind for ticket in came)
        ticket = waiting.add(kind, 3, deadline_at=deadline_at)
        came[ticket], bounds[ticket] = batches, (6 if kind is Kind.CLIP else 3) * (before + 1)

    for clips, chunks, file in (*arrivals, *[([], 0, False)] * 400):
        for deadline_at in clips:
            add(Kind.CLIP, deadline_at)
        for _ in range(chunks):
            add(Kind.LIVE, batches)
        if file:
            waiting.add(Kind.FILE, 20, 20)
        if not waiting.queue:
            continue
        filed = any(entry.ticket.kind is Kind.FILE for entry in waiting.queue._entries)
        (leader,) = waiting.run()
        passed_over = 0 if leader.kind is Kind.FILE or not filed else passed_over + 1
        assert passed_over <= SHORTS_A_TURN
        if leader.kind is not Kind.FILE:
            assert batches - came.pop(leader) <= bounds[leader]
        batches += 1
    assert came == {}
    assert not waiting.queue
