"""Cut a transcript into subtitles. Knows words and how much a viewer can read at once; no file format.

A cue is a sentence, or what stands between two pauses. What is too much for one cue is cut where speech allows it best.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from seat.transcript import SENTENCE_ENDS, Word

LONGEST_S: Final = 7.0
"""Seconds for which a cue stands at most; as in the guides of broadcasters and Netflix."""

LINE_CHARACTERS: Final = 42
"""Characters in a line at most; a longer word has a line of its own. From the same guides."""

LINES: Final = 2
"""Lines in a cue at most."""

PAUSE_S: Final = 1.0
"""Seconds of silence that end a cue."""

CLAUSE_ENDS: Final = (",", ";", ":")
"""Last characters of a word behind which a sentence is cut if it must be."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cue:
    """What is shown at a time."""

    start_s: float
    """When its first word begins, in seconds."""
    end_s: float
    """When its last word ends."""
    lines: tuple[str, ...]
    """One line, or two."""


def cues(words: Sequence[Word]) -> list[Cue]:
    """Cut words, in order of time, into cues that can be read."""
    return [_cue(part) for phrase in _phrases(words) for part in _readable(phrase)]


def _phrases(words: Sequence[Word]) -> Iterator[Sequence[Word]]:
    """Words between sentence ends and pauses."""
    begin = 0
    for place, (word, following) in enumerate(pairwise(words), start=1):
        if word.text.endswith(SENTENCE_ENDS) or following.start_s - word.end_s >= PAUSE_S:
            yield words[begin:place]
            begin = place
    if words:
        yield words[begin:]


def _readable(words: Sequence[Word]) -> Iterator[Sequence[Word]]:
    """Parts of a phrase that each fit a cue; from left to right."""
    parts = [words]
    while parts:
        part = parts.pop()
        if len(part) == 1 or (part[-1].end_s - part[0].start_s <= LONGEST_S and len(_lines(part)) <= LINES):
            yield part
        else:
            place = _best_cut(part)
            parts += [part[place:], part[:place]]


def _best_cut(words: Sequence[Word]) -> int:
    """Where to cut, in the middle half: behind a clause, else at the longest pause, else nearest to the middle."""
    middle, reach = len(words) / 2, len(words) / 4

    def quality(place: int) -> tuple[bool, float, float]:
        before, behind = words[place - 1], words[place]
        return before.text.endswith(CLAUSE_ENDS), behind.start_s - before.end_s, -abs(place - middle)

    inside = (place for place in range(1, len(words)) if abs(place - middle) <= reach)
    return max(inside, key=quality)


def _cue(words: Sequence[Word]) -> Cue:
    return Cue(start_s=words[0].start_s, end_s=words[-1].end_s, lines=tuple(_lines(words)))


def _lines(words: Sequence[Word]) -> list[str]:
    """One line where it is enough; two of about one length where they are; else as many as it takes."""
    texts = [word.text for word in words]
    if _width(texts) <= LINE_CHARACTERS:
        return [" ".join(texts)]
    breaks = [(texts[:place], texts[place:]) for place in range(1, len(texts))]
    fitting = [pair for pair in breaks if max(map(_width, pair)) <= LINE_CHARACTERS]
    if fitting:
        return [" ".join(line) for line in min(fitting, key=lambda pair: abs(_width(pair[0]) - _width(pair[1])))]
    return texts


def _width(texts: Iterable[str]) -> int:
    return len(" ".join(texts))
