"""Streams: events as words are settled, and an error where it can still be seen."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack, aclosing
from typing import Any

import pytest

from seat.errors import ClientDisconnected, MemoryLimit, RecognitionFailed
from seat.hearing import NewWords
from seat.transcript import Segment, Token, Transcript, Word
from seat.web.streaming import END, PING, EventStream, events


def _word(text: str) -> Word:
    tokens = (Token(number=1, text=text[0], probability=0.5), Token(number=2, text=text[1:], probability=0.0))
    return Word(text=text, start_s=0.0, end_s=1.0, confidence=0.5, tokens=tokens)


ONE, TWO, THREE = map(_word, ("one", "two", "three"))
TRANSCRIPT = Transcript(
    segments=(Segment(words=(ONE, TWO, THREE), tokens=(1, 2), avg_logprob=-1.0),), duration_s=8.47, language="en"
)


async def _all_right(on_words: NewWords) -> Transcript:
    on_words([ONE, TWO])
    on_words([THREE])
    return TRANSCRIPT


def _objects(written: list[bytes]) -> list[dict[str, Any]]:
    return [json.loads(event.removeprefix(b"data: ")) for event in written if event not in (PING, END)]


async def _listed(transcribe: Any, *, with_logprobs: bool = False) -> list[bytes]:
    return [event async for event in events(transcribe, with_logprobs=with_logprobs)]


async def test_deltas_joined_are_the_text() -> None:
    """Then the text as a whole with its bill, then the end."""
    written = await _listed(_all_right)
    first, second, done = _objects(written)
    assert (first["delta"], second["delta"]) == ("one two", " three")
    assert done == {
        "type": "transcript.text.done",
        "text": first["delta"] + second["delta"],
        "usage": {"type": "duration", "seconds": 9},
    }
    assert written[-1] == END
    assert all(event.endswith(b"\n\n") and event.count(b"\n") == 2 for event in written)


async def test_tokens_joined_are_the_deltas() -> None:
    """Every logarithm is finite, that of a probability of nothing too; bytes are those of the token."""
    first, second, done = _objects(await _listed(_all_right, with_logprobs=True))
    for event, said in ((first, first["delta"]), (second, second["delta"]), (done, done["text"])):
        assert "".join(row["token"] for row in event["logprobs"]) == said
        assert b"".join(bytes(row["bytes"]) for row in event["logprobs"]).decode() == said
    assert done["logprobs"] == first["logprobs"] + second["logprobs"]
    assert [round(row["logprob"], 3) for row in first["logprobs"]] == [-0.693, -23.026] * 2


async def test_silence_is_an_empty_text() -> None:
    """No delta, and still an end."""

    async def transcribe(_on_words: NewWords) -> Transcript:
        return Transcript(segments=(), duration_s=1.0, language="en")

    (done,) = _objects(await _listed(transcribe))
    assert (done["type"], done["text"]) == ("transcript.text.done", "")


async def test_comments_fill_a_silence_once_there_was_an_event() -> None:
    """Before it nothing may be sent: the answer may still become an error with a status."""
    go_on = asyncio.Event()

    async def transcribe(on_words: NewWords) -> Transcript:
        await asyncio.sleep(0)
        on_words([ONE])
        await go_on.wait()
        return TRANSCRIPT

    async with aclosing(events(transcribe, with_logprobs=False, ping_s=0.001)) as stream:
        assert (await anext(stream)).startswith(b"data:")
        assert [await anext(stream) for _ in range(3)] == [PING] * 3
        go_on.set()
        rest = [event async for event in stream if event != PING]
    assert rest[-1] == END


class _Client:
    """An ASGI server's end of a connection."""

    def __init__(self) -> None:
        self.gone = asyncio.Event()
        self.sent: list[dict[str, Any]] = []

    async def receive(self) -> Any:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)

    async def ask(self, transcribe: Any, resources: AsyncExitStack | None = None) -> None:
        stream = EventStream(transcribe, resources or AsyncExitStack(), with_logprobs=False)
        await stream.to_asgi_response()({}, self.receive, self.send)  # type: ignore[arg-type]


async def test_the_head_is_that_of_a_stream() -> None:
    """Exactly this type, which LiteLLM looks for; no proxy keeps or compresses it."""
    client = _Client()
    await client.ask(_all_right)
    head, *_, last = client.sent
    assert (head["status"], dict(head["headers"])) == (
        200,
        {
            b"content-type": b"text/event-stream",
            b"cache-control": b"no-cache, no-transform",
            b"x-accel-buffering": b"no",
        },
    )
    assert last["more_body"] is False


async def test_a_fault_before_the_first_event_is_raised() -> None:
    """Nothing was sent, so it can have its status."""

    async def transcribe(_on_words: NewWords) -> Transcript:
        raise MemoryLimit

    client = _Client()
    with pytest.raises(MemoryLimit):
        await client.ask(transcribe)
    assert client.sent == []


async def test_a_fault_after_the_first_event_is_an_event() -> None:
    """In OpenAI's shape, then the end of the body; never the sign of a whole transcript."""

    async def transcribe(on_words: NewWords) -> Transcript:
        on_words([ONE])
        raise RecognitionFailed

    client = _Client()
    await client.ask(transcribe)
    *_, error, nothing = client.body.split(b"\n\n")
    name, data = error.split(b"\n")
    assert (name, nothing) == (b"event: error", b"")
    told = json.loads(data.removeprefix(b"data: "))["error"]
    assert (told["type"], told["code"]) == ("server_error", "recognition_failed")
    assert set(told) == {"message", "type", "param", "code"}
    assert END not in client.body
    assert client.sent[-1]["more_body"] is False


@pytest.mark.parametrize("begun", [False, True])
async def test_who_hangs_up_ends_the_work(begun: bool) -> None:  # noqa: FBT001
    """It is cancelled, and only then is the file closed."""
    order: list[str] = []
    working = asyncio.Event()

    async def transcribe(on_words: NewWords) -> Transcript:
        if begun:
            on_words([ONE])
        working.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            order.append("work ended")
        raise AssertionError

    resources = AsyncExitStack()
    resources.callback(order.append, "file closed")
    client = _Client()
    asking = asyncio.create_task(client.ask(transcribe, resources))
    await working.wait()
    while begun and not client.sent:
        await asyncio.sleep(0)
    client.gone.set()
    if begun:
        await asking
    else:
        with pytest.raises(ClientDisconnected):
            await asking
    assert order == ["work ended", "file closed"]
