"""Words leave in order of time, however windows come back."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from seat.batches import Heard
from seat.hearing import Hearing, Listeners
from seat.recognizer import SAMPLE_RATE, Recognition, Waveform
from seat.scheduler import Recognized, Scheduler
from seat.stitching import Stitcher
from seat.transcript import Word
from seat.windows import WindowLimits, plan
from tests.fakes import SPOKEN, VOCABULARY, hear, speech

NOTHING = Recognition(tokens=(), frames=(), durations=(), confidences=())


class _Scheduler:
    """Hears windows in an order of its own; some come back empty, and what is given instead is heard."""

    def __init__(self, order: Sequence[int], empty: Sequence[int] = ()) -> None:
        self._order, self._empty = order, empty
        self.tried_again = 0

    async def recognize(
        self,
        waveforms: Sequence[Waveform],
        on_recognized: Recognized,
        *,
        deadline_at: float,
        instead: Callable[[int], Waveform | None],
    ) -> Heard:
        assert deadline_at == math.inf
        heard = list(map(hear, waveforms))
        for number in self._order:
            if number in self._empty:
                other = instead(number)
                self.tried_again += other is not None
                heard[number] = NOTHING if other is None else hear(other)
            on_recognized(number, heard[number])
        return Heard(
            recognitions=tuple(heard),
            queue_s=0.5,
            inference_s=1.0,
            batch_sizes=(1,) * len(heard),
            peak_nbytes=len(waveforms),
            rest_nbytes=1,
        )


async def _run(scheduler: _Scheduler, audio: Waveform) -> tuple[list[list[str]], list[tuple[float, float]], Heard]:
    windows = plan(len(audio), WindowLimits.of_seconds(4, (1, 0)), lambda _first, last: last)
    assert len(windows) == 3
    said: list[list[str]] = []
    progress: list[tuple[float, float]] = []

    def words(new: Sequence[Word]) -> None:
        said.append([word.text for word in new])

    hearing = Hearing(
        audio,
        windows,
        Stitcher(windows, VOCABULARY, samples=len(audio), language="en", join="independent"),
        Listeners(progress=lambda done_s, all_s: progress.append((done_s, all_s)), words=words),
        carried_frame=None,
    )
    return said, progress, await hearing.run(cast("Scheduler", cast("Any", scheduler)), math.inf)


SPEECH = speech([1, 2, 3, 4, 5, 6, 7, 8, 9])


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
async def test_words_come_in_order_whatever_the_windows_do(order: Sequence[int]) -> None:
    """A window that is early waits for those before it; progress counts it at once."""
    said, progress, _ = await _run(_Scheduler(order), SPEECH)
    assert [word for words in said for word in words] == list(SPOKEN[1:])
    assert progress[0] == (0.0, len(SPEECH) / SAMPLE_RATE)
    assert [done_s for done_s, _ in progress] == sorted(done_s for done_s, _ in progress)
    assert progress[-1] == (len(SPEECH) / SAMPLE_RATE,) * 2


def _with_silent_tail() -> Waveform:
    """Sound in the first half of the second window only."""
    audio = SPEECH.copy()
    audio[6 * SAMPLE_RATE : 8 * SAMPLE_RATE] = 0
    return audio


async def test_an_empty_window_with_sound_is_tried_without_the_silence_behind_it() -> None:
    """Its words come in their place."""
    scheduler = _Scheduler((1, 2, 0), empty=(1,))
    said, _, _ = await _run(scheduler, _with_silent_tail())
    assert [word for words in said for word in words] == ["one", "two", "three", "four", "five", "six", "nine"]
    assert scheduler.tried_again == 1


async def test_no_window_is_missing_without_a_word() -> None:
    """Should one be, the request fails: half a transcript looks like a whole one."""
    with pytest.raises(RuntimeError, match="2 of 3 windows"):
        await _run(_Scheduler((0, 1)), SPEECH)


async def test_a_window_of_silence_is_not_tried_again() -> None:
    """There is nothing to hear in it."""
    audio = SPEECH.copy()
    audio[3 * SAMPLE_RATE : 9 * SAMPLE_RATE] = 0
    scheduler = _Scheduler((0, 1, 2), empty=(1,))
    await _run(scheduler, audio)
    assert scheduler.tried_again == 0
