"""Show a seat at work: start one, send it a clip that comes with the package, print what came back, and stop it.

Knows processes, clips and the terminal; no model. The seat is a real one, and what it says went over HTTP.

    SeatError
    └── CannotShow                  the demonstration did not come to its end
        ├── NoClips                 the package came without them
        ├── SeatEnded               the process ended before it was asked to
        └── NeverReady              the process lives, but does not get ready
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from types import FrameType
from typing import IO, TYPE_CHECKING, Any, Final, NoReturn, Self

from seat.errors import SeatError

if TYPE_CHECKING:
    from rich.console import Console

    from seat.client import Client

BUNDLED: Final = "demo"
"""The model whose clips these are. Others may spell what they hear in their own way."""
WANTED_CLIP_S: Final = 5.0
"""Seconds of the clip to show: long enough for a sentence, short enough to read along."""
READY_WITHIN_S: Final = 600.0
"""Seconds for a model to load; one from the hub is fetched in them."""
ASK_EVERY_S: Final = 0.2
"""Seconds between two questions whether it is ready."""
STOP_WITHIN_S: Final = 15.0
"""Seconds for the seat to leave by itself: it waits up to 5 s for a model that is still loading."""
LAST_LINES: Final = 12
"""Lines of its log to show where it ends too early."""

NOT_FOR_THE_CHILD: Final = frozenset(
    {"SEAT_API_KEY", "SEAT_API_KEYS", "SEAT_MODEL", "SEAT_MODEL_SHA256", "PARAKEET_MODEL", "SEAT_LOG_FORMAT"}
)
"""Variables about another model, and about keys: this seat is for one client, on the loopback, for a minute."""


class CannotShow(SeatError):
    """The demonstration did not come to its end."""


class NoClips(CannotShow):
    """The package came without its clips."""

    def __init__(self, *, folder: str) -> None:
        super().__init__(
            f"There are no clips in {folder}. Install seat again; or send a file of your own with 'seat transcribe'."
        )


class SeatEnded(CannotShow):
    """The process ended before it was asked to."""

    def __init__(self, *, exit_code: int, reason: str) -> None:
        super().__init__(f"The seat ended with exit code {exit_code}. {reason}")


class NeverReady(CannotShow):
    """The process lives, but does not get ready."""

    def __init__(self, *, seconds: float, reason: str) -> None:
        super().__init__(f"The seat was not ready within {seconds:g} seconds. {reason}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Clip:
    """A recording of which it is known what is said."""

    path: Path
    """Where it lies."""
    text: str
    """What is said in it."""
    seconds: float
    """How long it is."""


def show(*, model: str, device: str | None) -> int:
    """Run the demonstration.

    Args:
        model: As ``SEAT_MODEL``.
        device: As ``SEAT_DEVICE``, or None for what that says.

    Returns:
        0 where the words are those of the clip, 1 where they differ.

    Raises:
        CannotShow: There is no clip, or no seat.
        NoTranscript: The seat refuses.
    """
    import httpx
    from rich.console import Console

    from seat.client import Client, Wish

    console, progress = Console(highlight=False), Console(stderr=True, highlight=False)
    with (
        _clip() as clip,
        _terminable(),
        _Seat(model, device) as seat,
        # Made here, so that a proxy which the environment names does not stand between us and the loopback.
        Client(seat.url, timeout_s=READY_WITHIN_S, transport=httpx.HTTPTransport()) as client,
    ):
        with _spinner(progress, "Loading: NeMo takes about 10 s to import, a large model longer."):
            seat.wait_until_ready(client)
        wish = Wish(model=client.models()[0], response_format="verbose_json", granularities=("word",))
        console.print(_curl(client, clip, wish.model), markup=False, soft_wrap=True)
        began_at = time.perf_counter()
        with clip.path.open("rb") as file:
            answer = json.loads(client.transcribe(file, clip.path.name, wish))
        took_s = time.perf_counter() - began_at
        _print(console, answer, took_s, client.health()["model"])
    heard = answer["text"]
    if heard == clip.text or (model != BUNDLED and _letters(heard) == _letters(clip.text)):
        return 0
    progress.print(f"The clip says something else: {clip.text}", markup=False, soft_wrap=True)
    return 1


@contextmanager
def _clip() -> Iterator[Clip]:
    """The bundled clip whose length is nearest to `WANTED_CLIP_S`."""
    folder = resources.files("seat.demo") / "clips"
    try:
        transcripts = json.loads((folder / "transcripts.json").read_text(encoding="utf-8"))
    except FileNotFoundError as fault:
        raise NoClips(folder=str(folder)) from fault
    name, known = min(transcripts.items(), key=lambda item: abs(item[1]["seconds"] - WANTED_CLIP_S))
    with resources.as_file(folder / name) as path:
        yield Clip(path=path, text=known["text"], seconds=known["seconds"])


@contextmanager
def _terminable() -> Iterator[None]:
    """Leave by the way of an exception on SIGTERM too, so that the seat does not outlive us."""

    def leave(number: int, _frame: FrameType | None) -> NoReturn:
        sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class _Seat:
    """A seat as a process of its own, on a free port of the loopback; a context manager that always stops it."""

    def __init__(self, model: str, device: str | None) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = str(probe.getsockname()[1])
        self.url = f"http://127.0.0.1:{port}/v1"
        self._command = [sys.executable, "-m", "seat", "serve", "--host", "127.0.0.1", "--port", port, "--model", model]
        self._command += ["--device", device] if device else []

    def __enter__(self) -> Self:
        environment = {name: value for name, value in os.environ.items() if name not in NOT_FOR_THE_CHILD}
        self._log: IO[str] = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")
        self._process = subprocess.Popen(  # noqa: S603  our own interpreter and our own module
            self._command,
            env=environment | {"SEAT_LOG_FORMAT": "json"},
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


def _spinner(console: Console, words: str) -> AbstractContextManager[object]:
    """Turn while something loads; off a terminal, say it once."""
    if console.is_terminal:
        return console.status(words)
    console.print(words, soft_wrap=True)
    return nullcontext()


def _curl(client: Client, clip: Clip, model: str) -> str:
    fields = {"model": model, "response_format": "verbose_json", "timestamp_granularities[]": "word"}
    forms = [*(f"{name}={value}" for name, value in fields.items()), f"file=@{clip.path}"]
    return f"curl {client.url}/audio/transcriptions " + " ".join(f"-F {shlex.quote(form)}" for form in forms)


def _print(console: Console, answer: Mapping[str, Any], took_s: float, model: Mapping[str, Any]) -> None:
    from rich.table import Table

    table = Table("word", "from", "to", "confidence")
    for word in answer["words"]:
        table.add_row(word["word"], f"{word['start']:.2f} s", f"{word['end']:.2f} s", f"{word['confidence']:.0%}")
    console.print("\n" + answer["text"] + "\n", markup=False, soft_wrap=True)
    console.print(table)
    console.print(
        f"{answer['duration']:.2f} s of audio in {took_s:.2f} s: {answer['duration'] / took_s:.0f} times real time, "
        f"by {model['id']} on {model['device']} ({model['device_name']}) in {model['dtype']}.",
        markup=False,
        soft_wrap=True,
    )


def _letters(text: str) -> list[str]:
    """The words alone, without case and punctuation."""
    return "".join(each if each.isalnum() else " " for each in text.lower()).split()
