"""Check the fields of a transcription's form. Knows OpenAI's names and how clients write them; no audio, no HTTP."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from pydantic import BaseModel, Field, ValidationError

from seat import languages
from seat.errors import InvalidValue, MissingField, ModelNotFound, UnsupportedValue
from seat.formats import FORMATS, GRANULARITIES, STREAMED, Format, Granularity
from seat.voice import AUTO, Chunking
from seat.web.forms import Form

CHUNKING: Final = "chunking_strategy"
"""A field that is a word, an object in JSON, or an object with a field for each of its keys."""

INCLUDES: Final = ("logprobs",)
"""What may be added to an answer."""

SWITCHES: Final = {"true": True, "1": True, "false": False, "0": False}
"""How clients write a boolean, in any case."""

LONGEST_MS: Final = 60_000
"""Milliseconds that a key of `ServerVad` may have; a minute is far beyond what anybody pauses for."""


class ServerVad(BaseModel):
    """How a client cuts audio by speech and silence itself; the defaults are OpenAI's."""

    type: Literal["server_vad"]
    threshold: float = Field(0.5, ge=0, le=1)
    """How loud speech is, within the file's own range."""
    prefix_padding_ms: int = Field(300, ge=0, le=LONGEST_MS)
    """What is heard before speech."""
    silence_duration_ms: int = Field(200, ge=0, le=LONGEST_MS)
    """Silence that ends a stretch of speech."""


FIELDS: Final = frozenset(
    {
        "model",
        "language",
        "response_format",
        "timestamp_granularities",
        "include",
        "stream",
        CHUNKING,
        *(f"{CHUNKING}[{key}]" for key in ServerVad.model_fields),
    }
)
"""Fields that change the answer; others are read past."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """What the client asked for, checked."""

    model: str
    """The name by which it called the model."""
    language: str
    """ISO 639-1 code for the answer."""
    response_format: Format
    """The form of the answer; of no effect where it is streamed."""
    granularities: frozenset[Granularity]
    """What has times in 'verbose_json'."""
    stream: bool
    """Whether words are sent as they are settled."""
    with_logprobs: bool
    """Whether tokens with their logarithms are added where the form has a place for them."""
    chunking: Chunking | None
    """How to cut by speech and silence; None for windows that tile the audio."""


def parse(form: Form, served_models: Collection[str], spoken: Sequence[str]) -> Options:
    """Check the fields of a form.

    Args:
        form: As it was sent.
        served_models: Names that the model goes by.
        spoken: ISO 639-1 codes of what it speaks, at least one.

    Raises:
        MissingField: No model is named.
        ModelNotFound: The model is not served here.
        UnsupportedValue: A format, language or other name is not known.
        InvalidValue: A number is not one that makes sense.
    """
    model = form.last("model")
    if model is None:
        raise MissingField(param="model")
    if model not in served_models:
        raise ModelNotFound(model=model, served=served_models)
    language = languages.chosen(form.last("language"), spoken)
    if language is None:
        raise UnsupportedValue(param="language", value=form.last("language") or "", supported=spoken)
    response_format = form.last("response_format") or "json"
    _refuse_others({response_format}, "response_format", FORMATS)
    granularities = frozenset(_listed(form, "timestamp_granularities")) or {"segment"}
    _refuse_others(granularities, "timestamp_granularities", GRANULARITIES)
    include = frozenset(_listed(form, "include"))
    _refuse_others(include, "include", INCLUDES)
    stream = (form.last("stream") or "false").lower()
    _refuse_others({stream}, "stream", SWITCHES)
    if SWITCHES[stream]:
        _refuse_others({response_format}, "response_format", STREAMED, beside="stream")
    return Options(
        model=model,
        language=language,
        response_format=cast("Format", response_format),
        granularities=cast("frozenset[Granularity]", granularities),
        stream=SWITCHES[stream],
        with_logprobs="logprobs" in include,
        chunking=_chunking(form),
    )


def _refuse_others(values: Collection[str], param: str, supported: Iterable[str], beside: str | None = None) -> None:
    for value in sorted(set(values) - set(supported)):
        raise UnsupportedValue(param=param, value=value, supported=supported, beside=beside)


def _chunking(form: Form) -> Chunking | None:
    whole = form.last(CHUNKING)
    keys: Any = {key: form.last(f"{CHUNKING}[{key}]") for key in ServerVad.model_fields}
    keys = {key: value for key, value in keys.items() if value is not None}
    if whole is None and not keys:
        return None
    if whole is not None:
        keys = _from_json(whole)
    if keys == "auto":
        return AUTO
    if keys == "server_vad":
        keys = {"type": keys}
    kind = keys.get("type") if isinstance(keys, dict) else whole
    if kind != "server_vad":
        raise UnsupportedValue(param=CHUNKING, value=str(kind), supported=("auto", "server_vad"))
    try:
        vad = ServerVad.model_validate(keys)
    except ValidationError as fault:
        first = fault.errors(include_url=False)[0]
        raise InvalidValue(param=CHUNKING, reason=f"'{first['loc'][0]}': {first['msg']}") from fault
    return Chunking(
        threshold=vad.threshold,
        padding_s=vad.prefix_padding_ms / 1000,
        silence_s=vad.silence_duration_ms / 1000,
        packed=False,
    )


def _listed(form: Form, name: str) -> Iterable[str]:
    """Read a list however clients write one: repeated fields, a JSON array, or commas."""
    for value in form.fields.get(name, ()):
        items = _from_json(value) if value.startswith("[") else value.split(",")
        names = (str(item).strip() for item in (items if isinstance(items, list) else [items]))
        yield from (name for name in names if name)


def _from_json(written: str) -> Any:  # noqa: ANN401  anything may be in it
    """What some JSON says; the writing itself where it is none: no JSON, too many digits, too deep."""
    try:
        return json.loads(written)
    except (ValueError, RecursionError):
        return written
