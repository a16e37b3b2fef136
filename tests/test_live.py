"""A stream that never ends: its turns, its chunks, its words."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Sequence
from itertools import count, pairwise

import numpy as np
import pytest

from seat.batches import Ran
from seat.errors import RecognitionFailed
from seat.live import MOST_TURNS, Hear, LiveSession
from seat.memory import Footprint
from seat.recognizer import SAMPLE_RATE, Chunk, Recognition, Recognizer, Waveform
from seat.turn import Event, Failed, Started, Stopped, Whole, Words
from seat.vad import Turns
from seat.windows import LiveWindow
from tests.fakes import VOCABULARY, FakeRecognizer, speech

FRAME = 1280
WINDOW = LiveWindow.of_seconds((3.2, 1.04, 1.04), FRAME)
RAN = Ran(size=1, began_at=0.0, ended_at=0.0, footprint=Footprint(rest_before=0, peak=0, rest_after=0, allocator=None))


def hearing(recognizer: Recognizer, chunks: list[Chunk] | None = None) -> Hear:
    """Have a recognizer hear, and note what it was given."""

    async def hear(chunk: Chunk, _deadline_at: float) -> tuple[Recognition, object, Ran]:
        if chunks is not None:
            chunks.append(chunk)
        ((recognition, carried),) = recognizer.proceed([chunk])
        await asyncio.sleep(0)
        return recognition, carried, RAN

    return hear


def failing_in(calls: Container[int]) -> Hear:
    """Have the fake hear, but for these calls, counted from 1."""
    numbers = count(1)

    async def hear(chunk: Chunk, deadline_at: float) -> tuple[Recognition, object, Ran]:
        if next(numbers) in calls:
            raise RecognitionFailed
        return await hearing(FakeRecognizer())(chunk, deadline_at)

    return hear


class Session:
    """A session, and all that it says."""

    def __init__(self, hear: Hear, turns: Turns | None, most_waiting_s: float = 30) -> None:
        self.events: list[Event] = []
        self.finals: list[str] = []
        self.texts: list[tuple[str, str]] = []
        self.added: dict[int, str] = {}
        self.live = LiveSession(hear, VOCABULARY, WINDOW, self._note, turns=turns, most_waiting_s=most_waiting_s)

    async def _note(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, Words):
            self.added[event.turn] = self.added.get(event.turn, "") + event.added
            self.texts.append((event.snapshot().stable, event.snapshot().text))
        if isinstance(event, Whole):
            self.finals.append(event.snapshot().text)
            assert self.added[event.turn] == event.snapshot().text

    async def hear(self, sound: Waveform, block: int = 1600) -> Session:
        """Say something and end."""
        running = asyncio.create_task(self.live.run())
        for first in range(0, len(sound), block):
            await self.live.append(sound[first : first + block])
        await self.live.end()
        await running
        return self


def quiet(seconds: float) -> Waveform:
    """Zeros."""
    return np.zeros(round(seconds * SAMPLE_RATE), np.int16)


TALK = np.concatenate(
    [speech([1, 2, 3], gap_s=0.3), quiet(2), speech([4, 5, 6, 7, 8, 9, 1, 2], gap_s=0.25), quiet(1.5), speech([3])]
)
SAID = ["one two three", "four five six seven eight nine one two", "three"]


async def test_turns_are_what_is_said_between_silences() -> None:
    """Each has its final text, in order, however long; times are those of the stream."""
    session = await Session(hearing(FakeRecognizer()), Turns()).hear(TALK)
    assert session.finals == SAID
    kinds = [type(event).__name__ for event in session.events if not isinstance(event, Words)]
    assert kinds == ["Started", "Stopped"] * 3
    last = session.events[-1]
    assert isinstance(last, Whole)
    (word,) = last.snapshot().words
    assert word.start_s == pytest.approx((len(TALK) / SAMPLE_RATE) - 1.0, abs=0.1)


@pytest.mark.parametrize("block", [160, 1_600, 7_777, 10**6])
@pytest.mark.parametrize("turns", [Turns(), None])
async def test_pace_and_pieces_do_not_matter(block: int, turns: Turns | None) -> None:
    """Windows, events and words are the same, whether the samples come one by one or at once."""
    chunks: list[Chunk] = []
    expected_chunks: list[Chunk] = []
    expected = await Session(hearing(FakeRecognizer(), expected_chunks), turns).hear(TALK, 320)
    session = await Session(hearing(FakeRecognizer(), chunks), turns).hear(TALK, block)
    assert session.finals == expected.finals
    assert [(len(chunk.waveform), chunk.first, chunk.stop) for chunk in chunks] == [
        (len(chunk.waveform), chunk.first, chunk.stop) for chunk in expected_chunks
    ]


async def test_words_are_shown_before_they_are_firm() -> None:
    """The stable text is the beginning of every later text of the turn; a word in the right context is not in it."""
    session = await Session(hearing(FakeRecognizer()), None).hear(speech([1, 2, 3, 4, 5, 6, 7], gap_s=0.2))
    assert session.finals == ["one two three four five six seven"]
    assert any(stable != text for stable, text in session.texts)
    for (stable, _), (_, later) in pairwise(session.texts):
        assert later.startswith(stable)


async def test_silence_costs_nothing() -> None:
    """Neither digital silence nor faint noise reaches the model, with turns or without."""
    chunks: list[Chunk] = []
    faint = np.random.default_rng(0).normal(0, 10, 20 * SAMPLE_RATE).astype(np.int16)
    for turns in (Turns(), None):
        session = await Session(hearing(FakeRecognizer(), chunks), turns).hear(faint)
        assert not any(session.finals)
    assert chunks == []


async def test_the_decoder_goes_on_within_a_turn_and_begins_again_with_the_next() -> None:
    """A chunk carries what the one before it left; windows are no longer than left, chunk and right together."""
    chunks: list[Chunk] = []
    await Session(hearing(FakeRecognizer(), chunks), Turns()).hear(TALK)
    assert [chunk.carried for chunk in chunks] == [*(None, 1), *(None, 1, 2, 3, 4), None]
    assert max(len(chunk.waveform) for chunk in chunks) <= WINDOW.left + WINDOW.chunk + WINDOW.right + FRAME


async def test_a_commit_ends_a_turn_at_once() -> None:
    """All that has come by then is heard; what follows is another turn, with or without a detector."""
    for turns in (None, Turns()):
        session = Session(hearing(FakeRecognizer()), turns)
        running = asyncio.create_task(session.live.run())
        await session.live.append(speech([1, 2], gap_s=0.1))
        committed = session.live.commit()
        await session.live.append(np.concatenate([quiet(0.3), speech([3], gap_s=0.1)]))
        session.live.commit()
        await session.live.end()
        await running
        assert session.finals[:2] == ["one two", "three"]
        assert session.added[committed] == "one two"


async def test_a_word_that_a_commit_cuts_is_heard_once() -> None:
    """Also where the cut lies in the frame in which it begins: the next turn begins with the next frame."""
    sound = speech([1], gap_s=0.1)
    begins_at = int(np.flatnonzero(sound)[0])
    assert (begins_at + 100) // FRAME == begins_at // FRAME
    session = Session(hearing(FakeRecognizer()), None)
    running = asyncio.create_task(session.live.run())
    for part in (sound[: begins_at + 100], sound[begins_at + 100 :]):
        await session.live.append(part)
        session.live.commit()
    await session.live.end()
    await running
    assert session.finals == ["one", ""]


async def test_a_commit_of_silence_is_answered() -> None:
    """With an empty text."""
    session = Session(hearing(FakeRecognizer()), Turns())
    running = asyncio.create_task(session.live.run())
    await session.live.append(quiet(1))
    session.live.commit()
    await session.live.end()
    await running
    assert session.finals == [""]


async def test_what_is_cleared_is_never_heard() -> None:
    """Turns that had ended before are."""
    session = Session(hearing(FakeRecognizer()), None)
    await session.live.append(speech([1]))
    session.live.commit()
    await session.live.append(speech([2, 3]))
    session.live.clear()
    assert session.live.buffered_s == 0
    await session.live.append(speech([4]))
    session.live.commit()
    await session.live.end()
    await session.live.run()
    assert session.finals == ["one", "four"]


@pytest.mark.parametrize("told", [Started, Stopped, Failed, Whole])
@pytest.mark.parametrize("act", [LiveSession.clear, LiveSession.commit, lambda live: live.detect(None)])
async def test_what_is_done_while_something_is_told_does_no_harm(
    told: type[Event], act: Callable[[LiveSession], object]
) -> None:
    """A client may clear, commit and set up at any moment, also while the socket takes what ends its turn."""
    acted: list[object] = []

    async def tell(event: Event) -> None:
        await asyncio.sleep(0)
        if isinstance(event, told) and len(acted) < 5:
            acted.append(act(live))
        await asyncio.sleep(0)

    live = LiveSession(failing_in(range(1, 1000, 2)), VOCABULARY, WINDOW, tell, turns=Turns(), most_waiting_s=30)
    running = asyncio.create_task(live.run())
    for first in range(0, len(TALK), 1600):
        await live.append(TALK[first : first + 1600])
    await live.end()
    async with asyncio.timeout(5):
        await running
    assert live.tally.audio_s == pytest.approx(len(TALK) / SAMPLE_RATE)


class Hum(FakeRecognizer):
    """One that hears words through what the detector takes for speech."""

    def proceed(self, chunks: Sequence[Chunk], padded: object | None = None) -> list[tuple[Recognition, object]]:
        """As any fake, without the hum."""
        return super().proceed([_without_hum(chunk) for chunk in chunks], padded)


def _hummed(sound: Waveform) -> Waveform:
    """The same, with a hum that comes and goes where there was silence."""
    hum = 300 * (np.arange(len(sound)) // 1600 % 2)
    return np.where(sound == 0, hum, sound).astype(np.int16)


LONG_PAUSE = _hummed(np.concatenate([speech([1]), quiet(4), speech([2])]))


async def test_a_turn_without_words_for_long_ends() -> None:
    """Where noise hides the silence from the detector, the decoder's own counts; the next word begins a turn.

    The decoder goes on all the same.
    """
    chunks: list[Chunk] = []
    session = await Session(hearing(Hum(), chunks), Turns(threshold=0.0)).hear(LONG_PAUSE)
    assert [final for final in session.finals if final] == ["one", "two"]
    numbers = [event.turn for event in session.events if isinstance(event, Started)]
    assert numbers == [event.turn for event in session.events if isinstance(event, Stopped)]
    assert [chunk.carried for chunk in chunks] == [None, *range(1, len(chunks))]


async def test_a_turn_that_the_client_ended_stays_one() -> None:
    """However much of it was still to be heard: who commits waits for one answer."""
    session = Session(hearing(Hum()), Turns(threshold=0.0))
    await session.live.append(LONG_PAUSE)
    committed = session.live.commit()
    await session.live.end()
    await session.live.run()
    assert session.finals == ["one two"]
    assert session.added[committed] == "one two"


def _without_hum(chunk: Chunk) -> Chunk:
    waveform = np.where(np.abs(chunk.waveform) <= 300, 0, chunk.waveform).astype(np.int16)
    return Chunk(waveform=waveform, first=chunk.first, stop=chunk.stop, carried=chunk.carried, ahead=chunk.ahead)


async def test_a_stretch_that_fails_is_told_and_the_stream_goes_on() -> None:
    """The turn fails, once; words after it are heard, by a decoder that begins again."""
    failing, carried = failing_in({4}), list[object]()

    async def hear(chunk: Chunk, deadline_at: float) -> tuple[Recognition, object, Ran]:
        carried.append(chunk.carried)
        return await failing(chunk, deadline_at)

    session = await Session(hear, Turns()).hear(TALK)
    assert [event.turn for event in session.events if isinstance(event, Failed)] == [2]
    assert (session.finals[0], session.finals[-1]) == (SAID[0], SAID[-1])
    assert carried == [*(None, 1), *(None, 1, None, 1, 2), None]


@pytest.mark.parametrize("failing", [{1}, {2}, {1, 2}, {3}, {1, 2, 3}, {2, 4}])
@pytest.mark.parametrize("late", [False, True])
async def test_what_fails_is_what_was_announced(failing: set[int], *, late: bool) -> None:
    """Each turn begins, stops and ends, in that order and once, whichever of its stretches fail.

    And whether it is heard while it is said or afterwards.
    """
    session = Session(failing_in(failing), Turns(), most_waiting_s=60)
    if late:
        await session.live.append(TALK)
        await session.live.end()
        await session.live.run()
    else:
        await session.hear(TALK)
    kinds: dict[int, list[type[Event]]] = {}
    for event in session.events:
        if isinstance(event, Whole) or not isinstance(event, Words):
            kinds.setdefault(event.turn, []).append(type(event))
    assert set(map(tuple, kinds.values())) == {(Started, Stopped, Whole), (Started, Stopped, Failed)}
    assert sum(each[-1] is Failed for each in kinds.values()) == len(failing)


@pytest.mark.parametrize("failing", [{1}, {2}, {1, 2}, {4}])
async def test_where_only_commits_end_turns_one_that_fails_is_told_at_its_end(failing: set[int]) -> None:
    """Under the number that the commit got, once, however many of its stretches fail; the next turn is whole."""
    session = Session(failing_in(failing), None)
    running = asyncio.create_task(session.live.run())
    await session.live.append(speech([1, 2, 3, 4, 5], gap_s=0.4))
    committed = session.live.commit()
    await session.live.append(speech([6], gap_s=0.4))
    await session.live.end()
    await running
    assert [event.turn for event in session.events if isinstance(event, Failed)] == [committed]
    assert session.finals == ["six"]


async def test_who_speaks_faster_than_is_heard_waits() -> None:
    """No more audio is taken in than may wait, and all of it is heard in the end."""
    gate = asyncio.Event()

    async def hear(chunk: Chunk, deadline_at: float) -> tuple[Recognition, object, Ran]:
        await gate.wait()
        return await hearing(FakeRecognizer())(chunk, deadline_at)

    session = Session(hear, None, most_waiting_s=3)
    sound = speech([1, 2, 3, 4, 5, 6, 7, 8, 9], gap_s=0.6)
    running = asyncio.create_task(session.live.run())
    saying = asyncio.create_task(session.live.append(sound))
    done, _ = await asyncio.wait({saying}, timeout=0.2)
    assert not done
    assert 3 <= session.live.tally.audio_s <= 4
    gate.set()
    await saying
    await session.live.end()
    await running
    assert session.finals == ["one two three four five six seven eight nine"]


async def test_who_ends_turns_faster_than_they_are_told_waits() -> None:
    """Turns without audio are bounded too: for who reads them slowly they would pile up."""
    gate = asyncio.Event()

    async def tell(_event: Event) -> None:
        await gate.wait()

    live = LiveSession(hearing(FakeRecognizer()), VOCABULARY, WINDOW, tell, turns=None, most_waiting_s=30)

    async def end_turns() -> None:
        for _ in range(1000):
            await live.append(quiet(0))
            live.commit()

    running, ending = asyncio.create_task(live.run()), asyncio.create_task(end_turns())
    done, _ = await asyncio.wait({ending}, timeout=0.2)
    assert not done
    assert live.turn <= MOST_TURNS + 2
    gate.set()
    await ending
    await live.end()
    await running
    assert live.turn == 1001


async def test_memory_does_not_grow_with_the_stream() -> None:
    """After ten minutes no more audio is held than the window needs."""
    session = Session(hearing(FakeRecognizer()), Turns())
    running = asyncio.create_task(session.live.run())
    minute = np.tile(np.concatenate([speech([1, 2]), quiet(1)]), 17)
    for _ in range(10):
        await session.live.append(minute)
    tape = session.live._tape
    assert tape.end - tape.start < 10 * SAMPLE_RATE
    await session.live.end()
    await running
    assert len(session.finals) == 340


async def test_turns_can_be_told_apart_in_another_way_meanwhile() -> None:
    """A turn that is under way goes on."""
    session = Session(hearing(FakeRecognizer()), None)
    running = asyncio.create_task(session.live.run())
    await session.live.append(speech([1, 2], gap_s=0.2))
    session.live.detect(Turns(silence_s=0.3))
    await session.live.append(quiet(1))
    await session.live.append(speech([3], gap_s=0.5))
    session.live.detect(None)
    await session.live.append(speech([4], gap_s=0.2))
    session.live.commit()
    await session.live.end()
    await running
    assert session.finals == ["one two", "three", "four"]
