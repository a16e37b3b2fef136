"""Make clean audio sound like rooms, telephones and noise. Knows samples and spectra; no words but what is cut off."""

import dataclasses

import numpy as np
from numpy.typing import NDArray

from seat.demo.recipe.mix import Utterance, Word
from seat.demo.recipe.speech import SAMPLE_RATE
from seat.demo.recipe.vocabulary import FULL_STOP

Audio = NDArray[np.float32]

TELEPHONE_HERTZ = 4_000.0
"""What resampling to 8 kHz leaves."""
SHORTEST_SECONDS = 1.0
"""The service puts silence around shorter audio up to this."""


def _chance(rng: np.random.Generator, probability: float) -> bool:
    return bool(rng.random() < probability)


def _fast(samples: int) -> int:
    """Round up to a length whose Fourier transform is fast: a multiple of 4096 has a small cofactor here."""
    return -(-samples // 4096) * 4096


def noise(rng: np.random.Generator, samples: int) -> Audio:
    """Draw noise of power 1: white, pink, brown or in a band."""
    white = rng.standard_normal(samples, np.float32)
    slope = rng.choice([0.0, 0.0, 0.5, 0.5, 1.0])
    if slope:
        padded = _fast(samples)
        spectrum = np.fft.rfft(white, padded)
        hertz = np.maximum(np.arange(len(spectrum), dtype=np.float32) * (SAMPLE_RATE / padded), 30.0)
        white = np.fft.irfft(spectrum * hertz**-slope, padded)[:samples].astype(np.float32)
    power = float(np.sqrt(np.square(white).mean())) if samples else 1.0
    return (white / (power + 1e-9)).astype(np.float32)


def hum(rng: np.random.Generator, samples: int) -> Audio:
    """Draw a mains hum with harmonics, of power about 1."""
    base = rng.choice([50.0, 60.0, rng.uniform(80, 400)])
    time = np.arange(samples, dtype=np.float32) * np.float32(2 * np.pi / SAMPLE_RATE)
    parts = sum(rng.uniform(0, 1) / k * np.sin(time * np.float32(base * k) + rng.uniform(0, 6)) for k in range(1, 6))
    return np.asarray(parts, np.float32)


def tone(rng: np.random.Generator, samples: int) -> Audio:
    """Draw sines, one or two, steady, sweeping or beeping."""
    low, high = np.exp(rng.uniform(np.log(60), np.log(6_000), 2))
    kind = rng.integers(4)
    hertz = np.full(samples, low) if kind else np.linspace(low, high, samples)
    made = np.sin(np.cumsum(hertz) * (2 * np.pi / SAMPLE_RATE))
    if kind == 2:
        made += np.sin(np.arange(samples) * (2 * np.pi * high / SAMPLE_RATE))
    if kind == 3:
        made *= np.sin(np.arange(samples) * (2 * np.pi * rng.uniform(0.5, 4) / SAMPLE_RATE)) > 0
    return made.astype(np.float32)


def not_speech(rng: np.random.Generator, seconds: float) -> Utterance:
    """Draw audio without words: digital silence, noise, hum, tones, clicks."""
    samples = round(seconds * SAMPLE_RATE)
    level = np.float32(10 ** rng.uniform(-4, -0.4))
    kind = rng.integers(6)
    if kind == 0:
        made = np.zeros(samples, np.float32)
    elif kind == 1:
        made = level * tone(rng, samples)
    elif kind == 2:
        made = level * hum(rng, samples)
    else:
        made = level * 0.5 * noise(rng, samples)
        if kind == 3:
            made += np.float32(0.3) * level * hum(rng, samples)
        if kind == 4:
            made[rng.integers(0, samples, 5)] += np.float32(0.5)
    return Utterance(samples=made, words=())


def shape(rng: np.random.Generator, audio: Audio, telephone: float) -> Audio:
    """Colour audio as microphones, lines and rooms do: tilt, resonances, a telephone's band, an echoing room.

    Args:
        rng: Draws everything.
        audio: (n,) samples.
        telephone: Probability of losing everything above 4 kHz.
    """
    tail = SAMPLE_RATE // 3
    padded = _fast(len(audio) + tail)
    spectrum = np.fft.rfft(audio, padded)
    hertz = np.linspace(0, SAMPLE_RATE / 2, len(spectrum), dtype=np.float32)
    knots = np.array([0, 150, 400, 900, 1800, 3200, 5000, 8000], np.float32)
    decibels = rng.uniform(-5, 5, len(knots)) + np.linspace(-1, 1, len(knots)) * rng.uniform(-6, 6)
    gain = 10 ** (np.interp(hertz, knots, decibels) / 20)
    if _chance(rng, telephone):
        gain *= np.clip((TELEPHONE_HERTZ - hertz) / 150, 0, 1)
    if _chance(rng, 0.15):
        gain *= np.clip((hertz - 100) / 200, 0.05, 1)
    spectrum *= gain.astype(np.float32)
    if _chance(rng, 0.25):
        length = int(SAMPLE_RATE * rng.uniform(0.05, 0.3))
        decay = np.exp(-np.arange(length) / (SAMPLE_RATE * rng.uniform(0.01, 0.06)))
        room = rng.standard_normal(length) * decay
        room *= rng.uniform(0.1, 0.6) / np.sqrt(np.square(room).sum())
        room[0] = 1.0
        spectrum *= np.fft.rfft(room.astype(np.float32), padded)
    return np.fft.irfft(spectrum, padded)[: len(audio)].astype(np.float32)


def cut(rng: np.random.Generator, said: Utterance) -> Utterance:
    """Cut an utterance at a word's edge or inside a word, as a window does.

    A word that keeps three quarters is still to be written; one that keeps less than a third is not. Cuts between
    those are not made. Nothing is written for a part of a word, and no full stop before it.
    """
    if len(said.words) < 2:
        return said
    index = int(rng.integers(1, len(said.words)))
    share = rng.choice([rng.uniform(0.1, 0.3), rng.uniform(0.75, 1.0)])
    word = said.words[index]
    if _chance(rng, 0.5):
        at = word.start + share * (word.end - word.start)
        kept = [*said.words[: index + (share > 0.5)]]
        if share > 0.5:
            kept[-1] = dataclasses.replace(word, end=at, text=word.text.rstrip(FULL_STOP) + FULL_STOP)
        return Utterance(samples=said.samples[: int(at * SAMPLE_RATE)], words=tuple(kept))
    at = word.end - share * (word.end - word.start)
    begin = int(at * SAMPLE_RATE) / SAMPLE_RATE
    rest = said.words[index if share > 0.5 else index + 1 :]
    moved = [Word(text=each.text, start=max(0.0, each.start - begin), end=each.end - begin) for each in rest]
    if moved:
        moved[0] = dataclasses.replace(moved[0], text=moved[0].text.capitalize())
    return Utterance(samples=said.samples[int(at * SAMPLE_RATE) :], words=tuple(moved))


def padded(said: Utterance, lead: float, trail: float, left: float = 0.5) -> Utterance:
    """Put digital silence around an utterance, as much more as the service needs for a short one.

    Args:
        said: The utterance.
        lead: Seconds before.
        trail: Seconds after.
        left: Share of what is still missing that goes before; the service halves it.
    """
    before, after = round(lead * SAMPLE_RATE), round(trail * SAMPLE_RATE)
    missing = max(0, round(SHORTEST_SECONDS * SAMPLE_RATE) - before - after - len(said.samples))
    before, after = before + int(missing * left), after + missing - int(missing * left)
    moved = tuple(
        dataclasses.replace(word, start=word.start + before / SAMPLE_RATE, end=word.end + before / SAMPLE_RATE)
        for word in said.words
    )
    return Utterance(samples=np.pad(said.samples, (before, after)), words=moved)


def augment(rng: np.random.Generator, said: Utterance, telephone: float = 0.5) -> Utterance:
    """Make an utterance as hard as what the service may hear.

    Args:
        rng: Draws everything.
        said: A composed utterance.
        telephone: Probability of a telephone's band.
    """
    if _chance(rng, 0.1):
        said = cut(rng, said)
    audio = said.samples
    if said.words and _chance(rng, 0.7):
        audio = shape(rng, audio, telephone)
    loudness = float(np.sqrt(np.square(audio).mean())) + 1e-6 if len(audio) else 1.0
    if said.words and _chance(rng, 0.6):
        ratio = 10 ** (-rng.uniform(12, 55) / 20)
        audio = audio + np.float32(loudness * ratio) * noise(rng, len(audio))
        if _chance(rng, 0.15):
            audio = audio + np.float32(loudness * ratio) * hum(rng, len(audio))
    peak = float(np.abs(audio).max(initial=0.0)) + 1e-9
    if said.words:
        audio = audio * np.float32(min(1.0, 10 ** rng.uniform(-1.6, 0.05)) / peak)
        if _chance(rng, 0.05):
            audio = np.clip(audio * np.float32(rng.uniform(1, 3)), -1, 1)
    made = Utterance(samples=np.clip(audio, -1, 1).astype(np.float32), words=said.words)
    lead = rng.uniform(0, 1.5) if _chance(rng, 0.15) else 0.0
    trail = rng.uniform(0.2, 3.0) if _chance(rng, 0.3) else 0.0
    return padded(made, lead, trail, left=rng.choice([0.0, 0.5, 0.5, rng.uniform(0, 1)]))
