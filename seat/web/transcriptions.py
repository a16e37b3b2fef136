"""POST /v1/audio/transcriptions and translations: parse, call, render. Knows the order; no audio, no model."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, Final

from litestar import MediaType, Request, Response, post
from litestar.di import NamedDependency

from seat import formats
from seat.errors import NotTranslated
from seat.formats import Format, Task
from seat.hearing import NewWords, unread
from seat.languages import only_english
from seat.service import Service
from seat.settings import Settings
from seat.telemetry import note, stage
from seat.transcript import Transcript
from seat.web.disconnect import unless_disconnected
from seat.web.forms import read_form
from seat.web.options import FIELDS, Options, parse
from seat.web.streaming import EventStream

READ_TIMEOUT: Final = "x-stainless-read-timeout"
"""Header in which the openai SDK tells how long it waits for the next bytes, in seconds. An answer that comes in one
piece is over its deadline then; a stream is not, as only its first event has to come by then."""

TRANSLATED_INTO: Final = "english"
"""What OpenAI writes for the language of every translation."""

MEDIA_TYPES: Final[dict[Format, str]] = {
    "json": MediaType.JSON,
    "verbose_json": MediaType.JSON,
    "text": "text/plain",
    "srt": "text/plain",
    "vtt": "text/vtt",
}
"""Content types as OpenAI sends them; Litestar adds the character set to texts."""


@post("/v1/audio/transcriptions", status_code=200)
async def create_transcription(
    request: Request[Any, Any, Any], service: NamedDependency[Service], settings: NamedDependency[Settings]
) -> Response[Any]:
    """Write down what is said in the audio file of a multipart form."""
    return await _answer(request, service, settings, "transcribe")


@post("/v1/audio/translations", status_code=200)
async def create_translation(
    request: Request[Any, Any, Any], service: NamedDependency[Service], settings: NamedDependency[Settings]
) -> Response[Any]:
    """Write down in English what is said, which is what a model does that hears nothing but English."""
    service.open_transcriber()
    if not only_english(service.languages):
        raise NotTranslated(spoken=service.languages)
    return await _answer(request, service, settings, "translate")


async def _answer(request: Request[Any, Any, Any], service: Service, settings: Settings, task: Task) -> Response[Any]:
    deadline_s = client_deadline_s(request.headers)
    async with AsyncExitStack() as stack:
        stack.enter_context(service.upload(deadline_s))
        form = await stack.enter_async_context(
            read_form(request, FIELDS, limit_mib=settings.max_upload_mib, within_s=settings.deadline_s)
        )
        options = parse(form, settings.served_models, service.languages)
        note(model=options.model, response_format=options.response_format, stream=options.stream)
        answer_within_s = math.inf if options.stream else deadline_s

        async def transcribe(on_words: NewWords = unread) -> Transcript:
            return await service.transcribe(
                form.file, deadline_s=answer_within_s, on_words=on_words, chunking=options.chunking
            )

        if options.stream:
            return EventStream(transcribe, stack.pop_all(), with_logprobs=options.with_logprobs)
        transcript = await unless_disconnected(request.receive, transcribe())
    with stage("render"):
        return await asyncio.to_thread(render, transcript, options, task)


def client_deadline_s(headers: Mapping[str, str]) -> float:
    """Seconds that the openai SDK says it waits for an answer; infinite where the client says nothing sensible."""
    try:
        seconds = float(headers.get(READ_TIMEOUT, "inf"))
    except ValueError:
        return math.inf
    return seconds if seconds > 0 else math.inf


def render(transcript: Transcript, options: Options, task: Task) -> Response[Any]:
    """Write the transcript in the format asked for."""
    content = formats.render(
        replace(transcript, language=TRANSLATED_INTO if task == "translate" else options.language),
        options.response_format,
        options.granularities,
        task=task,
        with_logprobs=options.with_logprobs,
    )
    return Response(content, media_type=MEDIA_TYPES[options.response_format])
