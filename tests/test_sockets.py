"""A live session on its websocket: how it ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from litestar.exceptions import WebSocketDisconnect

from seat.errors import ClientDisconnected, DeviceLost, InvalidEvent, SlowReader
from seat.live import LiveSession
from seat.recognizer import Chunk
from seat.settings import Settings
from seat.streams import Streams
from seat.turn import Words
from seat.web.messages import MOST_LEVELS, MOST_VALUES, parse
from seat.web.realtime import _Conversation
from seat.web.realtime_config import Config
from seat.web.sockets import (
    LARGEST_MESSAGE,
    MOST_STRANGERS,
    CloseCode,
    Lobby,
    Socket,
    Wire,
    _gone,
    told,
)
from seat.windows import LiveWindow
from tests.fakes import VOCABULARY


class FakeSocket:
    """A websocket whose client reads, or does not, or is gone."""

    def __init__(self, *, reads: bool = True, gone: bool = False, says: object = None) -> None:
        self.reads, self.gone, self.says = reads, gone, says
        self.sent: list[dict[str, Any]] = []
        self.closed: tuple[int, str] | None = None

    async def send_text(self, text: str) -> None:
        """Take it, or never."""
        if self.gone:
            raise WebSocketDisconnect(detail="gone")
        if not self.reads:
            await asyncio.Event().wait()
        self.sent.append(json.loads(text))

    async def receive(self) -> object:
        """What the client says, all the time; or nothing, ever."""
        if self.says is None:
            await asyncio.Event().wait()
        return self.says

    async def close(self, code: int, reason: str) -> None:
        """Note how."""
        self.closed = (code, reason)


def wire(socket: FakeSocket) -> Wire:
    """A wire to it, with little patience."""
    return Wire(cast("Socket", socket), Lobby(), slow_s=0.05)


async def test_who_does_not_read_is_closed_with_the_reason() -> None:
    """Nothing more is said to them; the session that speaks stops with the same error."""
    socket = FakeSocket(reads=False)
    line = wire(socket)

    async def tell(event: object) -> None:
        if isinstance(event, Words):
            await line.send({"type": "final"})

    async def hear(_chunk: Chunk, _deadline_at: float) -> Any:
        raise AssertionError

    session = LiveSession(hear, VOCABULARY, LiveWindow.of_seconds((1, 1, 1), 1280), tell, turns=None, most_waiting_s=5)
    session.commit()
    async with told(line, lambda body: {"error": body}):
        with pytest.raises(SlowReader):
            await session.run()
        raise SlowReader(seconds=1)
    assert (socket.sent, socket.closed) == ([], (CloseCode.POLICY, "slow_reader"))


@pytest.mark.parametrize(
    "fault, code, reason",
    [
        (InvalidEvent(reason="no"), CloseCode.POLICY, "invalid_event"),
        (DeviceLost(), CloseCode.TRY_LATER, "gpu_lost"),
        (ZeroDivisionError(), CloseCode.INTERNAL, "internal_error"),
    ],
)
async def test_every_fault_is_told(fault: Exception, code: CloseCode, reason: str) -> None:
    """In the protocol's own message, then by the code that says whose it is; what is ours says nothing of itself."""
    socket = FakeSocket()
    async with told(wire(socket), lambda body: {"type": "error", "error": body}):
        raise fault
    assert [message["error"]["code"] for message in socket.sent] == [reason]
    assert socket.closed == (code, reason)


async def test_who_reads_nothing_is_told_nothing_more() -> None:
    """Though just then it begins to read: that would be half an event late, and nobody waits for it."""
    socket = FakeSocket()
    async with told(wire(socket), lambda body: {"error": body}):
        raise SlowReader(seconds=1)
    assert (socket.sent, socket.closed) == ([], (CloseCode.POLICY, "slow_reader"))


async def test_a_few_that_are_refused_may_finish_what_they_say() -> None:
    """What they send is held meanwhile; of many, the others are closed at once."""
    lobby, closed = Lobby(), list[int]()

    class Talking(FakeSocket):
        async def receive(self) -> object:
            await asyncio.sleep(0.01)
            return {"type": "websocket.receive", "bytes": b"sound"}

    async def refuse(number: int) -> None:
        async with told(Wire(cast("Socket", Talking()), lobby), lambda body: body):
            raise InvalidEvent(reason="no")
        closed.append(number)

    await asyncio.gather(*map(refuse, range(MOST_STRANGERS + 2)))
    assert closed[:2] == [MOST_STRANGERS, MOST_STRANGERS + 1]
    assert len(closed) == MOST_STRANGERS + 2


async def test_who_says_too_much_is_not_gone() -> None:
    """While what came before is still heard."""
    large = {"type": "websocket.receive", "bytes": bytes(LARGEST_MESSAGE + 1)}
    said = [large, large, {"type": "websocket.disconnect", "code": 1000}]

    class Saying(FakeSocket):
        async def receive(self) -> object:
            return said.pop(0)

    await _gone(wire(Saying()))
    assert not said


async def test_who_is_gone_is_told_nothing() -> None:
    """Whichever side notices first."""
    socket = FakeSocket(gone=True, says={"type": "websocket.disconnect", "code": 1005})
    for attempt in cast("list[Callable[[], Any]]", [lambda: wire(socket).send({}), lambda: wire(socket).receive()]):
        with pytest.raises(ClientDisconnected):
            await attempt()
    async with told(wire(socket), lambda body: body):
        raise ClientDisconnected
    assert (socket.sent, socket.closed) == ([], None)


async def test_who_does_not_read_what_an_event_brought_is_closed_too() -> None:
    """Such an end is no faulty event that could be answered."""
    socket = FakeSocket(reads=False, says={"type": "websocket.receive", "text": '{"type":"input_audio_buffer.clear"}'})
    config = Config.of_model("demo", ["demo"])
    streams = cast("Streams", SimpleNamespace(limits=SimpleNamespace(session_s=None)))
    conversation = _Conversation(wire(socket), Settings(), config, streams)

    async def hear(_chunk: Chunk, _deadline_at: float) -> Any:
        raise AssertionError

    session = LiveSession(
        hear, VOCABULARY, LiveWindow.of_seconds((1, 1, 1), 1280), conversation.tell, turns=None, most_waiting_s=5
    )
    with pytest.raises(SlowReader):
        await conversation.pump(session)


async def test_messages_are_bounded() -> None:
    """In bytes and in kind."""
    large = FakeSocket(says={"type": "websocket.receive", "bytes": bytes(LARGEST_MESSAGE + 1)})
    with pytest.raises(InvalidEvent):
        await wire(large).receive()
    assert await wire(FakeSocket(says={"type": "websocket.receive", "text": "hello"})).receive() == "hello"
    assert parse('{"type":"close"}') == {"type": "close"}
    for text in ("", "[]", "{}", '{"type":[]}', "[" * 100_000):
        with pytest.raises(InvalidEvent):
            parse(text)


@pytest.mark.parametrize(
    "value",
    [
        "[" * MOST_LEVELS + "]" * MOST_LEVELS,
        "[1" + ",1" * MOST_VALUES + "]",
        "[1" + ",[[{}]]" * (MOST_VALUES // 3) + "]",
    ],
    ids=["deep", "many", "many and deep"],
)
def test_no_event_holds_so_much(value: str) -> None:
    """It would stop the event loop while it is read, or break off where an error repeats it."""
    with pytest.raises(InvalidEvent):
        parse(f'{{"type":"close","more":{value}}}')
