"""What a client of the realtime API can set up."""

from typing import Any

import pytest

from seat.errors import InvalidEvent, ModelNotFound, UnsupportedValue
from seat.vad import Turns
from seat.web.realtime_config import LOGPROBS, Config

SERVED = ("demo", "whisper-1")
DEFAULT = Config.of_model("demo", SERVED)


TURNS = "session.audio.input.turn_detection"


def today(**heard: Any) -> dict[str, Any]:
    """A session object with these fields below 'audio.input'."""
    return {"type": "transcription", "audio": {"input": heard}}


def test_what_is_not_named_stays() -> None:
    """And null is a value where there is one: no turn detection, no language."""
    assert DEFAULT.updated({}, "today", SERVED) == DEFAULT
    assert DEFAULT.updated(today(), "today", SERVED) == DEFAULT
    assert DEFAULT.turns == Turns()
    changed = DEFAULT.updated(
        today(transcription={"model": "whisper-1", "language": "en", "prompt": "Names."}, turn_detection=None),
        "today",
        SERVED,
    )
    assert (changed.model, changed.language, changed.prompt, changed.turns) == ("whisper-1", "en", "Names.", None)
    again = changed.updated(today(transcription={"language": None}), "today", SERVED)
    assert (again.model, again.language, again.prompt, again.turns) == ("whisper-1", None, "Names.", None)


@pytest.mark.parametrize(
    "written, encoding, rate",
    [
        ({"type": "audio/pcm", "rate": 24_000}, "pcm16", 24_000),
        ({"type": "audio/pcm", "rate": 16_000}, "pcm16", 16_000),
        ({"type": "audio/pcm"}, "pcm16", 24_000),
        ({"type": "audio/pcmu"}, "pcmu", 8_000),
        ({"type": "audio/pcma"}, "pcma", 8_000),
        ("g711_ulaw", "pcmu", 8_000),
    ],
)
def test_formats(written: Any, encoding: str, rate: int) -> None:
    """Linear samples at several rates, and both of telephony's laws."""
    changed = DEFAULT.updated(today(format=written), "today", SERVED)
    assert (changed.encoding, changed.rate) == (encoding, rate)


def test_the_older_names_mean_the_same() -> None:
    """Flat, with formats of their own names."""
    older = {
        "input_audio_format": "g711_alaw",
        "input_audio_transcription": {"model": "whisper-1", "prompt": ""},
        "turn_detection": {"type": "server_vad", "threshold": 0.25, "silence_duration_ms": 700},
        "include": [LOGPROBS],
    }
    changed = DEFAULT.updated(older, "older", SERVED)
    assert (changed.encoding, changed.rate, changed.model, changed.logprobs) == ("pcma", 8_000, "whisper-1", True)
    assert changed.turns == Turns(threshold=0.25, silence_s=0.7)
    described = changed.described_as_older("sess_1", None)
    assert described["input_audio_format"] == "g711_alaw"
    assert described["turn_detection"]["silence_duration_ms"] == 700


def test_what_is_described_can_be_sent_back() -> None:
    """In both dialects."""
    changed = DEFAULT.updated(
        {**today(format={"type": "audio/pcmu"}, turn_detection=None), "include": [LOGPROBS]}, "today", SERVED
    )
    assert DEFAULT.updated(changed.described("sess_1", 5), "today", SERVED) == changed
    assert DEFAULT.updated(changed.described_as_older("sess_1", 5), "older", SERVED) == changed


@pytest.mark.parametrize(
    "session, param",
    [
        ({"type": "realtime"}, "session.type"),
        (today(format={"type": "audio/opus"}), "session.audio.input.format.type"),
        (today(format={"type": "audio/pcm", "rate": 11_025}), "session.audio.input.format.rate"),
        (today(format=7), "session.audio.input.format"),
        (today(turn_detection={"type": "semantic_vad"}), f"{TURNS}.type"),
        (today(turn_detection={"threshold": 2}), f"{TURNS}.threshold"),
        (today(turn_detection={"silence_duration_ms": "long"}), f"{TURNS}.silence_duration_ms"),
        (today(turn_detection={"prefix_padding_ms": float("nan")}), f"{TURNS}.prefix_padding_ms"),
        (today(transcription={"model": "large-v3"}), "model"),
        (today(transcription="whisper-1"), "session.audio.input.transcription"),
        ({"include": ["everything"]}, "session.include"),
        ({"audio": []}, "session.audio"),
        ("transcription", "session"),
    ],
)  # fmt: skip
def test_what_is_not_known_is_refused_by_name(session: Any, param: str) -> None:
    """Each fault names its field, and nothing is changed."""
    with pytest.raises((UnsupportedValue, InvalidEvent, ModelNotFound)) as refusal:
        DEFAULT.updated(session, "today", SERVED)
    assert refusal.value.param == param
