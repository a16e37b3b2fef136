"""What a transcription is made of. Knows words and seconds; no audio, no model, no wire format."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

SENTENCE_ENDS: Final = (".", "?", "!")
"""Last characters of a word after which a segment ends, as NeMo ends one."""

LEAST_PROBABILITY: Final = 1e-10
"""Floor under a logarithm: a probability that rounds to zero must not become minus infinity."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Token:
    """One piece of a word, as the model emitted it."""

    number: int
    """Its place in the vocabulary."""
    text: str
    """Its letters, without the mark that begins a word; may be empty."""
    probability: float
    """How sure the model was, 0 to 1."""

    @property
    def logprob(self) -> float:
        """Natural logarithm of the probability; finite, at most 0."""
        return min(0.0, math.log(max(self.probability, LEAST_PROBABILITY)))


@dataclass(frozen=True, kw_only=True, slots=True)
class Word:
    """One spoken word, with the punctuation that belongs to it."""

    text: str
    """The word as written, without surrounding white space."""
    start_s: float
    """Where it begins, in seconds from the start of the audio."""
    end_s: float
    """Where it ends, in seconds; greater than ``start_s``."""
    confidence: float
    """Mean of its tokens' probabilities, 0 to 1."""
    tokens: tuple[Token, ...] = ()
    """What it was made of: together their letters are its text."""

    @property
    def middle_s(self) -> float:
        """Halfway between start and end, in seconds."""
        return (self.start_s + self.end_s) / 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Segment:
    """One sentence, or what stands between two sentence ends."""

    words: tuple[Word, ...]
    """At least one word, in order of time."""
    tokens: tuple[int, ...]
    """The vocabulary's numbers of the words' tokens."""
    avg_logprob: float
    """Mean natural logarithm of the tokens' probabilities; at most 0."""

    @property
    def text(self) -> str:
        """The words with single spaces between them."""
        return " ".join(word.text for word in self.words)

    @property
    def start_s(self) -> float:
        """Where the first word begins, in seconds."""
        return self.words[0].start_s

    @property
    def end_s(self) -> float:
        """Where the last word ends, in seconds."""
        return self.words[-1].end_s


@dataclass(frozen=True, kw_only=True, slots=True)
class Transcript:
    """What was said in one file."""

    segments: tuple[Segment, ...]
    """In order of time; empty where nothing was said."""
    duration_s: float
    """Length of the decoded audio in seconds, from its samples; never from a header."""
    language: str
    """ISO 639-1 code."""

    @property
    def words(self) -> tuple[Word, ...]:
        """All words, in order of time."""
        return tuple(word for segment in self.segments for word in segment.words)

    @property
    def text(self) -> str:
        """The whole text on one line."""
        return " ".join(segment.text for segment in self.segments)


@dataclass(frozen=True, kw_only=True, slots=True)
class Timings:
    """What one request took of the model; travels with the result and is recorded once."""

    audio_s: float
    """Length of the decoded audio in seconds."""
    queue_s: float
    """Seconds between submission and the start of the first batch that held one of its windows."""
    inference_s: float
    """Seconds from the start of that first batch to the end of the last."""
    windows: int
    """Windows the audio was cut into."""
    batch_sizes: tuple[int, ...]
    """How many windows each of its batches held, neighbours' included; one number a window."""
    peak_nbytes: int
    """What the process took at most while its windows ran, in bytes; 0 where none did."""
    rest_nbytes: int
    """What the process took once the last of its batches had ended and unused memory was given back, in bytes."""
