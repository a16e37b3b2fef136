"""Write a transcript in the formats of OpenAI's audio API, and its stream. Knows their fields; no HTTP, no model."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from html import escape
from typing import Any, Final, Literal

from seat.cues import Cue, cues
from seat.transcript import Segment, Transcript, Word

Task = Literal["transcribe", "translate"]
Format = Literal["json", "text", "srt", "vtt", "verbose_json"]
Granularity = Literal["word", "segment"]

FORMATS: Final[tuple[Format, ...]] = ("json", "text", "srt", "vtt", "verbose_json")
STREAMED: Final[tuple[Format, ...]] = ("json", "text", "verbose_json")
"""Formats for which a stream of text is an answer; cues are not made of deltas."""
GRANULARITIES: Final[tuple[Granularity, ...]] = ("word", "segment")


def milliseconds(seconds: float) -> int:
    """A time as every answer tells it, rounded once: JSON and subtitles of one transcript agree."""
    return round(seconds * 1000)


def rounded(seconds: float) -> float:
    """The same, in seconds."""
    return milliseconds(seconds) / 1000


def render(
    transcript: Transcript,
    response_format: Format,
    granularities: Collection[Granularity],
    *,
    task: Task = "transcribe",
    with_logprobs: bool = False,
) -> str | dict[str, Any]:
    """The transcript in any format: text, or an object for JSON, to which the tokens' logarithms may be added."""
    match response_format:
        case "json":
            return json(transcript) | (logprobs(transcript.words) if with_logprobs else {})
        case "verbose_json":
            answer = verbose_json(transcript, granularities, task=task)
            return answer | (logprobs(transcript.words) if with_logprobs else {})
        case "text":
            return text(transcript)
        case "srt":
            return srt(transcript)
        case "vtt":
            return vtt(transcript)


def text(transcript: Transcript) -> str:
    """The words on one line, with a line feed at the end as OpenAI sends it."""
    return transcript.text + "\n"


def json(transcript: Transcript) -> dict[str, Any]:
    """OpenAI's `Transcription` object."""
    return {"text": transcript.text, "usage": _usage(transcript)}


def verbose_json(
    transcript: Transcript, granularities: Collection[Granularity], *, task: Task = "transcribe"
) -> dict[str, Any]:
    """OpenAI's `TranscriptionVerbose` object.

    Args:
        transcript: What was said.
        granularities: 'word' adds ``words``, 'segment' adds ``segments``.
        task: What was asked for.
    """
    answer: dict[str, Any] = {
        "task": task,
        "language": transcript.language,
        "duration": rounded(transcript.duration_s),
        "text": transcript.text,
    }
    if "segment" in granularities:
        answer["segments"] = [_segment(number, segment) for number, segment in enumerate(transcript.segments)]
    if "word" in granularities:
        answer["words"] = [timed(word) for word in transcript.words]
    return answer | {"usage": _usage(transcript)}


def _usage(transcript: Transcript) -> dict[str, Any]:
    """What a bill counts: whole seconds, rounded up as OpenAI does."""
    return {"type": "duration", "seconds": math.ceil(transcript.duration_s)}


def timed(word: Word) -> dict[str, Any]:
    """A word with its times, as every answer tells it."""
    return {
        "word": word.text,
        "start": rounded(word.start_s),
        "end": rounded(word.end_s),
        "confidence": round(word.confidence, 4),
    }


def _segment(number: int, segment: Segment) -> dict[str, Any]:
    written = segment.text.encode()
    return {
        "id": number,
        "seek": 0,
        "start": rounded(segment.start_s),
        "end": rounded(segment.end_s),
        "text": segment.text,
        "tokens": list(segment.tokens),
        "temperature": 0.0,
        "avg_logprob": round(segment.avg_logprob, 6),
        "compression_ratio": round(len(written) / len(zlib.compress(written)), 4),
        "no_speech_prob": 0.0,
    }


def delta(words: Sequence[Word], *, first: bool, with_logprobs: bool) -> dict[str, Any]:
    """The event of a stream that brings the next words; all of them joined are the text."""
    more = logprobs(words, first=first) if with_logprobs else {}
    written = " ".join(word.text for word in words)
    return {"type": "transcript.text.delta", "delta": written if first else " " + written} | more


def done(transcript: Transcript, *, with_logprobs: bool) -> dict[str, Any]:
    """The event of a stream that ends it: the whole text, and what a bill counts."""
    more = logprobs(transcript.words) if with_logprobs else {}
    return {"type": "transcript.text.done", "text": transcript.text, "usage": _usage(transcript)} | more


def logprobs(words: Iterable[Word], *, first: bool = True) -> dict[str, Any]:
    """The key ``logprobs``: tokens that joined are the text, with the logarithms of their probabilities.

    Args:
        words: At least some of a transcript's, one behind the other.
        first: Whether they begin the transcript; else a space stands before them.
    """
    rows = []
    for number, word in enumerate(words):
        for place, token in enumerate(word.tokens):
            written = " " + token.text if place == 0 and not (first and number == 0) else token.text
            rows.append({"token": written, "logprob": round(token.logprob, 6), "bytes": list(written.encode())})
    return {"logprobs": rows}


def srt(transcript: Transcript) -> str:
    """SubRip: numbered cues; empty where nothing was said."""
    numbered = enumerate(cues(transcript.words), start=1)
    return "".join(f"{number}\n{_shown(cue, ',')}\n\n" for number, cue in numbered)


def vtt(transcript: Transcript) -> str:
    """WebVTT: a header and cues, in whose text '&', '<' and '>' have to be escaped."""
    return "\n".join(
        ["WEBVTT\n", *(_shown(cue, ".", partial(escape, quote=False)) + "\n" for cue in cues(transcript.words))]
    )


def _shown(cue: Cue, decimal_mark: str, write: Callable[[str], str] = str) -> str:
    times = f"{timestamp(cue.start_s, decimal_mark)} --> {timestamp(cue.end_s, decimal_mark)}"
    return "\n".join([times, *map(write, cue.lines)])


def timestamp(seconds: float, decimal_mark: str) -> str:
    """Write a time as HH:MM:SS and milliseconds, rounded once and carried: 59.9996 is 00:01:00.000.

    Hours are always written: LiteLLM reads a duration from subtitles only where they are.
    """
    minutes, rest = divmod(milliseconds(seconds), 60_000)
    hours, minutes = divmod(minutes, 60)
    whole, thousandths = divmod(rest, 1000)
    return f"{hours:02}:{minutes:02}:{whole:02}{decimal_mark}{thousandths:03}"
