"""Put transcripts where they are wanted: on the screen, in a file each, or in lines of one file. Knows what is done.

What is written is written whole, so that a run which was cut short goes on where it was.

    SeatError
    └── SameTarget                  two files would be written to one
"""

from __future__ import annotations

import codecs
import json
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import IO, Any, Final, Protocol, Self

from seat.errors import SeatError
from seat.inputs import AUDIO, Item, NotText

HEARD: Final = "pred_text"
"""NeMo's name for what a model heard, beside a manifest's ``text`` for what is said."""

ERROR: Final = "error"
"""Why there is no transcript; such a file is tried again by the next run."""


class SameTarget(SeatError):
    """Two files would be written to one."""

    def __init__(self, *, target: Path) -> None:
        super().__init__(f"Two of the files have the same name: both would be written to {target}.")


class Output(Protocol):
    """Where transcripts go. Used by several threads at once, but for the screen."""

    def has(self, item: Item) -> bool:
        """Whether an earlier run has done this file."""

    def deliver(self, item: Item, text: str) -> None:
        """Put down a file's transcript."""

    def lament(self, item: Item, reason: str) -> None:
        """Take note that there is none."""


class Screen:
    """Standard output: transcripts alone, in the order of the files."""

    def __init__(self, say: Callable[[str], None], write: Callable[[str], None], *, several: bool) -> None:
        self._say = say
        self._write = write
        self._several = several

    def has(self, _item: Item) -> bool:
        """Never."""
        return False

    def deliver(self, item: Item, text: str) -> None:
        """Say whose it is on standard error where there are several, and write it."""
        if self._several:
            self._say(f"==> {item.path} <==")
        self._write(text)

    def lament(self, item: Item, reason: str) -> None:
        """Nothing more than was said."""


class Folder:
    """A file each, below a folder, named after the sound."""

    def __init__(self, folder: Path, suffix: str, items: Sequence[Item], *, again: bool) -> None:
        """Choose their places.

        Raises:
            SameTarget: Two of the items have one.
        """
        self._folder = folder
        self._suffix = suffix
        self._again = again
        seen: set[Path] = set()
        for target in map(self.target, items):
            if target in seen:
                raise SameTarget(target=target)
            seen.add(target)

    def target(self, item: Item) -> Path:
        """Where a file's transcript goes."""
        return self._folder / item.name.with_suffix(self._suffix)

    def has(self, item: Item) -> bool:
        """Where its transcript is there."""
        return not self._again and self.target(item).exists()

    def deliver(self, item: Item, text: str) -> None:
        """Write it beside its place first, so that what is in its place is whole."""
        target = self.target(item)
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = target.with_name(f".{target.name}.{os.getpid()}")
        beside.write_text(text, encoding="utf-8")
        beside.replace(target)

    def lament(self, item: Item, reason: str) -> None:
        """A missing file says it."""


class Lines:
    """One file with an object a line, in the order in which they are done; a context manager.

    An object holds the file's name, what a manifest said of it, and the server's JSON, its text under NeMo's name.
    Lines are only ever added, and of a file's lines the last one counts, be it a transcript or an error.
    """

    def __init__(self, path: Path, *, again: bool) -> None:
        """Prepare to add; nothing is opened yet.

        Args:
            path: The file, there or not.
            again: Whether what is in it counts as not done.
        """
        self._path = path
        self._again = again
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        """Read what is there, and open it.

        Raises:
            NotText: It is there, and no text to which a line could be added.
            OSError: It cannot be read or written.
        """
        self._path.parent.mkdir(parents=True, exist_ok=True)
        before, half = _text(self._path) if self._path.is_file() else ("", 0)
        self._done = set() if self._again else _done(before)
        self._file: IO[str] = self._path.open("a", encoding="utf-8", errors="backslashreplace")  # a name may be no text
        if half:
            self._file.truncate(self._file.tell() - half)
        if before and not before.endswith("\n"):  # a run was cut off in the middle of a line
            self._file.write("\n")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def has(self, item: Item) -> bool:
        """Where its last line is there, and no error."""
        return str(item.path) in self._done

    def deliver(self, item: Item, text: str) -> None:
        """Add its line."""
        answer = json.loads(text)
        self._add(item, {HEARD: answer.pop("text")}, answer)

    def lament(self, item: Item, reason: str) -> None:
        """Add a line that says why."""
        self._add(item, {ERROR: reason})

    def _add(self, item: Item, ours: dict[str, Any], answer: Mapping[str, Any] = MappingProxyType({})) -> None:
        known = {name: fact for name, fact in item.facts.items() if name not in {HEARD, ERROR}}  # of an earlier run
        line = json.dumps({AUDIO: str(item.path), **answer, **known, **ours}, ensure_ascii=False)
        with self._lock:
            self._file.write(line + "\n")
            self._file.flush()


def _text(path: Path) -> tuple[str, int]:
    """What is in a file, and how many bytes behind it are half a character: there a run was cut off."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        text = decoder.decode(path.read_bytes())
    except UnicodeDecodeError as fault:
        raise NotText(path=path) from fault
    return text, len(decoder.getstate()[0])


def _done(before: str) -> set[str]:
    """The files whose last line holds no error."""
    done: set[str] = set()
    for told in filter(None, map(_told, before.split("\n"))):  # `splitlines` would cut at U+2028 in a transcript
        (done.discard if ERROR in told else done.add)(told[AUDIO])
    return done


def _told(line: str) -> dict[str, Any] | None:
    """A line of an earlier run; None for half a line, or one of another kind."""
    try:
        told = json.loads(line)
    except ValueError:
        return None
    return told if isinstance(told, dict) and isinstance(told.get(AUDIO), str) else None
