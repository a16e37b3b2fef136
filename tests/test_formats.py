"""The five formats, and the events of a stream."""

import json
import math
from datetime import timedelta
from html import unescape

import pytest
import srt
import webvtt
from hypothesis import given
from hypothesis import strategies as st

from seat import formats
from seat.transcript import Segment, Transcript, Word


def _transcript(*times: tuple[float, float], duration_s: float = 8.47) -> Transcript:
    segments = tuple(
        Segment(
            words=(Word(text=f"Word{number}.", start_s=start_s, end_s=end_s, confidence=0.98765),),
            tokens=(number, 2),
            avg_logprob=-0.125,
        )
        for number, (start_s, end_s) in enumerate(times)
    )
    return Transcript(segments=segments, duration_s=duration_s, language="en")


@pytest.mark.parametrize(
    "seconds, expected",
    [
        (0, "00:00:00,000"),
        (0.9995, "00:00:01,000"),
        (59.9996, "00:01:00,000"),
        (3599.9996, "01:00:00,000"),
        (3661.5, "01:01:01,500"),
        (0.0004, "00:00:00,000"),
        (360_000, "100:00:00,000"),
    ],
)
def test_a_time_is_rounded_once_and_carried(seconds: float, expected: str) -> None:
    """Never 60 seconds, never 1000 milliseconds, hours always written."""
    assert formats.timestamp(seconds, ",") == expected


@pytest.mark.parametrize("seconds", [85.1045, 0.0005, 2.0015, 59.9995])
def test_json_and_subtitles_tell_the_same_time(seconds: float) -> None:
    """At half a millisecond too: both are rounded by one function."""
    transcript = _transcript((seconds, seconds + 1))
    (segment,) = formats.verbose_json(transcript, {"segment"})["segments"]
    assert formats.timestamp(segment["start"], ",") == formats.timestamp(seconds, ",")


def test_json_is_the_text_and_what_a_bill_counts() -> None:
    """Seconds are whole and rounded up, as OpenAI counts them."""
    assert formats.json(_transcript((0, 1))) == {"text": "Word0.", "usage": {"type": "duration", "seconds": 9}}


def test_text_ends_with_a_line_feed() -> None:
    """As OpenAI sends it."""
    assert formats.text(_transcript((0, 1), (1, 2))) == "Word0. Word1.\n"


def test_srt_numbers_its_cues() -> None:
    """From 1, without gaps, comma before the milliseconds."""
    assert formats.srt(_transcript((0, 1.5), (3661.5, 3662))) == (
        "1\n00:00:00,000 --> 00:00:01,500\nWord0.\n\n2\n01:01:01,500 --> 01:01:02,000\nWord1.\n\n"
    )


def test_vtt_has_its_header() -> None:
    """A blank line before every cue, full stop before the milliseconds."""
    assert formats.vtt(_transcript((0, 1.5), (2, 3))) == (
        "WEBVTT\n\n00:00:00.000 --> 00:00:01.500\nWord0.\n\n00:00:02.000 --> 00:00:03.000\nWord1.\n"
    )


def test_nothing_said_is_nothing_written() -> None:
    """Silence is a right answer: empty text, no segments, no cue, and still its duration."""
    nothing = _transcript()
    assert formats.json(nothing)["text"] == ""
    assert formats.text(nothing) == "\n"
    assert formats.srt(nothing) == ""
    assert formats.vtt(nothing) == "WEBVTT\n"
    verbose = formats.verbose_json(nothing, {"word", "segment"})
    assert (verbose["text"], verbose["segments"], verbose["words"], verbose["duration"]) == ("", [], [], 8.47)


def test_a_verbose_segment_has_all_ten_fields() -> None:
    """OpenAI's schema requires every one of them, each a finite number or a string."""
    (segment,) = formats.verbose_json(_transcript((0.12345, 1)), {"segment"})["segments"]
    assert set(segment) == {
        "id",
        "seek",
        "start",
        "end",
        "text",
        "tokens",
        "temperature",
        "avg_logprob",
        "compression_ratio",
        "no_speech_prob",
    }
    assert segment["start"] == 0.123
    assert segment["tokens"] == [0, 2]
    assert all(math.isfinite(value) for value in segment.values() if isinstance(value, int | float))


@pytest.mark.parametrize(
    "granularities, expected",
    [
        ({"segment"}, {"segments"}),
        ({"word"}, {"words"}),
        ({"word", "segment"}, {"segments", "words"}),
    ],
)
def test_verbose_json_holds_the_granularities_asked_for(
    granularities: set[formats.Granularity], expected: set[str]
) -> None:
    """Words, segments, or both."""
    assert set(formats.verbose_json(_transcript((0, 1)), granularities)) & {"segments", "words"} == expected


def test_a_word_carries_its_confidence() -> None:
    """Gateways drop unknown keys at the top, and keep those within words."""
    (word,) = formats.verbose_json(_transcript((0, 1)), {"word"})["words"]
    assert word == {"word": "Word0.", "start": 0, "end": 1, "confidence": 0.9877}


def test_every_answer_is_json() -> None:
    """No NaN, no infinity."""
    json.dumps(formats.verbose_json(_transcript((0, 1)), {"word", "segment"}), allow_nan=False)


@st.composite
def _spoken(draw: st.DrawFn) -> Transcript:
    """Words with marks and with what subtitles have to escape, up to beyond an hour."""
    words, reached_s = [], draw(st.floats(0, 4000))
    for text in draw(st.lists(st.text("abcXY&<>.,-", min_size=1, max_size=9), min_size=1, max_size=40)):
        start_s = reached_s + draw(st.floats(0, 2))
        reached_s = start_s + draw(st.floats(0.08, 1.5))
        words.append(Word(text=text, start_s=start_s, end_s=reached_s, confidence=1.0))
    segment = Segment(words=tuple(words), tokens=(1,), avg_logprob=0.0)
    return Transcript(segments=(segment,), duration_s=reached_s, language="en")


@given(transcript=_spoken())
def test_others_read_our_subtitles(transcript: Transcript) -> None:
    """Two libraries find the same cues in both formats: all words, the same times to the millisecond, in order."""
    from_srt = list(srt.parse(formats.srt(transcript), ignore_errors=False))
    from_vtt = webvtt.from_string(formats.vtt(transcript)).captions
    assert " ".join(cue.content.replace("\n", " ") for cue in from_srt) == transcript.text
    assert [cue.content for cue in from_srt] == [unescape(caption.raw_text) for caption in from_vtt]
    assert [cue.index for cue in from_srt] == list(range(1, len(from_srt) + 1))
    for cue, caption in zip(from_srt, from_vtt, strict=True):
        assert (cue.start, cue.end) == (_time(caption.start), _time(caption.end))
        assert cue.start < cue.end


def _time(written: str) -> timedelta:
    hours, minutes, seconds = written.split(":")
    return timedelta(hours=int(hours), minutes=int(minutes), milliseconds=round(float(seconds) * 1000))
