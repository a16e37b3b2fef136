"""GET /v1/audio/stream: raw samples in, JSON lines out, over a websocket. Knows this protocol; no audio, no model.

client  binary frames of little-endian PCM16, mono, at ?sample_rate=16000
        {"type":"start","model","key"}    first, or not at all
        {"type":"finalize"}               hear all that has come; answered with a final
        {"type":"close"}                  the same, and then the end
server  {"type":"ready"}  {"type":"partial"}  {"type":"final"}  {"type":"error"}  {"type":"closed"}
"""

from __future__ import annotations

import asyncio
import re
from typing import Any, Final

from litestar import websocket
from litestar.di import NamedDependency

from seat import formats
from seat.errors import InvalidApiKey, InvalidEvent, ModelNotFound, TooManyStrangers, UnsupportedValue
from seat.live import LiveSession
from seat.pcm import HIGHEST_RATE, LOWEST_RATE, PcmReader
from seat.recognizer import SAMPLE_RATE
from seat.service import Service
from seat.settings import Settings
from seat.telemetry import note
from seat.turn import Event, Failed, Whole, Words
from seat.utterance import Snapshot
from seat.vad import Turns
from seat.web.keys import check_key, shown_key
from seat.web.messages import parsed
from seat.web.problems import problem_of
from seat.web.sockets import CLOSE_CODES, Lobby, Reason, Socket, Wire, accept, attend, feed, note_session, told

KEY_WITHIN_S: Final = 10.0
"""Seconds that a client which has not shown a key may take to show one."""


@websocket("/v1/audio/stream")
async def stream_audio(
    socket: Socket,
    service: NamedDependency[Service],
    settings: NamedDependency[Settings],
    lobby: NamedDependency[Lobby],
) -> None:
    """Transcribe while somebody speaks."""
    wire = await accept(socket, lobby)
    async with told(wire, _error):
        rate = sample_rate(socket.query_params.get("sample_rate", str(SAMPLE_RATE)))
        key, first = shown_key(socket), None
        if settings.api_keys and not key:
            first = await _first_within(wire, lobby)
            key = str(first.get("key") or "")
        check_key(settings, key)
        streams = service.open_streams()
        stream = _Stream(wire, settings, PcmReader("pcm16", rate))
        with streams.session(stream.tell, Turns()) as session:
            reason: Reason | None = None
            try:
                await wire.send({"type": "ready", "model": settings.model_id, "sample_rate": rate})
                reason = await attend(wire, streams, session, stream.pump(session, first))
            finally:
                note_session(session, reason)
            if reason is not Reason.GONE:
                await wire.send({"type": "closed", "reason": reason, "audio_s": round(session.tally.audio_s, 3)})
                await wire.close(CLOSE_CODES[reason], reason)


def sample_rate(written: str) -> int:
    """Hertz from the address.

    Raises:
        UnsupportedValue: No number, or none of a microphone.
    """
    rate = int(written) if re.fullmatch("[0-9]{4,6}", written) else 0
    if not LOWEST_RATE <= rate <= HIGHEST_RATE:
        supported = [str(LOWEST_RATE), f"up to {HIGHEST_RATE}"]
        raise UnsupportedValue(param="sample_rate", value=written, supported=supported)
    return rate


async def _first_within(wire: Wire, lobby: Lobby) -> dict[str, Any]:
    """The first message of who has not shown a key yet; empty where that is sound."""
    if lobby.coming.locked():
        raise TooManyStrangers
    try:
        async with lobby.coming, asyncio.timeout(KEY_WITHIN_S):
            message = await wire.receive()
            return await parsed(message) if isinstance(message, str) else {}
    except TimeoutError as fault:
        raise InvalidApiKey(given=False) from fault


class _Stream:
    """Both directions of one session."""

    def __init__(self, wire: Wire, settings: Settings, reader: PcmReader) -> None:
        self._wire = wire
        self._settings = settings
        self._reader = reader
        self._finals = 0
        self._asked: set[int] = set()  # turns that the client ended itself: those are answered, words or not

    async def pump(self, session: LiveSession, first: dict[str, Any] | None) -> None:
        """Feed a session until the client says that it is done; what it said first has been read already."""
        more = True
        while more:
            message, first = first or await self._wire.receive(), None
            if isinstance(message, bytes):
                await feed(session, self._reader, message)
                continue
            try:
                more = await self._obey(session, await parsed(message) if isinstance(message, str) else message)
            except InvalidEvent as fault:
                await self._wire.send(_error(problem_of(fault).error))

    async def _obey(self, session: LiveSession, message: dict[str, Any]) -> bool:
        """Do what a message says; whether others follow."""
        match message["type"]:
            case "start":
                model = message.get("model") or self._settings.model_id
                if model not in self._settings.served_models:
                    raise ModelNotFound(model=str(model), served=self._settings.served_models)
                note(model=model)
            case "finalize":
                await session.append(self._reader.end())
                self._asked.add(session.commit())
            case "close":
                await session.append(self._reader.end())
                return False
            case _:
                raise InvalidEvent(reason="there are 'start', 'finalize' and 'close'", param="type")
        return True

    async def tell(self, event: Event) -> None:
        """Send what happens."""
        if isinstance(event, Whole):
            snapshot = event.snapshot()
            if snapshot.words or event.turn in self._asked:
                number, self._finals = self._finals, self._finals + 1
                await self._wire.send({"type": "final", "segment": number, **_written(event, snapshot)})
            self._asked.discard(event.turn)
        elif isinstance(event, Words):
            snapshot = event.snapshot()
            await self._wire.send({"type": "partial", "stable": snapshot.stable, **_written(event, snapshot)})
        elif isinstance(event, Failed):
            self._asked.discard(event.turn)
            note(error=event.fault.code)
            await self._wire.send(_error(problem_of(event.fault).error))


def _error(body: dict[str, Any]) -> dict[str, Any]:
    return {"type": "error", "error": body}


def _written(event: Words, snapshot: Snapshot) -> dict[str, Any]:
    """Text, words and times of a turn; a turn without words lies where it was."""
    final = isinstance(event, Whole)
    words = [
        formats.timed(spoken) | {"stable": final or place < snapshot.closed}
        for place, spoken in enumerate(snapshot.words)
    ]
    start_s, end_s = event.start_s, event.start_s + event.audio_s
    return {
        "text": snapshot.text,
        "words": words,
        "start": words[0]["start"] if words else formats.rounded(start_s),
        "end": words[-1]["end"] if words else formats.rounded(end_s),
    }
