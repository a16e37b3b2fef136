"""Write a transcript in the five formats of OpenAI's audio API. Knows their fields; no HTTP, no model."""

from __future__ import annotations

import math
import zlib
from collections.abc import Collection, Iterable
from typing import Any, Final, Literal

from seat.transcript import Segment, Transcript, Word

Format = Literal["json", "text", "srt", "vtt", "verbose_json"]
Granularity = Literal["word", "segment"]

FORMATS: Final[tuple[Format, ...]] = ("json", "text", "srt", "vtt", "verbose_json")
GRANULARITIES: Final[tuple[Granularity, ...]] = ("word", "segment")


def milliseconds(seconds: float) -> int:
    """A time as every answer tells it, rounded once: JSON and subtitles of one transcript agree."""
    return round(seconds * 1000)


def _seconds(seconds: float) -> float:
    return milliseconds(seconds) / 1000


def render(
    transcript: Transcript, response_format: Format, granularities: Collection[Granularity]
) -> str | dict[str, Any]:
    """The transcript in any format: text, or an object for JSON."""
    match response_format:
        case "json":
            return json(transcript)
        case "verbose_json":
            return verbose_json(transcript, granularities)
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


def verbose_json(transcript: Transcript, granularities: Collection[Granularity]) -> dict[str, Any]:
    """OpenAI's `TranscriptionVerbose` object.

    Args:
        transcript: What was said.
        granularities: 'word' adds ``words``, 'segment' adds ``segments``.
    """
    answer: dict[str, Any] = {
        "task": "transcribe",
        "language": transcript.language,
        "duration": _seconds(transcript.duration_s),
        "text": transcript.text,
    }
    if "segment" in granularities:
        answer["segments"] = [_segment(number, segment) for number, segment in enumerate(transcript.segments)]
    if "word" in granularities:
        answer["words"] = [_word(word) for word in transcript.words]
    return answer | {"usage": _usage(transcript)}


def _usage(transcript: Transcript) -> dict[str, Any]:
    """What a bill counts: whole seconds, rounded up as OpenAI does."""
    return {"type": "duration", "seconds": math.ceil(transcript.duration_s)}


def _word(word: Word) -> dict[str, Any]:
    return {
        "word": word.text,
        "start": _seconds(word.start_s),
        "end": _seconds(word.end_s),
        "confidence": round(word.confidence, 4),
    }


def _segment(number: int, segment: Segment) -> dict[str, Any]:
    written = segment.text.encode()
    return {
        "id": number,
        "seek": 0,
        "start": _seconds(segment.start_s),
        "end": _seconds(segment.end_s),
        "text": segment.text,
        "tokens": list(segment.tokens),
        "temperature": 0.0,
        "avg_logprob": round(segment.avg_logprob, 6),
        "compression_ratio": round(len(written) / len(zlib.compress(written)), 4),
        "no_speech_prob": 0.0,
    }


def srt(transcript: Transcript) -> str:
    """SubRip: numbered cues, one per segment; empty where nothing was said."""
    return "".join(
        f"{number}\n{timestamp(segment.start_s, ',')} --> {timestamp(segment.end_s, ',')}\n{segment.text}\n\n"
        for number, segment in enumerate(transcript.segments, start=1)
    )


def vtt(transcript: Transcript) -> str:
    """WebVTT: a header and one cue per segment."""
    return "\n".join(["WEBVTT\n", *_vtt_cues(transcript.segments)])


def _vtt_cues(segments: Iterable[Segment]) -> Iterable[str]:
    for segment in segments:
        yield f"{timestamp(segment.start_s, '.')} --> {timestamp(segment.end_s, '.')}\n{segment.text}\n"


def timestamp(seconds: float, decimal_mark: str) -> str:
    """Write a time as HH:MM:SS and milliseconds, rounded once and carried: 59.9996 is 00:01:00.000.

    Hours are always written: LiteLLM reads a duration from subtitles only where they are.
    """
    minutes, rest = divmod(milliseconds(seconds), 60_000)
    hours, minutes = divmod(minutes, 60)
    whole, thousandths = divmod(rest, 1000)
    return f"{hours:02}:{minutes:02}:{whole:02}{decimal_mark}{thousandths:03}"
