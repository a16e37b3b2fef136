"""Run a seat as a process of one's own, for a while. Knows processes, ports and log lines; no model, no terminal.

SeatError
└── NoChild                     there is no seat to talk to
    ├── SeatEnded               the process ended before it was asked to
    └── NeverReady              the process lives, but does not get ready
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import IO, TYPE_CHECKING, Final, NoReturn, Self

from seat.errors import SeatError

if TYPE_CHECKING:
    from seat.client import Client

READY_WITHIN_S: Final = 600.0
"""Seconds for a model to load; one from the hub is fetched in them."""
ASK_EVERY_S: Final = 0.2
"""Seconds between two questions whether it is ready."""
STOP_WITHIN_S: Final = 15.0
"""Seconds for the seat to leave by itself: it waits up to 5 s for a model that is still loading."""
LAST_LINES: Final = 12
"""Lines of its log to show where it ends too early."""

KEYS: Final = frozenset({"SEAT_API_KEY", "SEAT_API_KEYS"})
"""Variables about keys: this seat is for one client, on the loopback."""


class NoChild(SeatError):
    """There is no seat to talk to."""


class SeatEnded(NoChild):
    """The process ended before it was asked to."""

    def __init__(self, *, exit_code: int, reason: str) -> None:
        super().__init__(f"The seat ended with exit code {exit_code}. {reason}")


class NeverReady(NoChild):
    """The process lives, but does not get ready."""

    def __init__(self, *, seconds: float, reason: str) -> None:
        super().__init__(f"The seat was not ready within {seconds:g} seconds. {reason}")


class Child:
    """A seat as a process of its own, on a free port of the loopback; a context manager that always stops it."""

    def __init__(self, settings: Mapping[str, str | None]) -> None:
        """Prepare it.

        Args:
            settings: Variables for it beside those of this process; None takes one away.
        """
        self._settings = dict.fromkeys(KEYS) | dict(settings) | {"SEAT_LOG_FORMAT": "json"}
        self._port = str(free_port())
        self.url = f"http://127.0.0.1:{self._port}/v1"

    def __enter__(self) -> Self:
        environment = {**os.environ, **self._settings}
        self._log: IO[str] = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")
        self._process = subprocess.Popen(  # noqa: S603  our own interpreter and our own module
            [sys.executable, "-m", "seat", "serve", "--host", "127.0.0.1", "--port", self._port],
            env={name: value for name, value in environment.items() if value is not None},
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C reaches us alone; we stop it
        )
        return self

    def __exit__(self, *_fault: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()

    def wait_until_ready(self, client: Client) -> None:
        """Ask until it is ready.

        Raises:
            SeatEnded: The process is gone.
            NeverReady: It takes longer than any model should.
        """
        from seat.client import Unreachable

        give_up_at = time.monotonic() + READY_WITHIN_S
        while time.monotonic() < give_up_at:
            try:
                if client.ready():
                    return
            except Unreachable:
                if (exit_code := self._process.poll()) is not None:
                    raise SeatEnded(exit_code=exit_code, reason=self._last_words()) from None
            time.sleep(ASK_EVERY_S)
        raise NeverReady(seconds=READY_WITHIN_S, reason=self._last_words())

    def _last_words(self) -> str:
        """Why it says that it cannot start, else the end of its log."""
        self._log.seek(0)
        lines = self._log.read().splitlines()
        for line in lines:
            if '"cannot_start"' in line:
                return str(json.loads(line)["reason"])
        return "Its last lines:\n" + "\n".join(lines[-LAST_LINES:])


def free_port() -> int:
    """A port of the loopback that nobody has now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def terminable() -> Iterator[None]:
    """Leave by the way of an exception on SIGTERM too, so that no child outlives us."""

    def leave(number: int, _frame: FrameType | None) -> NoReturn:
        sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
