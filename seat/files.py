"""Transcribe files, some at a time, by a model in this process or by a server. Knows the order; no arguments."""

from __future__ import annotations

import enum
import json
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from anyio.from_thread import start_blocking_portal

from seat import formats
from seat.bars import Bars
from seat.errors import ModelNotFound, ModelUnavailable, QueueFull, SeatError
from seat.formats import GRANULARITIES
from seat.inputs import STDIN, Item
from seat.outputs import Output
from seat.sentences import sentence

if TYPE_CHECKING:
    from seat.client import Client
    from seat.recognizer import Recognizer
    from seat.settings import Settings
    from seat.transcript import Transcript

Hear = Callable[[BinaryIO, str, "Bars"], str]
"""Turns an open file with a name into the text to write, showing how far it is."""


class OutputFormat(enum.StrEnum):
    """OpenAI's five formats, as in `seat.formats`."""

    TEXT = "text"
    JSON = "json"
    SRT = "srt"
    VTT = "vtt"
    VERBOSE_JSON = "verbose_json"

    @property
    def suffix(self) -> str:
        """The ending of a file in this format."""
        return {"text": ".txt", "verbose_json": ".json"}.get(self.value, f".{self.value}")


@contextmanager
def by_model(
    settings: Settings, load_recognizer: Callable[[], Recognizer], output_format: OutputFormat
) -> Iterator[Hear]:
    """Load a model into this process, behind the same service that a server has.

    A file that finds no room beside others is heard again by itself: where a server's client asks again by the clock,
    here it is known when they are done.

    Raises:
        CannotStart: It cannot be loaded.
    """
    from seat.service import Service

    faults: list[BaseException] = []
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(Service(settings, load_recognizer, faults.append)) as service,
    ):
        portal.call(service.loaded)
        for fault in faults:
            if isinstance(fault, SeatError):
                raise fault
            raise ModelUnavailable(model=settings.model, reason=f"{type(fault).__name__}: {fault}") from fault

        def hear(file: BinaryIO, _name: str, bars: Bars) -> str:
            return written(portal.call(service.transcribe, file, bars.heard), output_format)

        yield _Patient(hear)


class _Patient:
    """Hears files side by side, and those for which there was no room then one by one."""

    def __init__(self, hear: Hear) -> None:
        self._hear = hear
        self._changed = threading.Condition()
        self._inside = 0
        self._alone = False

    def __call__(self, file: BinaryIO, name: str, bars: Bars) -> str:
        """Hear one; it is read twice where there was no room the first time."""
        with suppress(QueueFull), self._place(alone=False):
            return self._hear(file, name, bars)
        with self._place(alone=True):  # out of reach of the fault, whose frames hold what was decoded
            return self._hear(file, name, bars)

    @contextmanager
    def _place(self, *, alone: bool) -> Iterator[None]:
        """Wait until nobody is or wants to be alone, and, to be alone oneself, until the others have left."""
        with self._changed:
            self._changed.wait_for(lambda: not self._alone)
            self._alone = alone
            self._changed.wait_for(lambda: not alone or not self._inside)
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._alone = self._alone and not alone
                self._changed.notify_all()


@contextmanager
def by_server(client: Client, model_name: str | None, output_format: OutputFormat) -> Iterator[Hear]:
    """Have a server hear.

    Raises:
        NoTranscript: It is not there, or shows no models.
    """
    from seat.client import Refused, Wish

    def hear(file: BinaryIO, name: str, bars: Bars) -> str:
        try:
            body = client.transcribe(file, name, wish, bars.sent)
        except Refused as refusal:
            if refusal.status == HTTPStatus.NOT_FOUND:
                raise ModelNotFound(model=wish.model, served=client.models()) from refusal
            raise
        return body if body.endswith("\n") or not body else body + "\n"

    with client:
        wish = Wish(
            model=model_name or client.models()[0],
            response_format=output_format.value,
            granularities=GRANULARITIES if output_format is OutputFormat.VERBOSE_JSON else (),
        )
        yield hear


def written(transcript: Transcript, output_format: OutputFormat) -> str:
    """The transcript in a format, as a server would send it, with a line feed at its end."""
    answer = formats.render(transcript, output_format.value, GRANULARITIES)
    if isinstance(answer, str):
        return answer
    return json.dumps(answer, ensure_ascii=False, separators=(",", ":")) + "\n"


def each(items: Sequence[Item], hear: Hear, output: Output, bars: Bars, jobs: int = 1) -> int:
    """Transcribe files, so many at a time; one that fails is reported, and the others go on.

    Args:
        items: What to transcribe. One at a time, they are delivered in this order; else as they are done.
        hear: What turns a file into text; called by as many threads as there are jobs.
        output: Where the texts go.
        bars: What shows how far it is.
        jobs: Files at the same time.

    Returns:
        How many failed.
    """
    if jobs == 1:  # on this thread, where Ctrl-C reaches it
        return sum(_one(item, hear, output, bars) for item in items)
    with ThreadPoolExecutor(jobs) as pool:
        try:
            return sum(pool.map(lambda item: _one(item, hear, output, bars), items))
        except BaseException:  # those in work are finished, the others not begun
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _one(item: Item, hear: Hear, output: Output, bars: Bars) -> int:
    """Transcribe a file: 1 where it failed, else 0."""
    bars.begin(item.name.name)
    try:
        with _opened(item.path) as file:
            text = hear(file, item.name.name, bars)
        output.deliver(item, text)
    except BrokenPipeError:  # whoever read our output has left
        raise
    except (SeatError, OSError) as fault:
        bars.say(f"{item.path}: {sentence(fault)}")
        output.lament(item, sentence(fault))
        return 1
    finally:
        bars.end()
    return 0


def left_to_do(items: Sequence[Item], output: Output, bars: Bars) -> list[Item]:
    """The files that an earlier run has not done."""
    left = [item for item in items if not output.has(item)]
    if done := len(items) - len(left):
        bars.say(f"{done} of {len(items)} files are done; --again does them anew.")
    for _ in range(done):
        bars.end()
    return left


def is_there(item: Item, output: Output, bars: Bars) -> bool:
    """Whether there is a file, asked before a model is loaded for it; where there is none, that is reported."""
    if item.path == STDIN or item.path.exists():
        return True
    reason = "There is no such file. Check its name; '-' reads standard input."
    bars.say(f"{item.path}: {reason}")
    output.lament(item, reason)
    bars.end()
    return False


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """A seekable file; what comes by a pipe is spooled."""
    with path.open("rb") if path != STDIN else nullcontext(sys.stdin.buffer) as source:
        if source.seekable():
            yield source
            return
        with tempfile.TemporaryFile() as spooled:
            shutil.copyfileobj(source, spooled)
            yield cast("BinaryIO", spooled)
