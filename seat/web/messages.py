"""Read a live client's messages, bounded in what they may hold. Knows JSON; no protocol, no socket."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

from seat.errors import InvalidEvent

LARGE_MESSAGE: Final = 256 * 1024
"""Bytes of text that are parsed off the event loop: that many take a millisecond."""

MOST_VALUES: Final = 5_000
"""Values in one message; a session has some twenty, but its prompt may hold commas. Python's parser lets nothing else
run: five million in 15 MiB stopped the event loop for seconds, and took 200 MB."""

MOST_LEVELS: Final = 32
"""Objects and arrays in each other, of which events have five. What the parser just about follows, `str` may not."""


def parse(message: str) -> dict[str, Any]:
    """Read a message of the client.

    Raises:
        InvalidEvent: It is no JSON object with a type, or holds more than any event does.
    """
    if sum(map(message.count, ",[{")) > MOST_VALUES:
        raise InvalidEvent(reason=f"it holds more than {MOST_VALUES} values")
    try:
        read = json.loads(message)
    except (ValueError, RecursionError) as fault:
        raise InvalidEvent(reason="it is not JSON") from fault
    if _deeper(read, MOST_LEVELS):
        raise InvalidEvent(reason=f"it is nested deeper than {MOST_LEVELS} levels")
    if not isinstance(read, dict) or not isinstance(read.get("type"), str):
        raise InvalidEvent(reason="it is not an object with a 'type'", param="type")
    return read


def _deeper(value: object, levels: int) -> bool:
    """Whether there are more than so many objects and arrays in each other."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return inner is not None and (not levels or any(_deeper(each, levels - 1) for each in inner))


async def parsed(message: str) -> dict[str, Any]:
    """As `parse`, off the event loop where that takes long."""
    return await asyncio.to_thread(parse, message) if len(message) > LARGE_MESSAGE else parse(message)
