"""Gather the speech to train and to measure with: synthetic voices and people. Knows voices and takes; no mixing."""

import dataclasses
import pickle
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import soundfile
import soxr

from seat.demo.recipe.speech import SAMPLE_RATE, Unit, unit
from seat.demo.recipe.synthesizers import Espeak, Flite, Pico, Piper, festival
from seat.demo.recipe.vocabulary import COMMANDS, DIGITS, NUMBERS, SPELLING, WORDS

ESPEAK = (
    *("en-us", "en-us+f1", "en-us+f2", "en-us+f3", "en-us+f4", "en-us+m1", "en-us+m2", "en-us+m3", "en-us+m4"),
    *("en-us+m7", "en-us+klatt2", "en-gb", "en-gb+f2", "en-gb+f5", "en-gb+m5", "en-gb+m6", "en-gb+m8"),
    *("en-gb-scotland", "en-gb-scotland+f3", "en-gb-x-rp", "en-gb-x-rp+f4", "en-gb-x-gbclan", "en-gb-x-gbcwmd+f1"),
    *("en-029", "en-029+m3"),
)
FLITE = ("slt", "awb", "kal16", "kal")
FESTIVAL = ("cmu_us_slt_arctic_hts", "ked_diphone", "kal_diphone")
PICO = ("en-US", "en-GB")
HELD_OUT_VOICE = "rms"
"""A Flite voice no part of training hears."""
SPEAKERS = ("george", "jackson", "lucas", "nicolas", "yweweler")
"""The people of the Free Spoken Digit Dataset that the recipe knows; more joined it later."""
HELD_OUT_SPEAKER = "lucas"
"""A person no part of training hears."""
HELD_OUT_TAKES = 10
"""Of each digit by each person, the takes numbered below this are only measured with."""

Bank = dict[str, list[Unit]]
"""Units by voice."""


def phrase(rng: np.random.Generator) -> list[str]:
    """Draw words to be said in one breath, of one kind mostly."""
    pool: Sequence[str] = (DIGITS, NUMBERS, SPELLING, COMMANDS, WORDS, WORDS)[rng.integers(6)]
    return [str(word) for word in rng.choice(pool, rng.integers(2, 8))]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Order:
    """What to synthesize."""

    seed: int
    """Draws speeds, pitches and phrases; another seed gives takes never heard before."""
    takes: int
    """Of each word by each voice; one more by Flite and Festival, twice as many by Pico and Piper."""
    phrases: int
    """By each voice of eSpeak, Flite and Festival."""
    fastest: int
    """Words a minute of eSpeak's fastest takes, 110 or more; the others' are about as fast."""
    held_out: bool = False
    """Only the voice that training never hears, instead of all others."""

    @property
    def hurry(self) -> float:
        """The fastest pace, as a share of training's."""
        return self.fastest / TRAINING.fastest


TRAINING = Order(seed=1, takes=4, phrases=160, fastest=205)
UNSEEN = Order(seed=2, takes=1, phrases=20, fastest=180)
UNHEARD = Order(seed=2, takes=2, phrases=80, fastest=180, held_out=True)


def _texts(rng: np.random.Generator, takes: int, phrases: int) -> list[list[str]]:
    return [[word] for word in WORDS for _ in range(takes)] + [phrase(rng) for _ in range(phrases)]


def _espeak(rng: np.random.Generator, order: Order) -> Iterator[Unit | None]:
    engine = Espeak()
    for voice in ESPEAK:
        for words in _texts(rng, order.takes, order.phrases):
            yield engine.say(voice, words, rate=int(rng.integers(105, order.fastest)), pitch=int(rng.integers(15, 85)))


def _flite(voices: Sequence[str], rng: np.random.Generator, order: Order) -> Iterator[Unit | None]:
    engine = Flite()
    for voice in voices:
        texts = _texts(rng, order.takes + 1, order.phrases)
        settings = [(words, rng.uniform(0.75 / order.hurry, 1.4), rng.uniform(0.8, 1.25)) for words in texts]
        with ThreadPoolExecutor(2) as pool:
            yield from pool.map(
                lambda each, voice=voice: engine.say(voice, each[0], stretch=each[1], pitch=each[2]), settings
            )


def _festival(rng: np.random.Generator, order: Order) -> Iterator[Unit | None]:
    for voice in FESTIVAL:
        for _ in range(order.takes + 1):
            texts = _texts(rng, 1, order.phrases // (order.takes + 1))
            yield from festival(voice, texts, stretch=rng.uniform(0.8 / order.hurry, 1.35))


def _single(rng: np.random.Generator, order: Order) -> Iterator[Unit | None]:
    pico, piper = Pico(), Piper(order.seed)
    fastest = 1.35 * order.hurry
    for word in WORDS:
        for _ in range(2 * order.takes):
            for voice in PICO:
                yield pico.say(voice, word, speed=rng.uniform(0.75, fastest), pitch=rng.uniform(0.75, 1.35))
            yield piper.say(word, stretch=rng.uniform(0.8 / order.hurry, 1.35), variety=rng.uniform(0.5, 1.0))


def synthetic(order: Order) -> Bank:
    """Synthesize every word and many phrases by each voice."""
    rng = np.random.default_rng(order.seed)
    makers = (
        [_flite([HELD_OUT_VOICE], rng, order)]
        if order.held_out
        else [_espeak(rng, order), _flite(FLITE, rng, order), _festival(rng, order), _single(rng, order)]
    )
    bank: Bank = defaultdict(list)
    for maker in makers:
        for said in maker:
            if said is not None:
                bank[said.voice].append(said)
    return dict(bank)


def human(folder: Path, *, held_out: bool) -> Bank:
    """Read single digits of the Free Spoken Digit Dataset.

    Args:
        folder: With files `{digit}_{speaker}_{index}.wav`.
        held_out: The takes that training never hears, of all speakers, instead of those it does.
    """
    bank: Bank = defaultdict(list)
    for path in sorted(folder.glob("*.wav")):
        match = re.fullmatch(r"(\d)_([a-z]+)_(\d+)", path.stem)
        if match is None or match[2] not in SPEAKERS:
            continue
        digit, speaker, index = int(match[1]), match[2], int(match[3])
        unseen = speaker == HELD_OUT_SPEAKER or index < HELD_OUT_TAKES
        if unseen != held_out:
            continue
        samples, rate = soundfile.read(path, dtype="float32")
        resampled = soxr.resample(samples, rate, SAMPLE_RATE)
        said = unit(speaker, resampled, [(DIGITS[digit], 0, len(resampled))])
        if said is not None:
            bank[speaker].append(said)
    return dict(bank)


def kept(folder: Path, order: Order) -> Bank:
    """Synthesize once and keep the result in a file that is only ever read back from here.

    Args:
        folder: Made if missing.
        order: What to synthesize.
    """
    path = folder / f"speech-{order.seed}-{order.takes}-{order.phrases}-{order.fastest}-{order.held_out:d}.pickle"
    if path.exists():
        with path.open("rb") as file:
            bank: Bank = pickle.load(file)  # noqa: S301 - written below
            return bank
    bank = synthetic(order)
    folder.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        pickle.dump(bank, file)
    return bank
