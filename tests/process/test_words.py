"""Words and times of the bundled model by the real server: pauses, silence and company change none of them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import soundfile

from seat.recognizer import SAMPLE_RATE
from tests import sounds
from tests.process.conftest import CLIPS
from tests.process.seats import Seat

pytestmark = [pytest.mark.process, pytest.mark.model]

FRAME_S = 0.08
"""What the model's times are multiples of."""


def _clip(name: str) -> sounds.Sound:
    samples, rate = soundfile.read(CLIPS / f"{name}.flac", dtype="float32")
    assert rate == SAMPLE_RATE
    return samples


def _words(seat: Seat, sound: sounds.Sound) -> list[dict[str, Any]]:
    fields = {"response_format": "verbose_json", "timestamp_granularities[]": "word"}
    return seat.post(sounds.wav(sound), **fields).raise_for_status().json()["words"]


@pytest.mark.parametrize("silence_s", [0.4, 2.0])
def test_silence_behind_speech_swallows_nothing(seat: Seat, silence_s: float) -> None:
    """Zeros that count as audio have made such models come back empty."""
    call = _clip("call")
    spoken = [word["word"] for word in _words(seat, call)]
    assert len(spoken) == 5
    assert spoken == [word["word"] for word in _words(seat, np.append(call, sounds.silence(silence_s)))]


@pytest.mark.parametrize("pause_s", [1.5, 6.0])
def test_what_follows_a_pause_is_heard_in_its_place(seat: Seat, pause_s: float) -> None:
    """The same words before and behind it, the second time later by the clip and the pause."""
    call = _clip("call")
    words = _words(seat, np.concatenate([call, sounds.silence(pause_s), call]))
    first, second = words[:5], words[5:]
    assert [word["word"] for word in first] == [word["word"] for word in second]
    later_s = len(call) / SAMPLE_RATE + pause_s
    for before, behind in zip(first, second, strict=True):
        assert behind["start"] - before["start"] == pytest.approx(later_s, abs=2 * FRAME_S)


def test_company_in_a_batch_moves_no_time(seat: Seat) -> None:
    """Five clips of different lengths at once: the words and times of each are those it has alone."""
    call, hello, dialogue = _clip("call"), _clip("hello"), _clip("dialogue")
    clips = [call, hello, dialogue, np.append(hello, call), np.append(call, dialogue)]

    def times(sound: sounds.Sound) -> list[tuple[str, float, float]]:
        return [(word["word"], word["start"], word["end"]) for word in _words(seat, sound)]

    alone = [times(clip) for clip in clips]
    with ThreadPoolExecutor(len(clips)) as callers:
        assert alone == list(callers.map(times, clips))
