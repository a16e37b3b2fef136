"""The bundled model, live: a streamed clip says what the whole file says."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import jiwer
import numpy as np
import pytest

from seat.gpu.nemo import NemoRecognizer
from seat.live import LiveSession
from seat.recognizer import SAMPLE_RATE, Waveform
from seat.settings import Settings
from seat.turn import Whole, Words
from seat.vad import Turns
from seat.windows import LiveWindow
from tests.test_live import hearing

pytestmark = pytest.mark.model

MOST_APART = 0.005
"""Word error rate by which a stream may differ from its file."""


async def _streamed(demo: NemoRecognizer, sound: Waveform, turns: Turns | None) -> str:
    said: list[str] = []

    async def note(event: object) -> None:
        if isinstance(event, Whole):
            said.append(event.snapshot().text)

    window = LiveWindow.of_seconds(Settings().live_window_s, round(demo.vocabulary.frame_s * SAMPLE_RATE))
    session = LiveSession(hearing(demo), demo.vocabulary, window, note, turns=turns, most_waiting_s=30)
    running = asyncio.create_task(session.run())
    await session.append(sound)
    await session.end()
    await running
    return " ".join(filter(None, said))


@pytest.mark.parametrize("turns", [Turns(), None])
async def test_a_stream_says_what_the_file_says(
    demo: NemoRecognizer, clips: dict[str, tuple[Waveform, str]], turns: Turns | None
) -> None:
    """All clips in a row, with pauses of digital silence between them: the words, within half a percent."""
    pause = np.zeros(2 * SAMPLE_RATE, np.int16)
    sound = np.concatenate([piece for waveform, _ in clips.values() for piece in (waveform, pause)])
    heard = await _streamed(demo, sound, turns)
    truth = " ".join(text for _, text in clips.values())
    assert jiwer.wer(_letters(truth), _letters(heard)) <= MOST_APART


async def test_a_turn_is_shown_before_it_is_firm(demo: NemoRecognizer, clips: dict[str, tuple[Waveform, str]]) -> None:
    """The real model's stable text is the beginning of all that is shown after it."""
    sound, text = max(clips.values(), key=lambda clip: len(clip[0]))
    shown: list[tuple[int, str, str]] = []

    async def note(event: object) -> None:
        if isinstance(event, Words):
            snapshot = event.snapshot()
            shown.append((event.turn, snapshot.stable, snapshot.text))

    window = LiveWindow.of_seconds(Settings().live_window_s, round(demo.vocabulary.frame_s * SAMPLE_RATE))
    session = LiveSession(hearing(demo), demo.vocabulary, window, note, turns=None, most_waiting_s=30)
    running = asyncio.create_task(session.run())
    await session.append(sound)
    await session.end()
    await running
    assert len(shown) > 3
    for (turn, stable, _), (later_turn, _, later) in pairwise(shown):
        assert turn != later_turn or later.startswith(stable)
    assert _letters(shown[-1][2]) == _letters(text)


def _letters(text: str) -> str:
    return text.lower().replace(".", "")
