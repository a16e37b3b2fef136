"""Describe the API in OpenAPI 3.1. Knows paths, fields and answers as they are; serves nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from seat import __version__
from seat.formats import FORMATS, GRANULARITIES
from seat.pcm import HIGHEST_RATE, LOWEST_RATE
from seat.recognizer import SAMPLE_RATE
from seat.web.options import INCLUDES, ServerVad

Schema = dict[str, Any]

_TEXT: Final[Schema] = {"type": "string"}
_NUMBER: Final[Schema] = {"type": "number"}
_TEXTS: Final[Schema] = {"type": "array", "items": _TEXT}


def _choice(values: Iterable[str]) -> Schema:
    return {"type": "string", "enum": list(values)}


def _choices(values: Iterable[str]) -> Schema:
    return {"type": "array", "items": _choice(values)}


def _object(required: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None) -> Schema:
    properties = {**required, **(optional or {})}
    return {"type": "object", "required": list(required), "properties": properties}


def _told(schema: Schema, description: str) -> Schema:
    return schema | {"description": description}


FORM: Final[dict[str, Schema]] = {
    "file": _told(
        {"type": "string", "format": "binary", "contentMediaType": "application/octet-stream"},
        "Served. Sound in any usual container, or a film with such sound; told by its bytes, whatever its name.",
    ),
    "model": _told(_TEXT, "Served. The model's own name, or one of its aliases."),
    "response_format": _told(_choice(FORMATS), "Served. The default is 'json'; others are refused."),
    "timestamp_granularities[]": _told(
        _choices(GRANULARITIES), "Served with 'verbose_json'; the default is 'segment'."
    ),
    "include[]": _told(_choices(INCLUDES), "Served with 'json', 'verbose_json' and in streams."),
    "stream": _told(
        {"type": "boolean"}, "Served with 'json', 'text' and 'verbose_json'; refused together with 'srt' and 'vtt'."
    ),
    "language": _told(_TEXT, "Checked against what the model speaks, however it is written; others are refused."),
    "chunking_strategy": _told(
        {"oneOf": [_choice(["auto"]), ServerVad.model_json_schema()]},
        "Served by loudness: 'auto', or an object with type 'server_vad'. Else windows tile the audio.",
    ),
    "prompt": _told(_TEXT, "Without effect: a transducer has no prompt."),
    "temperature": _told(_NUMBER, "Without effect: nothing is sampled."),
    "keywords[]": _told(_TEXTS, "Without effect: the model takes none."),
    "languages[]": _told(_TEXTS, "Without effect: the model chooses by what it hears."),
    "known_speaker_names[]": _told(_TEXTS, "Without effect: speakers are not told apart."),
    "known_speaker_references[]": _told(_TEXTS, "Without effect: speakers are not told apart."),
}
"""Fields of a transcription's form, and what becomes of each."""

TRANSLATION_FORM: Final = {name: FORM[name] for name in ("file", "model", "response_format", "prompt", "temperature")}
"""Fields that OpenAI has for a translation; the others work here too."""

_LOGPROB: Final = _object(
    {"token": _TEXT, "logprob": _NUMBER, "bytes": {"type": "array", "items": {"type": "integer"}}}
)
_LOGPROBS: Final[Schema] = {"type": "array", "items": _LOGPROB}
_USAGE: Final = _object({"type": _choice(["duration"]), "seconds": {"type": "integer"}})
_WORD: Final = _object({"word": _TEXT, "start": _NUMBER, "end": _NUMBER, "confidence": _NUMBER})
_SEGMENT: Final = _object(
    {
        "id": {"type": "integer"},
        "seek": {"type": "integer"},
        "start": _NUMBER,
        "end": _NUMBER,
        "text": _TEXT,
        "tokens": {"type": "array", "items": {"type": "integer"}},
        "temperature": _NUMBER,
        "avg_logprob": _NUMBER,
        "compression_ratio": _NUMBER,
        "no_speech_prob": _NUMBER,
    }
)
_LIVE_WORD: Final = _object(
    {"word": _TEXT, "start": _NUMBER, "end": _NUMBER, "confidence": _NUMBER, "stable": {"type": "boolean"}}
)
_TURN: Final[dict[str, Schema]] = {
    "text": _TEXT,
    "words": {"type": "array", "items": _LIVE_WORD},
    "start": _NUMBER,
    "end": _NUMBER,
}
_ANSWERED: Final = _object(
    {
        "at": _NUMBER,
        "status": {"type": "integer"},
        "total_s": _NUMBER,
        "error": {"type": ["string", "null"]},
        **{name: {"type": ["number", "null"]} for name in ("audio_s", "queue_s", "inference_s")},
        "peak_mib": {"type": ["integer", "null"]},
    }
)
_MODEL: Final = _object({"id": _TEXT, "object": _choice(["model"]), "created": {"type": "integer"}, "owned_by": _TEXT})

SCHEMAS: Final[dict[str, Schema]] = {
    "Transcription": _object({"text": _TEXT, "usage": _USAGE}, {"logprobs": _LOGPROBS}),
    "TranscriptionVerbose": _object(
        {
            "task": _choice(["transcribe", "translate"]),
            "language": _TEXT,
            "duration": _NUMBER,
            "text": _TEXT,
            "usage": _USAGE,
        },
        {
            "segments": {"type": "array", "items": _SEGMENT},
            "words": {"type": "array", "items": _WORD},
            "logprobs": _LOGPROBS,
        },
    ),
    "TranscriptTextDelta": _object(
        {"type": _choice(["transcript.text.delta"]), "delta": _TEXT}, {"logprobs": _LOGPROBS}
    ),
    "TranscriptTextDone": _object(
        {"type": _choice(["transcript.text.done"]), "text": _TEXT, "usage": _USAGE}, {"logprobs": _LOGPROBS}
    ),
    "StreamReady": _object({"type": _choice(["ready"]), "model": _TEXT, "sample_rate": {"type": "integer"}}),
    "StreamPartial": _object(
        {"type": _choice(["partial"]), "stable": _told(_TEXT, "The beginning of the text that never changes."), **_TURN}
    ),
    "StreamFinal": _object({"type": _choice(["final"]), "segment": {"type": "integer"}, **_TURN}),
    "StreamClosed": _object({"type": _choice(["closed"]), "reason": _TEXT, "audio_s": _NUMBER}),
    "Model": _MODEL,
    "Models": _object({"object": _choice(["list"]), "data": {"type": "array", "items": _MODEL}}),
    "Requests": _object(
        {
            "now": _told(_NUMBER, "What time it is here, in seconds since 1970."),
            "requests": {"type": "array", "items": _ANSWERED},
        }
    ),
    "Error": _object(
        {
            "error": _object(
                {
                    "message": _TEXT,
                    "type": _choice(["invalid_request_error", "server_error"]),
                    "param": {"type": ["string", "null"]},
                    "code": {"type": ["string", "null"]},
                }
            )
        }
    ),
}
"""What answers are made of."""


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _json(name: str) -> Schema:
    return {"application/json": {"schema": _ref(name)}}


def _answers(content: Schema, statuses: Iterable[int]) -> Schema:
    errors = {str(status): {"description": "An error.", "content": _json("Error")} for status in statuses}
    return {"200": {"description": "The answer.", "content": content}} | errors


_AUDIO_ERRORS: Final = (400, 401, 404, 413, 500, 503, 504)


def _audio(summary: str, form: Mapping[str, Schema]) -> Schema:
    body = _object({name: form[name] for name in ("file", "model")}, form)
    texts = {kind: {"schema": _TEXT} for kind in ("text/plain", "text/vtt")}
    answer = {"application/json": {"schema": {"anyOf": [_ref("TranscriptionVerbose"), _ref("Transcription")]}}}
    stream = {"text/event-stream": {"schema": _told(_TEXT, "TranscriptTextDelta, then TranscriptTextDone, '[DONE]'.")}}
    return {
        "post": {
            "summary": summary,
            "security": [{"key": []}, {}],
            "requestBody": {"required": True, "content": {"multipart/form-data": {"schema": body}}},
            "responses": _answers(answer | texts | stream, _AUDIO_ERRORS),
        }
    }


def _websocket(summary: str, parameters: Mapping[str, Schema]) -> Schema:
    """A path that begins with a handshake. OpenAPI has no word for what follows on it."""
    refused = {"description": "No websocket was asked for.", "content": _json("Error")}
    return {
        "get": {
            "summary": summary,
            "security": [{"key": []}, {}],
            "parameters": [{"name": name, "in": "query", "schema": schema} for name, schema in parameters.items()],
            "responses": {"101": {"description": "A live session."}, "405": refused},
        }
    }


def _get(summary: str, content: Schema, statuses: Iterable[int] = (), **more: object) -> Schema:
    return {"get": {"summary": summary, "responses": _answers(content, statuses), **more}}


_ANYTHING: Final = {"application/json": {"schema": {"type": "object"}}}
_PROBE: Final = {
    status: {"description": meaning, "content": _ANYTHING} for status, meaning in (("200", "Yes."), ("503", "No."))
}
_NAME: Final = {"name": "name", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}


def document() -> Schema:
    """The whole description."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "seat",
            "version": __version__,
            "description": "Speech to text by one model, as OpenAI's audio API.",
        },
        "paths": {
            "/v1/audio/transcriptions": _audio("Write down what is said.", FORM),
            "/v1/audio/translations": _audio(
                "Write down English speech, where the model hears nothing but English.", TRANSLATION_FORM
            ),
            "/v1/realtime": _websocket(
                "Write down what is said while it is said: a websocket, by OpenAI's realtime protocol.",
                {"intent": _choice(["transcription"]), "model": FORM["model"]},
            ),
            "/v1/audio/stream": _websocket(
                "Write down what is said while it is said: a websocket that takes little-endian 16-bit samples and the"
                " texts 'start', 'finalize' and 'close', and answers with StreamReady, StreamPartial, StreamFinal and"
                " StreamClosed.",
                {
                    "sample_rate": {
                        "type": "integer",
                        "minimum": LOWEST_RATE,
                        "maximum": HIGHEST_RATE,
                        "default": SAMPLE_RATE,
                    }
                },
            ),
            "/v1/models": _get("List the model's names.", _json("Models"), (401,), security=[{"key": []}, {}]),
            "/v1/models/{name}": _get(
                "Describe the model by one of its names.",
                _json("Model"),
                (401, 404),
                security=[{"key": []}, {}],
                parameters=[_NAME],
            ),
            "/health": _get("Tell everything that is known.", _ANYTHING),
            "/health/live": {"get": {"summary": "Tell whether this process is of use.", "responses": _PROBE}},
            "/health/ready": {"get": {"summary": "Tell whether it would transcribe now.", "responses": _PROBE}},
            "/health/requests": _get(
                "Tell the last transcriptions and live sessions as numbers, oldest first.",
                _json("Requests"),
                (401,),
                security=[{"key": []}, {}],
            ),
            "/metrics": _get("Tell all metrics, as Prometheus reads them.", {"text/plain": {"schema": _TEXT}}),
            "/openapi.json": _get("This description.", _ANYTHING),
        },
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }
