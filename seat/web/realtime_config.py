"""What a client of the realtime API has set up. Knows OpenAI's session objects, today's and the older; no socket."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, cast

from seat.errors import InvalidEvent, ModelNotFound, UnsupportedValue
from seat.pcm import G711_RATE, Encoding
from seat.vad import Turns

LOGPROBS: Final = "item.input_audio_transcription.logprobs"
"""The one thing that can be included."""

ENCODINGS: Final[dict[str, Encoding]] = {"audio/pcm": "pcm16", "audio/pcmu": "pcmu", "audio/pcma": "pcma"}
"""Ours by today's names."""

OLDER_ENCODINGS: Final[dict[str, Encoding]] = {"pcm16": "pcm16", "g711_ulaw": "pcmu", "g711_alaw": "pcma"}
"""Ours by the older names."""

RATES: Final = (8_000, 16_000, 24_000, 44_100, 48_000)
"""Hertz of PCM; OpenAI's own is 24,000."""

LONGEST_TURN_MS: Final = 10_000
"""Milliseconds of padding and of silence that may be asked for."""

SERVER_VAD: Final = Turns()
"""How turns are told apart where the client says nothing."""

Dialect = Literal["today", "older"]
"""``session.update`` with everything below ``audio``, or ``transcription_session.update`` with flat names."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Config:
    """How one session hears; the defaults are OpenAI's."""

    model: str
    """The name by which the client calls the model."""
    encoding: Encoding = "pcm16"
    """How samples are written."""
    rate: int = 24_000
    """Hertz."""
    language: str | None = None
    """Accepted without effect, as over HTTP."""
    prompt: str | None = None
    """Accepted without effect."""
    turns: Turns | None = SERVER_VAD
    """How turns are told apart; None where only commits end them."""
    logprobs: bool = False
    """Whether words come with the probabilities of their tokens."""

    @classmethod
    def of_model(cls, model: str, served_models: Collection[str]) -> Config:
        """The defaults, with a model of this seat.

        Raises:
            ModelNotFound: It is none.
        """
        if model not in served_models:
            raise ModelNotFound(model=model, served=served_models)
        return cls(model=model)

    def updated(self, session: object, dialect: Dialect, served_models: Collection[str]) -> Config:
        """What a client's update makes of it: what is not named stays, and null is a value.

        Raises:
            InvalidEvent: It is no session object.
            UnsupportedValue: A value is not known.
            ModelNotFound: The model is not served here.
        """
        fields = _object(session, "session")
        if dialect == "today":
            if fields.get("type", "transcription") != "transcription":
                raise UnsupportedValue(param="session.type", value=str(fields["type"]), supported=["transcription"])
            where = "session.audio.input"
            heard = _object(_object(fields.get("audio"), "session.audio").get("input"), where)
            named = self._with_format(heard.get("format"), f"{where}.format")
            spoken = heard.get("transcription")
        else:
            where = "session"
            heard = fields
            named = self._with_older_format(heard.get("input_audio_format"))
            spoken = heard.get("input_audio_transcription")
        spoken = _object(spoken, f"{where}.transcription")
        named = replace(
            named,
            model=self.of_model(str(spoken.get("model") or self.model), served_models).model,
            language=_text(spoken, "language", self.language),
            prompt=_text(spoken, "prompt", self.prompt),
        )
        if "turn_detection" in heard:
            named = replace(named, turns=_turns(heard["turn_detection"], f"{where}.turn_detection"))
        if "include" in fields:
            named = replace(named, logprobs=_includes_logprobs(fields["include"]))
        return named

    def _with_format(self, written: object, param: str) -> Config:
        if written is None:
            return self
        if isinstance(written, str):
            return self._with_older_format(written)
        fields = _object(written, param)
        encoding = ENCODINGS.get(str(fields.get("type", "audio/pcm")))
        if encoding is None:
            raise UnsupportedValue(param=f"{param}.type", value=str(fields["type"]), supported=ENCODINGS)
        rate = fields.get("rate", 24_000) if encoding == "pcm16" else G711_RATE
        if rate not in RATES:
            raise UnsupportedValue(param=f"{param}.rate", value=str(rate), supported=map(str, RATES))
        return replace(self, encoding=encoding, rate=int(rate))

    def _with_older_format(self, written: object) -> Config:
        if written is None:
            return self
        encoding = OLDER_ENCODINGS.get(str(written))
        if encoding is None:
            raise UnsupportedValue(param="session.input_audio_format", value=str(written), supported=OLDER_ENCODINGS)
        return replace(self, encoding=encoding, rate=24_000 if encoding == "pcm16" else G711_RATE)

    def described(self, session_id: str, expires_at: int | None) -> dict[str, Any]:
        """The session object of today's dialect."""
        written = next(name for name, encoding in ENCODINGS.items() if encoding == self.encoding)
        form = {"type": written, "rate": self.rate} if self.encoding == "pcm16" else {"type": written}
        return {
            "id": session_id,
            "object": "realtime.transcription_session",
            "type": "transcription",
            "expires_at": expires_at,
            "audio": {
                "input": {
                    "format": form,
                    "noise_reduction": None,
                    "transcription": self._transcription(),
                    "turn_detection": self._turn_detection(),
                }
            },
            "include": [LOGPROBS] if self.logprobs else None,
        }

    def described_as_older(self, session_id: str, expires_at: int | None) -> dict[str, Any]:
        """The session object of the older dialect."""
        return {
            "id": session_id,
            "object": "realtime.transcription_session",
            "expires_at": expires_at,
            "input_audio_format": next(name for name, known in OLDER_ENCODINGS.items() if known == self.encoding),
            "input_audio_transcription": self._transcription(),
            "turn_detection": self._turn_detection(),
            "include": [LOGPROBS] if self.logprobs else None,
        }

    def _transcription(self) -> dict[str, Any]:
        return {"model": self.model, "language": self.language, "prompt": self.prompt}

    def _turn_detection(self) -> dict[str, Any] | None:
        if self.turns is None:
            return None
        return {
            "type": "server_vad",
            "threshold": self.turns.threshold,
            "prefix_padding_ms": round(self.turns.padding_s * 1000),
            "silence_duration_ms": round(self.turns.silence_s * 1000),
        }


def _object(written: object, param: str) -> Mapping[str, Any]:
    """An object, or an empty one for null."""
    if written is None:
        return {}
    if not isinstance(written, dict):
        raise InvalidEvent(reason=f"'{param}' is not an object", param=param)
    return cast("Mapping[str, Any]", written)


def _text(fields: Mapping[str, Any], name: str, default: str | None) -> str | None:
    """A text, null, or what it was where it is not named."""
    return default if name not in fields else fields[name] and str(fields[name])


def _turns(written: object, param: str) -> Turns | None:
    if written is None:
        return None
    fields, default = _object(written, param), SERVER_VAD
    if fields.get("type", "server_vad") != "server_vad":
        raise UnsupportedValue(param=f"{param}.type", value=str(fields["type"]), supported=["server_vad"])
    return Turns(
        threshold=_number(fields, "threshold", default.threshold, 1.0, param),
        padding_s=_number(fields, "prefix_padding_ms", default.padding_s * 1000, LONGEST_TURN_MS, param) / 1000,
        silence_s=_number(fields, "silence_duration_ms", default.silence_s * 1000, LONGEST_TURN_MS, param) / 1000,
    )


def _number(fields: Mapping[str, Any], name: str, default: float, most: float, param: str) -> float:
    value = fields.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise UnsupportedValue(param=f"{param}.{name}", value=str(value), supported=[f"0 to {most:g}"])
    return float(value)


def _includes_logprobs(written: object) -> bool:
    asked = written if isinstance(written, list) else []
    for name in asked:
        if name != LOGPROBS:
            raise UnsupportedValue(param="session.include", value=str(name), supported=[LOGPROBS])
    return bool(asked)
