"""Hold a live session on a websocket until one of its ends comes. Knows messages, times and reasons; no protocol.

Nothing is buffered here: who does not read makes the session wait, which makes the reading of audio wait, and TCP tells
the client. Who does not read for too long is closed. No audio is dropped.
"""

from __future__ import annotations

import asyncio
import enum
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from litestar import WebSocket
from litestar.exceptions import WebSocketDisconnect

from seat.errors import ClientDisconnected, InvalidEvent, SeatError, SlowReader, Unavailable
from seat.live import LiveSession
from seat.pcm import PcmReader
from seat.streams import Streams
from seat.telemetry import note
from seat.web.keys import KEY_PROTOCOL
from seat.web.problems import problem_of

Socket = WebSocket[Any, Any, Any]

SLOW_S: Final = 10.0
"""Seconds that a client may take to read a message."""

CLOSE_S: Final = 1.0
"""Seconds to say goodbye in, to somebody who may not listen."""

QUIET_S: Final = 0.05
"""Seconds without a message after which nobody is taken to be in the middle of something."""

MOST_STRANGERS: Final = 8
"""Clients at once that nobody knows: each can send 64 MiB of a message that never ends, which Granian holds."""

LARGEST_MESSAGE: Final = 15 * 1024 * 1024
"""Bytes of one message, as at OpenAI. Granian breaks off without a word above 16 MiB in one frame, and above 64 in all.
"""


class CloseCode(enum.IntEnum):
    """RFC 6455's numbers for why a websocket is closed."""

    NORMAL = 1000
    GOING_AWAY = 1001
    POLICY = 1008
    INTERNAL = 1011
    TRY_LATER = 1013


class Reason(enum.StrEnum):
    """Why a live session ended well."""

    CLIENT = "client"
    """The client said so."""
    GONE = "disconnected"
    """The client closed the connection, or it broke."""
    STOPPING = "shutting_down"
    """The seat stops."""
    LIMIT = "session_limit"
    """It lasted as long as it may."""


CLOSE_CODES: Final = {
    Reason.CLIENT: CloseCode.NORMAL,
    Reason.STOPPING: CloseCode.GOING_AWAY,
    Reason.LIMIT: CloseCode.POLICY,
}


class Lobby:
    """Where clients of one seat are that have not shown a key yet, and those that are sent away."""

    def __init__(self) -> None:
        self.coming = asyncio.Semaphore(MOST_STRANGERS)
        """Held by those that may still show a key."""
        self.leaving = asyncio.Semaphore(MOST_STRANGERS)
        """Held by those that are let finish what they say."""


class Wire:
    """One accepted websocket, with its bounds."""

    def __init__(self, socket: Socket, lobby: Lobby, slow_s: float = SLOW_S) -> None:
        self._socket = socket
        self._lobby = lobby
        self._slow_s = slow_s
        self._sending = asyncio.Lock()

    async def send(self, message: dict[str, Any]) -> None:
        """Send JSON.

        Raises:
            SlowReader: The client does not take it.
            ClientDisconnected: It is gone.
        """
        text = json.dumps(message)  # ASCII: what a client sent may hold half a character, which no UTF-8 can repeat
        try:
            async with asyncio.timeout(self._slow_s), self._sending:
                await self._socket.send_text(text)
        except TimeoutError as fault:
            raise SlowReader(seconds=self._slow_s) from fault
        except WebSocketDisconnect as fault:
            raise ClientDisconnected from fault
        except asyncio.CancelledError as fault:
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise
            raise ClientDisconnected from fault  # Granian's word for it, once it has been told to stop

    async def receive(self) -> str | bytes:
        """The next message.

        Raises:
            ClientDisconnected: There will be none.
        """
        try:
            message: Any = await self._socket.receive()
        except WebSocketDisconnect as fault:
            raise ClientDisconnected from fault
        if message["type"] != "websocket.receive":
            raise ClientDisconnected
        data: bytes | None = message.get("bytes")
        said = data if data is not None else str(message.get("text") or "")
        if len(said) > LARGEST_MESSAGE:
            raise InvalidEvent(reason=f"it is larger than {LARGEST_MESSAGE // 2**20} MiB")
        return said

    async def read_past(self) -> None:
        """Let a client finish that does not listen yet: a connection with unread data is reset, and its reason lost."""
        if self._lobby.leaving.locked():
            return
        with suppress(TimeoutError, ClientDisconnected, InvalidEvent):
            async with self._lobby.leaving, asyncio.timeout(CLOSE_S):
                while True:
                    async with asyncio.timeout(QUIET_S):
                        await self.receive()

    async def close(self, code: int, reason: str) -> None:
        """Say goodbye, where somebody listens."""
        try:
            async with asyncio.timeout(CLOSE_S):
                await self._socket.close(code, reason)
        except (TimeoutError, WebSocketDisconnect, RuntimeError):
            return


async def accept(socket: Socket, lobby: Lobby) -> Wire:
    """Take a client in. Why it cannot stay is said on the websocket: a browser is not shown a refused handshake."""
    offered = [name.strip() for name in socket.headers.get("sec-websocket-protocol", "").split(",")]
    choice = min(filter(None, offered), key=lambda name: name.startswith(KEY_PROTOCOL), default=None)
    await socket.accept(choice)  # one of those offered, or a browser breaks off; the key only where nothing else is
    return Wire(socket, lobby)


async def feed(session: LiveSession, reader: PcmReader, data: bytes) -> None:
    """Append samples, a little at a time: the event loop waits for none of it."""
    step = reader.nbytes_per_s // 2
    for first in range(0, len(data), step):
        await session.append(reader.read(data[first : first + step]))


async def attend(wire: Wire, streams: Streams, session: LiveSession, pump: Coroutine[Any, Any, None]) -> Reason:
    """Run a session and what feeds it, until one of its ends comes; what has come by then is heard and told.

    Args:
        wire: Where the client is.
        streams: Tells when the seat stops, and how long a session may last.
        session: What is fed.
        pump: Reads messages; returns where the client says that it is done.

    Raises:
        SeatError: Why it cannot go on.
    """
    hearing = asyncio.ensure_future(session.run())
    reading = asyncio.ensure_future(pump)
    stopping = asyncio.ensure_future(streams.draining.wait())
    tasks = [hearing, reading, stopping]
    try:
        done, _ = await asyncio.wait(tasks, timeout=streams.limits.session_s, return_when=asyncio.FIRST_COMPLETED)
        if hearing in done:
            hearing.result()
        if reading in done:
            reading.result()
        reason = Reason.CLIENT if reading in done else Reason.STOPPING if stopping in done else Reason.LIMIT
        await _cancelled(reading)
        gone = asyncio.ensure_future(_gone(wire))
        tasks.append(gone)
        await session.end()
        await asyncio.wait((hearing, gone), return_when=asyncio.FIRST_COMPLETED)
        if not hearing.done():
            return Reason.GONE
        hearing.result()
    except ClientDisconnected:
        return Reason.GONE
    else:
        return reason
    finally:
        for task in tasks:
            await _cancelled(task)


async def _gone(wire: Wire) -> None:
    """Wait until the client is gone; what it still says is not heard."""
    with suppress(ClientDisconnected):
        while True:
            with suppress(InvalidEvent):
                await wire.receive()


async def _cancelled(task: asyncio.Future[Any]) -> None:
    task.cancel()
    await asyncio.wait((task,))
    if not task.cancelled():
        task.exception()  # whatever it is, its cause has been told


@asynccontextmanager
async def told(wire: Wire, written: Callable[[dict[str, Any]], dict[str, Any]]) -> AsyncIterator[None]:
    """Say why a session could not be, or could not go on, and close it.

    Args:
        wire: Where to say it.
        written: Makes the protocol's message of an error object.
    """
    try:
        yield
    except ClientDisconnected:
        note(ended=Reason.GONE)
    except Exception as fault:  # noqa: BLE001  the client is told of whatever it is, and the log if it is ours
        body = problem_of(fault).error
        note(error=body["code"])
        code = CloseCode.POLICY if isinstance(fault, SeatError) else CloseCode.INTERNAL
        if isinstance(fault, Unavailable):
            code = CloseCode.TRY_LATER
        if not isinstance(fault, SlowReader):
            await _last_words(wire, written(body))
            await wire.read_past()
        await wire.close(code, str(body["code"]))


async def _last_words(wire: Wire, message: dict[str, Any]) -> None:
    try:
        await wire.send(message)
    except (SlowReader, ClientDisconnected):
        return


def note_session(session: LiveSession, reason: Reason | None) -> None:
    """Add what a session took to its line."""
    tally = session.tally
    note(
        ended=reason,
        audio_s=round(tally.audio_s, 3),
        heard_s=round(tally.heard_s, 3),
        windows=tally.chunks,
        finals=tally.finals,
        queue_s=round(tally.queue_s, 4),
        worst_lag_s=round(tally.worst_lag_s, 4),
    )
