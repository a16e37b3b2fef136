"""Bound what requests hold together: uploads, places, decoded audio. Knows numbers; nothing of what they count."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from seat.errors import QueueFull

RETRY_AFTER_S = 5
"""Seconds after which a place may be free again: longer than a clip takes, shorter than a person waits."""


class Budget:
    """A bounded sum; any thread may draw on it. Who has held something for longest may hold any amount.

    So a file larger than the limit gets through where it is first, and of several that grow together one does.
    """

    def __init__(self, limit: int, describe: Callable[[int], str]) -> None:
        """Begin with nothing drawn.

        Args:
            limit: What all requests may hold together.
            describe: Says how much is held, for the sentence of a refusal: '12 requests'.
        """
        self._limit, self._describe = limit, describe
        self._lock = threading.Lock()
        self._holders: dict[object, int] = {}
        """What each request holds that holds anything, the first to draw first."""
        self.held = 0
        """What all requests hold now."""

    @contextmanager
    def share(self) -> Iterator[Callable[[int], None]]:
        """A request's share: call what is given to draw more; all of it comes back at the end.

        Drawing raises `QueueFull` where others have held something for longer and there would be too much; nothing is
        drawn then.
        """
        me = object()

        def draw(amount: int) -> None:
            with self._lock:
                if next(iter(self._holders), me) is not me and self.held + amount > self._limit:
                    raise QueueFull(waiting=self._describe(self.held), retry_after_s=RETRY_AFTER_S)
                self.held += amount
                self._holders[me] = self._holders.get(me, 0) + amount

        try:
            yield draw
        finally:
            with self._lock:
                self.held -= self._holders.pop(me, 0)
