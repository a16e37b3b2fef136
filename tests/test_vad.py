"""Where speech begins and ends."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from seat.loudness import FRAME
from seat.recognizer import SAMPLE_RATE, Waveform
from seat.vad import Change, SpeechDetector, Turns


def noise(seconds: float, level_db: float, seed: int = 0) -> Waveform:
    """White noise of so many decibels below full scale."""
    deviation = 32_768 * 10 ** (level_db / 20)
    return np.random.default_rng(seed).normal(0, deviation, round(seconds * SAMPLE_RATE)).astype(np.int16)


def silence(seconds: float) -> Waveform:
    """Zeros."""
    return np.zeros(round(seconds * SAMPLE_RATE), np.int16)


def seconds(changes: list[Change]) -> list[tuple[bool, float]]:
    """Changes with their times."""
    return [(change.speaking, round(change.at / SAMPLE_RATE, 2)) for change in changes]


def test_a_turn_begins_with_its_first_loud_sound_and_ends_after_the_silence() -> None:
    """To a frame of 20 ms; a pause that is shorter than the silence does not end it."""
    sound = np.concatenate([silence(1), noise(1, -30), silence(0.4), noise(1, -30), silence(2)])
    assert seconds(SpeechDetector(Turns(silence_s=0.5)).hear(sound)) == [(True, 1.0), (False, 3.9)]
    assert seconds(SpeechDetector(Turns(silence_s=0.2)).hear(sound)) == [
        *((True, 1.0), (False, 2.2)),
        *((True, 2.4), (False, 3.6)),
    ]


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(1, 9000), max_size=12))
def test_the_pieces_do_not_matter(lengths: list[int]) -> None:
    """The same samples give the same changes, however they are cut."""
    sound = np.concatenate([silence(0.5), noise(0.5, -35), silence(1), noise(0.3, -25), silence(0.7)])
    whole = SpeechDetector(Turns()).hear(sound)
    detector = SpeechDetector(Turns())
    pieces = np.split(sound, np.minimum(np.cumsum(lengths), len(sound)).tolist())
    assert whole == [change for piece in pieces for change in detector.hear(piece)]


def test_steady_noise_is_no_speech_for_long() -> None:
    """It opens a turn, and is known for noise within four seconds; speech above it is heard all the same."""
    changes = seconds(SpeechDetector(Turns()).hear(noise(10, -40)))
    assert [speaking for speaking, _ in changes] == [True, False]
    assert changes[1][1] < 4
    loud = np.concatenate([noise(8, -40), noise(1, -20, seed=1), noise(3, -40, seed=2)])
    assert [round(at_s) for speaking, at_s in seconds(SpeechDetector(Turns()).hear(loud)) if speaking] == [0, 8]


def test_clicks_and_whispers_begin_no_turn() -> None:
    """40 ms are too short; what is 70 dB below full scale is no voice, unless the threshold is as low as it can be."""
    click = np.concatenate([silence(1), noise(2 * FRAME / SAMPLE_RATE, -20), silence(1)])
    assert SpeechDetector(Turns()).hear(click) == []
    soft = np.concatenate([silence(1), noise(1, -62), silence(1)])
    assert SpeechDetector(Turns()).hear(soft) == []
    assert len(SpeechDetector(Turns(threshold=0.0)).hear(soft)) == 2


def test_a_detector_can_begin_in_the_middle_and_begin_again() -> None:
    """Samples are counted from where it was told; after a restart speech that goes on is a new turn."""
    detector = SpeechDetector(Turns(), SAMPLE_RATE, speaking=True)
    assert seconds(detector.hear(silence(1))) == [(False, 1.5)]
    assert seconds(detector.hear(noise(1, -30))) == [(True, 2.0)]
    detector.restart()
    assert seconds(detector.hear(noise(1, -30))) == [(True, 3.0)]
