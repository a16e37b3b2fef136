"""Make what the demo model is measured on: utterances training never hears. Knows the sets; no model, no scores."""

from pathlib import Path

import numpy as np
import soxr
from numpy.typing import NDArray

from seat.demo.recipe import bank
from seat.demo.recipe.augment import cut, hum, noise, not_speech
from seat.demo.recipe.bank import Bank
from seat.demo.recipe.mix import Composer, Utterance, compose, voices
from seat.demo.recipe.speech import SAMPLE_RATE

SECONDS = (0.6, 1.0, 2.0, 4.0, 6.0, 9.0, 14.0)
"""About how long the utterances of a set are, in turn."""
LONG_SECONDS = (25.0, 44.0)

Sets = dict[str, list[Utterance]]
"""Utterances by the name of their set."""


def _only_phrases(units: Bank) -> Bank:
    return {voice: [said for said in each if len(said.marks) > 1] for voice, each in units.items()}


def composed(seed: int, units: Bank, count: int, seconds: tuple[float, ...] = SECONDS) -> list[Utterance]:
    """Utterances put together from single words and phrases, of about these lengths in turn."""
    rng = np.random.default_rng(seed)
    speakers = list(voices(units).values())
    return [
        compose(rng, [speakers[i % len(speakers)]], seconds[i % len(seconds)] * rng.uniform(0.8, 1.1), vary=False)
        for i in range(count)
    ]


def _breaths(units: Bank, count: int, seed: int) -> list[Utterance]:
    """Phrases as the synthesizer says them, nothing put together."""
    rng = np.random.default_rng(seed)
    speakers = [each for each in units.values() if each]
    made = []
    for i in range(count):
        voice = speakers[i % len(speakers)]
        composer = Composer(rng)
        composer.pause(rng.uniform(0.05, 0.5))
        composer.say(voice[rng.integers(len(voice))], gain=0.8)
        composer.stop()
        composer.pause(rng.uniform(0.05, 0.8))
        made.append(composer.utterance())
    return made


def silences(count: int, seed: int = 9) -> list[Utterance]:
    """Make what is not speech: digital silence, sines, white and pink noise, hum, and mixtures."""
    rng = np.random.default_rng(seed)
    time = np.arange(3 * SAMPLE_RATE) / SAMPLE_RATE
    fixed: list[NDArray[np.floating]] = [np.zeros(round(s * SAMPLE_RATE)) for s in (0.3, 1.0, 5.0, 20.0)]
    fixed += [level * np.sin(2 * np.pi * hertz * time) for hertz in (100, 440, 1000, 3000) for level in (0.05, 0.5)]
    fixed += [level * noise(rng, 4 * SAMPLE_RATE) for level in (0.001, 0.01, 0.05, 0.2) for _ in range(4)]
    fixed += [level * hum(rng, 4 * SAMPLE_RATE) for level in (0.01, 0.2)]
    made = [Utterance(samples=np.clip(each, -1, 1).astype(np.float32), words=()) for each in fixed]
    return made + [not_speech(rng, rng.uniform(0.5, 12)) for _ in range(count)]


def scaled(said: Utterance, gain: float) -> Utterance:
    """Make an utterance softer."""
    return Utterance(samples=said.samples * np.float32(gain), words=said.words)


def telephoned(said: Utterance) -> Utterance:
    """Resample an utterance to 8 kHz and back."""
    there = soxr.resample(said.samples, SAMPLE_RATE, 8_000)
    return Utterance(samples=soxr.resample(there, 8_000, SAMPLE_RATE).astype(np.float32), words=said.words)


def trailed(said: Utterance, seconds: float) -> Utterance:
    """Append digital silence."""
    return Utterance(samples=np.pad(said.samples, (0, round(seconds * SAMPLE_RATE))), words=said.words)


def sets(fsdd: Path, scratch: Path, count: int) -> Sets:
    """Make every set.

    Args:
        fsdd: Folder of the Free Spoken Digit Dataset's recordings.
        scratch: Folder where synthesized speech is kept.
        count: Utterances of a set.
    """
    heard = bank.kept(scratch, bank.UNSEEN)
    unheard = bank.kept(scratch, bank.UNHEARD)
    people = bank.human(fsdd, held_out=True)
    person = {bank.HELD_OUT_SPEAKER: people.pop(bank.HELD_OUT_SPEAKER)}
    synthetic = composed(11, heard, count)
    voice = composed(12, unheard, count)
    heard_people = composed(13, people, count)
    one_person = composed(14, person, count)
    rng = np.random.default_rng(15)
    return {
        "heard voices, unseen takes": synthetic,
        "heard voices, one breath": _breaths(_only_phrases(heard), count, 16),
        "unheard voice": voice,
        "unheard voice, one breath": _breaths(_only_phrases(unheard), count, 17),
        "heard people, unseen takes": heard_people,
        "unheard person": one_person,
        "softened to 0.05 .. 1": [scaled(each, g) for each in (*synthetic[: count // 2], *heard_people[: count // 2])
                                  for g in [float(np.exp(rng.uniform(np.log(0.05), 0)))]],
        "through 8 kHz": [telephoned(each) for each in (*synthetic[: count // 2], *heard_people[: count // 2])],
        "trailing digital silence": [trailed(each, float(rng.uniform(0.4, 3.0)))
                                     for each in (*synthetic[: count // 2], *heard_people[: count // 2])],
        "cut through a word": [cut(rng, each) for each in (*synthetic[: count // 2], *heard_people[: count // 2])],
        "25 to 45 s": [*composed(18, heard, max(4, count // 16), LONG_SECONDS),
                       *composed(19, people, max(2, count // 32), LONG_SECONDS)],
        "not speech": silences(max(8, count // 4)),
    }  # fmt: skip
