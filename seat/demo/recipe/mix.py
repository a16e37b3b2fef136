"""Compose utterances of known words and word times from units of speech. Knows sentences and pauses; no model."""

import dataclasses
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
import soxr
from numpy.typing import NDArray

from seat.demo.recipe.bank import Bank
from seat.demo.recipe.speech import SAMPLE_RATE, Unit
from seat.demo.recipe.vocabulary import FULL_STOP

FADE = 80
"""Samples: 5 ms of cross-fade where one word runs into the next, and of fading at every edge."""
RESAMPLING = "LQ"
"""soxr's quality for changing speed: this is augmentation, not mastering."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Word:
    """A word as it should be written, and where it is."""

    text: str
    """With its capital and its full stop."""
    start: float
    """Seconds."""
    end: float
    """Seconds."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Utterance:
    """Audio with its transcript."""

    samples: NDArray[np.float32]
    """16 kHz mono."""
    words: tuple[Word, ...]
    """In order; none for what is not speech."""

    @property
    def text(self) -> str:
        """The transcript."""
        return " ".join(word.text for word in self.words)

    @property
    def seconds(self) -> float:
        """Duration."""
        return len(self.samples) / SAMPLE_RATE


class Voice:
    """The units of one voice, by first word so that every word is drawn equally often."""

    def __init__(self, units: Sequence[Unit]) -> None:
        """Sort units."""
        self.singles: dict[str, list[Unit]] = defaultdict(list)
        self.phrases: list[Unit] = []
        for said in units:
            if len(said.marks) == 1:
                self.singles[said.marks[0][0]].append(said)
            else:
                self.phrases.append(said)
        self.known = tuple(self.singles)

    def draw(self, rng: np.random.Generator, longest: int, word: str | None = None) -> Unit:
        """Draw a unit of at most `longest` words; a phrase in four of ten draws, or the word asked for."""
        if word is None and self.phrases and longest > 1 and rng.random() < 0.4:
            said = self.phrases[rng.integers(len(self.phrases))]
            if len(said.marks) <= longest:
                return said
        takes = self.singles[word or self.known[rng.integers(len(self.known))]]
        return takes[rng.integers(len(takes))]


Voices = Mapping[str, Voice]


def voices(*banks: Bank) -> dict[str, Voice]:
    """Make the voices of several banks ready to draw from."""
    return {name: Voice(units) for bank in banks for name, units in bank.items()}


class Composer:
    """Strings units together, keeping account of where each word is."""

    def __init__(self, rng: np.random.Generator) -> None:
        """Begin with silence of no length."""
        self.rng = rng
        self._parts: list[NDArray[np.float32]] = []
        self._length = 0
        self._words: list[tuple[str, int, int]] = []

    @property
    def seconds(self) -> float:
        """How long the utterance is by now."""
        return self._length / SAMPLE_RATE

    def pause(self, seconds: float) -> None:
        """Append digital silence."""
        self._parts.append(np.zeros(round(seconds * SAMPLE_RATE), np.float32))
        self._length += len(self._parts[-1])

    def say(self, said: Unit, *, speed: float = 1.0, gain: float = 1.0) -> int:
        """Append a unit, running into what was said before if no pause lies between.

        Args:
            said: The unit.
            speed: Above 1 is faster and higher.
            gain: Factor on amplitudes.

        Returns:
            The number of words said.
        """
        samples = said.samples.astype(np.float32) * (gain / 32_768)
        if speed != 1.0:
            samples = soxr.resample(samples, SAMPLE_RATE * speed, SAMPLE_RATE, RESAMPLING)
        ramp = np.linspace(0, 1, FADE, dtype=np.float32)
        samples[:FADE] *= ramp
        samples[-FADE:] *= ramp[::-1]
        begin = self._length
        last = self._parts[-1] if self._parts else samples[:0]
        if len(last) > 4 * FADE and last[-FADE:].any():
            last[-FADE:] += samples[:FADE]
            samples = samples[FADE:]
            begin -= FADE
        self._words += [(word, begin + round(a / speed), begin + round(b / speed)) for word, a, b in said.marks]
        self._parts.append(samples)
        self._length += len(samples)
        return len(said.marks)

    def stop(self) -> None:
        """End the sentence."""
        first = max((i + 1 for i, word in enumerate(self._words) if word[0].endswith(FULL_STOP)), default=0)
        if first == len(self._words):
            return
        self._words[first] = (self._words[first][0].capitalize(), *self._words[first][1:])
        self._words[-1] = (self._words[-1][0] + FULL_STOP, *self._words[-1][1:])

    def utterance(self) -> Utterance:
        """Join everything."""
        return Utterance(
            samples=np.concatenate(self._parts) if self._parts else np.zeros(0, np.float32),
            words=tuple(
                Word(text=word, start=begin / SAMPLE_RATE, end=end / SAMPLE_RATE) for word, begin, end in self._words
            ),
        )


def sentence_pause(rng: np.random.Generator) -> float:
    """Draw a pause between sentences, in seconds: 0.7 to 1.5 mostly, up to 3 often, up to 8 at times."""
    longest = rng.choice([1.5, 3.0, 8.0], p=[0.6, 0.3, 0.1])
    return float(rng.uniform(0.7, longest))


def word_pause(rng: np.random.Generator) -> float:
    """Draw a pause inside a sentence, in seconds: none in a third of draws, else up to 0.4."""
    return 0.0 if rng.random() < 0.35 else float(rng.uniform(0.01, 0.4))


def compose(
    rng: np.random.Generator, speakers: Sequence[Voice], seconds: float, *, words: int = 15, vary: bool = True
) -> Utterance:
    """Compose an utterance of sentences, each by one of the speakers.

    Args:
        rng: Draws everything.
        speakers: Voices to draw from; one for each sentence.
        seconds: About how long it gets; it is ended by the first sentence that passes this.
        words: Most words of a sentence.
        vary: Change speed and loudness of each sentence, as for training.
    """
    made = Composer(rng)
    if rng.random() < 0.8:
        made.pause(rng.uniform(0.0, min(0.6, seconds / 4)))
    while True:
        speaker = speakers[int(rng.integers(len(speakers)))]
        speed = rng.uniform(0.85, 1.14) if vary else 1.0
        gain = 10 ** rng.uniform(-0.35, 0.0) if vary else 0.9
        wanted = int(min(words, rng.choice([1, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15])))
        count = 0
        while count < wanted and (not count or made.seconds < seconds):
            if count:
                pause = word_pause(rng)
                if pause:
                    made.pause(pause)
            own = gain * (10 ** rng.uniform(-0.15, 0.0) if vary else 1.0)
            pace = speed * (rng.uniform(0.96, 1.04) if vary else 1.0)
            count += made.say(speaker.draw(rng, wanted - count), speed=pace, gain=own)
        made.stop()
        if made.seconds >= seconds - 0.8:
            break
        made.pause(min(sentence_pause(rng), max(0.7, seconds - made.seconds)))
    if rng.random() < 0.75:
        made.pause(rng.uniform(0.0, 0.5))
    return made.utterance()
