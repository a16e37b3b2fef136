"""POST /v1/audio/transcriptions: parse, call, render. Knows OpenAI's form fields; no audio, no model."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from litestar import MediaType, Request, Response, post
from litestar.di import NamedDependency

from seat import formats
from seat.errors import MissingField, ModelNotFound, UnsupportedValue
from seat.formats import FORMATS, GRANULARITIES, Format, Granularity
from seat.service import Service
from seat.settings import Settings
from seat.telemetry import note, stage
from seat.transcript import Transcript
from seat.web.disconnect import unless_disconnected
from seat.web.forms import Form, read_form

FIELDS: Final = frozenset({"model", "response_format", "timestamp_granularities"})
"""Fields that change the answer; ``language``, ``prompt``, ``temperature`` and unknown ones have no effect."""

READ_TIMEOUT: Final = "x-stainless-read-timeout"
"""Header in which the openai SDK tells its own deadline, in seconds."""

MEDIA_TYPES: Final[dict[Format, str]] = {
    "json": MediaType.JSON,
    "verbose_json": MediaType.JSON,
    "text": "text/plain",
    "srt": "text/plain",
    "vtt": "text/vtt",
}
"""Content types as OpenAI sends them; Litestar adds the character set to texts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """What the client asked for, checked."""

    response_format: Format
    granularities: frozenset[Granularity]


@post("/v1/audio/transcriptions", status_code=200)
async def create_transcription(
    request: Request[Any, Any, Any], service: NamedDependency[Service], settings: NamedDependency[Settings]
) -> Response[Any]:
    """Transcribe the audio file of a multipart form."""
    service.open_transcriber()
    async with read_form(request, FIELDS, limit_mib=settings.max_upload_mib, pause_s=settings.deadline_s) as form:
        options = parse(form, settings.served_models)
        transcribing = service.transcribe(form.file, deadline_s=client_deadline_s(request.headers))
        transcript = await unless_disconnected(request.receive, transcribing)
    with stage("render"):
        return await asyncio.to_thread(render, transcript, options)


def client_deadline_s(headers: Mapping[str, str]) -> float:
    """Seconds that the openai SDK says it waits for an answer; infinite where the client says nothing sensible."""
    try:
        seconds = float(headers.get(READ_TIMEOUT, "inf"))
    except ValueError:
        return math.inf
    return seconds if seconds > 0 else math.inf


def parse(form: Form, served_models: Collection[str]) -> Options:
    """Check the fields of a form.

    Raises:
        MissingField: No model is named.
        ModelNotFound: The model is not served here.
        UnsupportedValue: A format or granularity is not known.
    """
    model = form.last("model")
    if model is None:
        raise MissingField(param="model")
    if model not in served_models:
        raise ModelNotFound(model=model, served=served_models)
    response_format = form.last("response_format") or "json"
    if response_format not in FORMATS:
        raise UnsupportedValue(param="response_format", value=response_format, supported=FORMATS)
    granularities = frozenset(_listed(form.fields.get("timestamp_granularities", ()))) or {"segment"}
    for granularity in granularities - set(GRANULARITIES):
        raise UnsupportedValue(param="timestamp_granularities", value=granularity, supported=GRANULARITIES)
    note(model=model, response_format=response_format)
    return Options(response_format=response_format, granularities=cast("frozenset[Granularity]", granularities))


def _listed(values: Iterable[str]) -> Iterable[str]:
    """Read a list however clients write one: repeated fields, a JSON array, or commas."""
    for value in values:
        if value.startswith("["):
            try:
                items = json.loads(value)
            except (ValueError, RecursionError):  # no JSON, too many digits, too deep
                items = [value]
        else:
            items = value.split(",")
        # JSON may hold half a character, which no answer can repeat.
        names = (str(item).encode(errors="replace").decode().strip() for item in items)
        yield from (name for name in names if name)


def render(transcript: Transcript, options: Options) -> Response[Any]:
    """Write the transcript in the format asked for."""
    content = formats.render(transcript, options.response_format, options.granularities)
    return Response(content, media_type=MEDIA_TYPES[options.response_format])
