"""Find the files to transcribe: named ones, those in folders, those that manifests list. Knows names; opens no audio.

SeatError
├── NotText                     a file that should hold words is not written in UTF-8
└── InvalidManifest             a manifest cannot be read, or a line of it names no file, or only a part of one
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from seat.errors import SeatError

STDIN: Final = Path("-")
"""Stands for standard input."""

SOUNDS: Final = re.compile(
    r"\.(3gp|aac|aiff?|amr|au|avi|caf|flac|m4[ab]|mkv|mov|mp[234]|mpe?ga?|og[ag]|opus|wav|webm|wma)", re.IGNORECASE
)
"""Endings of the files that are taken from a folder. A file that is named is tried whatever its ending."""

MANIFESTS: Final = frozenset({".jsonl", ".json"})
"""Endings of manifests: an object a line, as NeMo writes them."""

AUDIO: Final = "audio_filepath"
"""NeMo's name for the file in a line of a manifest."""

OFFSET: Final = "offset"
"""NeMo's name for the second at which a part of a file begins."""


class NotText(SeatError):
    """A file that should hold words is not written in UTF-8."""

    def __init__(self, *, path: Path) -> None:
        super().__init__(f"{path} is no text in UTF-8. Write it in that encoding, or name another file.")


class InvalidManifest(SeatError):
    """A manifest cannot be read, or a line of it names no file, or only a part of one."""

    def __init__(self, *, path: Path, line: int, part: bool) -> None:
        reason = (
            f"It has an '{OFFSET}'. Only whole files are transcribed: cut the part out, and name the new file."
            if part
            else f'It is no object with a file\'s name, such as {{"{AUDIO}": "clip.wav"}}.'
        )
        super().__init__(f"{path}, line {line}: {reason}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """One file to transcribe."""

    path: Path
    """Where it lies."""
    name: Path
    """What to call it where something is written for it: its own name, or its path below the folder it came from."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What a manifest says about it, the file's name left out."""


def expand(paths: Iterable[Path]) -> list[Item]:
    """The files that are named, those below folders that look like sound, and those in manifests, in that order.

    Raises:
        InvalidManifest: A manifest is none.
        OSError: It cannot be read.
    """
    return [item for path in paths for item in _items(path)]


def _items(path: Path) -> Iterator[Item]:
    if path == STDIN:
        yield Item(path=path, name=Path("stdin"))
    elif path.is_dir():
        for each in sorted(path.rglob("*")):
            if SOUNDS.fullmatch(each.suffix) and each.is_file():
                yield Item(path=each, name=each.relative_to(path))
    elif path.suffix in MANIFESTS and path.is_file():
        yield from _listed(path)
    else:
        yield Item(path=path, name=Path(path.name))


def _listed(manifest: Path) -> Iterator[Item]:
    """The files of a manifest; relative names are below its folder."""
    with manifest.open("rb") as lines:  # a line that is no UTF-8 is no JSON
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                facts = json.loads(line)
                named = Path(facts.pop(AUDIO))
            except (ValueError, KeyError, TypeError, AttributeError) as fault:
                raise InvalidManifest(path=manifest, line=number, part=False) from fault
            if facts.get(OFFSET):
                raise InvalidManifest(path=manifest, line=number, part=True)
            path = named if named.is_absolute() else manifest.parent / named
            yield Item(path=path, name=Path(named.name) if named.is_absolute() else named, facts=facts)
