"""Fields of a form, however clients write them."""

import io
from typing import Any

import pytest

from seat.errors import InvalidValue, UnsupportedValue
from seat.voice import AUTO, Chunking
from seat.web.forms import Form
from seat.web.options import Options, parse


def _parsed(**fields: Any) -> Options:
    given = {"model": ["demo"]} | {
        name: value if isinstance(value, list) else [value] for name, value in fields.items()
    }
    return parse(Form(file=io.BytesIO(), fields=given), ["demo"], ["en"])


def _vad(**keys: str) -> dict[str, str]:
    return {f"chunking_strategy[{key}]": value for key, value in keys.items()}


@pytest.mark.parametrize(
    "written, stream", [("true", True), ("True", True), ("1", True), ("false", False), ("0", False)]
)
def test_a_switch_is_read_however_it_is_written(written: str, stream: bool) -> None:  # noqa: FBT001
    """By the SDK, by Python's str(), by hand."""
    assert _parsed(stream=written).stream is stream


def test_without_fields_there_are_defaults() -> None:
    """Also where a client sends empty ones."""
    empty = _parsed(stream="", language="", response_format="", chunking_strategy="", include="")
    assert empty == _parsed()
    assert (empty.response_format, empty.stream, empty.with_logprobs, empty.chunking) == ("json", False, False, None)


@pytest.mark.parametrize("include", ["logprobs", '["logprobs"]', ["logprobs", "logprobs"]])
def test_logprobs_can_be_asked_for(include: Any) -> None:
    """Once, repeated, as JSON."""
    assert _parsed(include=include).with_logprobs


DEFAULTS = Chunking(threshold=0.5, padding_s=0.3, silence_s=0.2, packed=False)
CHOSEN = Chunking(threshold=0.25, padding_s=0.1, silence_s=0.7, packed=False)


@pytest.mark.parametrize(
    "fields, chunking",
    [
        ({"chunking_strategy": "auto"}, AUTO),
        ({"chunking_strategy": '"auto"'}, AUTO),
        ({"chunking_strategy": '{"type": "server_vad"}'}, DEFAULTS),
        ({"chunking_strategy": "server_vad"}, DEFAULTS),
        ({"chunking_strategy": '"server_vad"'}, DEFAULTS),
        (_vad(type="server_vad"), DEFAULTS),
        (_vad(type="server_vad", threshold="0.25", prefix_padding_ms="100", silence_duration_ms="700"), CHOSEN),
        (
            {
                "chunking_strategy": '{"type": "server_vad", "threshold": 0.25, "prefix_padding_ms": 100, '
                '"silence_duration_ms": 700, "more": 1}'
            },
            CHOSEN,
        ),
    ],
)
def test_a_chunking_strategy_is_a_word_or_an_object(fields: dict[str, str], chunking: Chunking) -> None:
    """In brackets as the SDK sends it, or as JSON as people write it; OpenAI's defaults."""
    assert _parsed(**fields).chunking == chunking


@pytest.mark.parametrize(
    "fields, param",
    [
        ({"chunking_strategy": "vad"}, "chunking_strategy"),
        ({"chunking_strategy": "null"}, "chunking_strategy"),
        ({"chunking_strategy": "[1]"}, "chunking_strategy"),
        ({"chunking_strategy": '{"type": "semantic_vad"}'}, "chunking_strategy"),
        (_vad(type="auto"), "chunking_strategy"),
        (_vad(threshold="0.5"), "chunking_strategy"),
        ({"language": "de"}, "language"),
        ({"include": "usage"}, "include"),
        ({"include": ["logprobs", "x"]}, "include"),
        ({"stream": "yes please"}, "stream"),
        ({"stream": "true", "response_format": "srt"}, "response_format"),
        ({"stream": "true", "response_format": "vtt"}, "response_format"),
        ({"response_format": "diarized_json"}, "response_format"),
    ],
)
def test_what_is_not_known_is_named(fields: dict[str, Any], param: str) -> None:
    """The error says which field."""
    with pytest.raises(UnsupportedValue) as refusal:
        _parsed(**fields)
    assert refusal.value.param == param


@pytest.mark.parametrize(
    "keys",
    [
        {"threshold": "1.5"},
        {"threshold": "-0.1"},
        {"threshold": "nan"},
        {"threshold": "inf"},
        {"threshold": "loud"},
        {"prefix_padding_ms": "-1"},
        {"prefix_padding_ms": "1.5"},
        {"silence_duration_ms": "60001"},
        {"silence_duration_ms": "1" * 5000},
    ],
)
def test_a_number_that_makes_no_sense_is_refused(keys: dict[str, str]) -> None:
    """The error names the field, its sentence the key."""
    with pytest.raises(InvalidValue, match=next(iter(keys))) as refusal:
        _parsed(**_vad(type="server_vad", **keys))
    assert refusal.value.param == "chunking_strategy"
