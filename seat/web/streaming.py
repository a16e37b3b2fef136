"""Send a transcript while it is made, as server-sent events. Knows ASGI and the order of events; no audio, no form.

Nothing is sent before the first event: until then a fault is an answer of its own, with its status.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, aclosing
from typing import Any, Final, cast

from litestar import Response
from litestar.response.base import ASGIResponse
from litestar.types import Receive, Scope, Send

from seat import formats
from seat.errors import ClientDisconnected, ShuttingDown
from seat.hearing import NewWords
from seat.telemetry import note
from seat.transcript import Transcript, Word
from seat.web.disconnect import unless_disconnected
from seat.web.problems import problem_of

PING_S: Final = 15.0
"""Seconds without an event after which a comment is sent, so that no proxy takes the silence for an end."""

PING: Final = b": ping\n\n"
"""A comment: clients read past it."""

END: Final = b"data: [DONE]\n\n"
"""Where the openai SDK stops to read."""

HEADERS: Final = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)
"""The content type without a character set, as LiteLLM looks for it; and proxies shall neither keep nor compress."""


class EventStream(Response[None]):
    """An answer that transcribes while it is sent."""

    def __init__(
        self,
        transcribe: Callable[[NewWords], Coroutine[Any, Any, Transcript]],
        resources: AsyncExitStack,
        *,
        with_logprobs: bool,
    ) -> None:
        """Begin nothing yet.

        Args:
            transcribe: Called with who wants to know of new words.
            resources: What must stay open until nobody transcribes any more; closed at the end, whatever it is.
            with_logprobs: Whether events carry tokens.
        """
        super().__init__(None)
        self._transcribe, self._resources = transcribe, resources
        self._with_logprobs = with_logprobs
        self._begun = False

    def to_asgi_response(self, **_: Any) -> ASGIResponse:  # type: ignore[override]  # noqa: ANN401  Litestar's own
        """What Litestar calls to send an answer."""
        return cast("ASGIResponse", self._answer)

    async def _answer(self, _scope: Scope, receive: Receive, send: Send) -> None:
        async with self._resources:
            try:
                await unless_disconnected(receive, self._relay(send))
            except ClientDisconnected as fault:
                if not self._begun:
                    raise
                note(error=fault.code)
            except asyncio.CancelledError:
                if self._begun:
                    await self._break_off(send, ShuttingDown())
                raise

    async def _relay(self, send: Send) -> None:
        try:
            async with aclosing(events(self._transcribe, with_logprobs=self._with_logprobs)) as ready:
                async for event in ready:
                    await self._send(send, event)
        except Exception as fault:
            if not self._begun:
                raise
            await self._break_off(send, fault)
        else:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _break_off(self, send: Send, fault: Exception) -> None:
        problem = problem_of(fault)
        note(error=problem.code)
        event = b"event: error\n" + _event({"error": problem.error})
        await send({"type": "http.response.body", "body": event, "more_body": False})

    async def _send(self, send: Send, event: bytes) -> None:
        if not self._begun:
            self._begun = True
            await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        await send({"type": "http.response.body", "body": event, "more_body": True})


async def events(
    transcribe: Callable[[NewWords], Coroutine[Any, Any, Transcript]], *, with_logprobs: bool, ping_s: float = PING_S
) -> AsyncGenerator[bytes]:
    """Transcribe, and give an event for all words that are settled together, one at the end, and comments between.

    Args:
        transcribe: Called with who wants to know of new words.
        with_logprobs: Whether events carry tokens.
        ping_s: Seconds without an event after which there is a comment; none before the first event.

    Raises:
        SeatError: The transcription failed; where this is closed or cancelled, it is cancelled and waited for.
    """
    arrived: asyncio.Queue[Sequence[Word] | None] = asyncio.Queue()
    transcribing = asyncio.create_task(transcribe(arrived.put_nowait))
    transcribing.add_done_callback(lambda _: arrived.put_nowait(None))
    first = True
    try:
        while True:
            try:
                async with asyncio.timeout(None if first else ping_s):
                    words = await arrived.get()
            except TimeoutError:
                yield PING
                continue
            if words is None:
                break
            yield _event(formats.delta(words, first=first, with_logprobs=with_logprobs))
            first = False
        transcript = await transcribing
        yield await asyncio.to_thread(lambda: _event(formats.done(transcript, with_logprobs=with_logprobs)))
        yield END
    finally:
        transcribing.cancel()
        await asyncio.wait([transcribing])
        if not transcribing.cancelled():
            transcribing.exception()  # who closes this early does not want to know


def _event(content: dict[str, Any]) -> bytes:
    written = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return f"data: {written}\n\n".encode()
