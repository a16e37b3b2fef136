"""GET /v1/realtime: OpenAI's realtime API for transcription sessions. Knows its events; no audio, no model.

    client  session.update  input_audio_buffer.append  .commit  .clear        (and transcription_session.update)
    server  session.created  .updated  input_audio_buffer.speech_started  .speech_stopped  .committed  .cleared
            conversation.item.input_audio_transcription.delta  .completed  .failed  error

Deltas come while somebody speaks, as soon as their words are firm: a turn's item has its id from its first sound.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import time
import uuid
from functools import partial
from typing import Any, Final

from litestar import websocket
from litestar.di import NamedDependency

from seat import formats
from seat.errors import InvalidEvent, InvalidRequest, NothingToCommit, SlowReader, UnsupportedValue
from seat.live import LiveSession
from seat.pcm import PcmReader
from seat.service import Service
from seat.settings import Settings
from seat.streams import Streams
from seat.telemetry import note
from seat.turn import Event, Failed, Started, Stopped, Whole, Words
from seat.web.keys import check_key, shown_key
from seat.web.messages import LARGE_MESSAGE, parsed
from seat.web.problems import problem_of
from seat.web.realtime_config import Config, Dialect
from seat.web.sockets import (
    CLOSE_CODES,
    Lobby,
    Reason,
    Socket,
    Wire,
    accept,
    attend,
    feed,
    note_session,
    told,
)

LEAST_COMMIT_MS: Final = 100
"""Milliseconds of audio that a commit needs, as at OpenAI."""

TRANSCRIPTION: Final = "conversation.item.input_audio_transcription"
"""What the events about words begin with."""


@websocket("/v1/realtime")
async def transcribe_in_realtime(
    socket: Socket,
    service: NamedDependency[Service],
    settings: NamedDependency[Settings],
    lobby: NamedDependency[Lobby],
) -> None:
    """Transcribe while somebody speaks."""
    wire = await accept(socket, lobby)
    async with told(wire, partial(_error, event_id=None)):
        check_key(settings, shown_key(socket))
        intent = socket.query_params.get("intent", "transcription")
        if intent != "transcription":
            raise UnsupportedValue(param="intent", value=intent, supported=["transcription"])
        model = socket.query_params.get("model") or settings.model_id
        config = Config.of_model(model, settings.served_models)
        streams = service.open_streams()
        conversation = _Conversation(wire, settings, config, streams)
        with streams.session(conversation.tell, config.turns) as session:
            reason: Reason | None = None
            try:
                await conversation.greet(older="realtime=v1" in socket.headers.get("openai-beta", ""))
                reason = await attend(wire, streams, session, conversation.pump(session))
            finally:
                note_session(session, reason)
            if reason is not Reason.GONE:
                await wire.close(CLOSE_CODES[reason], reason)


class _Conversation:
    """Both directions of one session."""

    def __init__(self, wire: Wire, settings: Settings, config: Config, streams: Streams) -> None:
        self._wire = wire
        self._settings = settings
        self._config = config
        self._reader = PcmReader(config.encoding, config.rate)
        self._id = f"sess_{uuid.uuid4().hex}"
        limit_s = streams.limits.session_s
        self._expires_at = None if limit_s is None else int(time.time() + limit_s)
        self._committed: str | None = None

    async def greet(self, *, older: bool) -> None:
        """Say how the session is set up."""
        note(model=self._config.model)
        await self._tell_config("created", "older" if older else "today")

    async def pump(self, session: LiveSession) -> None:
        """Feed a session until the connection ends; what is wrong with an event is said, and the next one counts."""
        while True:
            message = await self._wire.receive()
            event: dict[str, Any] = {}
            try:
                if isinstance(message, bytes):
                    raise InvalidEvent(reason="events are text; audio is base64 in 'input_audio_buffer.append'")
                event = await parsed(message)
                await self._obey(session, event)
            except SlowReader:
                raise
            except InvalidRequest as fault:
                await self._wire.send(_error(problem_of(fault).error, event_id=event.get("event_id")))

    async def _obey(self, session: LiveSession, event: dict[str, Any]) -> None:
        match event["type"]:
            case "input_audio_buffer.append":
                audio = event.get("audio")
                large = isinstance(audio, str) and len(audio) > LARGE_MESSAGE
                await feed(
                    session, self._reader, await asyncio.to_thread(_decoded, audio) if large else _decoded(audio)
                )
            case "input_audio_buffer.commit":
                await self._commit(session)
            case "input_audio_buffer.clear":
                self._reader.end()
                session.clear()
                await self._send("input_audio_buffer.cleared")
            case "session.update":
                await self._update(session, event.get("session"), "today")
            case "transcription_session.update":
                await self._update(session, event.get("session"), "older")
            case unknown:
                raise InvalidEvent(reason=f"there is no '{unknown[:100]}' in a transcription session", param="type")

    async def _update(self, session: LiveSession, wanted: object, dialect: Dialect) -> None:
        config = self._config.updated(wanted, dialect, self._settings.served_models)
        if (config.encoding, config.rate) != (self._config.encoding, self._config.rate):
            await session.append(self._reader.end())
            self._reader = PcmReader(config.encoding, config.rate)
        session.detect(config.turns)
        self._config = config
        note(model=config.model)
        await self._tell_config("updated", dialect)

    async def _commit(self, session: LiveSession) -> None:
        await session.append(self._reader.end())
        if session.buffered_s * 1000 < LEAST_COMMIT_MS:
            raise NothingToCommit(least_ms=LEAST_COMMIT_MS, buffered_ms=session.buffered_s * 1000)
        await self._tell_committed(session.commit())

    async def tell(self, event: Event) -> None:
        """Send what happens."""
        item = self._item(event.turn)
        match event:
            case Started():
                at_ms = round(event.at_s * 1000)
                await self._send("input_audio_buffer.speech_started", audio_start_ms=at_ms, item_id=item)
            case Stopped():
                at_ms = round(event.at_s * 1000)
                if self._config.turns:  # else the seat stops, and has ended a turn that only the client could end
                    await self._send("input_audio_buffer.speech_stopped", audio_end_ms=at_ms, item_id=item)
                await self._tell_committed(event.turn)
            case Words():
                await self._tell_words(item, event)
            case Failed():
                note(error=event.fault.code)
                await self._send(
                    f"{TRANSCRIPTION}.failed", item_id=item, content_index=0, error=problem_of(event.fault).error
                )

    async def _tell_words(self, item: str, event: Words) -> None:
        if event.added:
            await self._send(f"{TRANSCRIPTION}.delta", item_id=item, content_index=0, delta=event.added)
        if isinstance(event, Whole):
            snapshot = event.snapshot()
            usage = {"type": "duration", "seconds": round(event.audio_s, 3)}
            facts: dict[str, Any] = {"transcript": snapshot.text, "usage": usage}
            if self._config.logprobs:
                facts |= formats.logprobs(snapshot.words)
            await self._send(f"{TRANSCRIPTION}.completed", item_id=item, content_index=0, **facts)

    async def _tell_committed(self, turn: int) -> None:
        item, previous = self._item(turn), self._committed
        self._committed = item
        await self._send("input_audio_buffer.committed", item_id=item, previous_item_id=previous)

    async def _tell_config(self, what: str, dialect: Dialect) -> None:
        describe = self._config.described if dialect == "today" else self._config.described_as_older
        name = "session" if dialect == "today" else "transcription_session"
        await self._send(f"{name}.{what}", session=describe(self._id, self._expires_at))

    def _item(self, turn: int) -> str:
        return f"item_{self._id.removeprefix('sess_')[:16]}_{turn}"

    async def _send(self, kind: str, **facts: Any) -> None:  # noqa: ANN401  every event has its own
        await self._wire.send({"type": kind, "event_id": _event_id(), **facts})


def _decoded(audio: object) -> bytes:
    try:
        return base64.b64decode(audio if isinstance(audio, str) else "?", validate=True)
    except (binascii.Error, ValueError) as fault:
        raise InvalidEvent(reason="'audio' is not base64", param="audio") from fault


def _error(body: dict[str, Any], *, event_id: object) -> dict[str, Any]:
    known = event_id if isinstance(event_id, str) else None
    return {"type": "error", "event_id": _event_id(), "error": {**body, "event_id": known}}


def _event_id() -> str:
    return f"event_{uuid.uuid4().hex}"
