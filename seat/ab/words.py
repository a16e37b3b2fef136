"""Count wrong words, both sides by one measure. Knows Whisper's English normaliser and word errors; no server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import jiwer
import numpy as np
from whisper_normalizer.english import EnglishTextNormalizer

from seat.ab.statistics import RESAMPLES, SEED, Estimate, estimate


@dataclass(frozen=True, kw_only=True, slots=True)
class Errors:
    """Wrong words of one text."""

    wrong: int
    """Substitutions, deletions and insertions."""
    words: int
    """Words that were said."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Accuracy:
    """How right two sides are, over all clips of which it is known what is said."""

    words: int
    """Words that were said."""
    a_wer: float
    """A's word error rate, 0 to 1 and beyond."""
    b_wer: float
    """B's."""
    difference: Estimate
    """A's less B's; clips are resampled."""
    same: int
    """Clips for which both say the same words."""
    clips: int
    """Clips in all."""

    @property
    def verdict(self) -> str:
        """What this says, in words."""
        if self.difference.holds(0.0):
            return "no difference shown"
        return "A is more accurate" if self.difference.value < 0 else "B is more accurate"


def normalised(text: str) -> str:
    """Lower case, without punctuation, numbers as digits, British spelling made American."""
    return str(EnglishTextNormalizer()(text))  # made in 0.5 ms, about what it then takes


def errors(said: str, heard: str) -> Errors:
    """Count what is wrong in a text; where nothing was said, every word that was heard."""
    reference, hypothesis = normalised(said), normalised(heard)
    if not reference:
        return Errors(wrong=len(hypothesis.split()), words=0)
    counted = jiwer.process_words(reference, hypothesis)
    return Errors(wrong=counted.substitutions + counted.deletions + counted.insertions, words=len(reference.split()))


def accuracy(said: Mapping[int, str], a: Mapping[int, str], b: Mapping[int, str]) -> Accuracy | None:
    """Compare what both sides heard in the same clips.

    Args:
        said: What is said, by the clip's number; clips that are not here do not count.
        a: What A heard, by the clip's number.
        b: What B heard.

    Returns:
        The comparison; None where nothing is known to be said.
    """
    counts = np.array(
        [[(e := errors(text, side[clip])).wrong, e.words] for side in (a, b) for clip, text in said.items()]
    )
    if not said or not counts[:, 1].sum():
        return None
    of_a, of_b = np.split(counts, 2)
    drawn = np.random.default_rng(SEED)
    chosen = [drawn.integers(len(said), size=len(said)) for _ in range(RESAMPLES)]
    resamples = [_rate(of_a[rows]) - _rate(of_b[rows]) for rows in chosen]
    return Accuracy(
        words=int(of_a[:, 1].sum()),
        a_wer=_rate(of_a),
        b_wer=_rate(of_b),
        difference=estimate(_rate(of_a) - _rate(of_b), resamples),
        same=_same([a[clip] for clip in said], [b[clip] for clip in said]),
        clips=len(said),
    )


def _rate(counts: np.ndarray) -> float:
    wrong, words = counts.sum(axis=0)
    return float(wrong / max(words, 1))


def _same(a: Sequence[str], b: Sequence[str]) -> int:
    return sum(normalised(one) == normalised(other) for one, other in zip(a, b, strict=True))
