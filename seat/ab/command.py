"""Carry out `seat ab`: open both sides, compare them, write what was found. Knows the terminal and file names.

SeatError
└── NotInstalled                a library that only this needs is missing
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import typer

from seat.errors import SeatError

NEEDED: Final = ("jiwer", "matplotlib", "whisper_normalizer")
"""What ``seat[ab]`` installs."""


class NotInstalled(SeatError):
    """A library that only this needs is missing."""

    def __init__(self, *, missing: str) -> None:
        super().__init__(f"'seat ab' needs {missing}. Install it in a clone of seat with: pip install '.[ab]'")


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """What is to be compared."""

    a: str
    """One side: an address, 'seat', or settings of a seat to start."""
    b: str
    """The other."""
    clips: Path | None
    """A folder or manifest with transcripts; None for the bundled clips."""
    rounds: int
    """How often each clip counts for each side."""
    out: Path
    """Where the report goes; endings are added."""
    api_key: str | None
    """The key of servers that are running."""
    model: str | None
    """Which of their models."""


def require() -> None:
    """Make sure that what this needs is installed.

    Raises:
        NotInstalled: It is not.
    """
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        raise NotInstalled(missing=", ".join(missing))


def compare(wanted: Wanted) -> None:
    """Compare, print the report, and write OUT.md, OUT.json and OUT.png.

    It is printed first: what cannot be written is not lost.

    Raises:
        SeatError: A side is not there, or there is nothing to send.
        OSError: The clips cannot be read, or the report not be written.
    """
    require()
    from seat.ab import clips as clips_of
    from seat.ab import comparison, plots, report
    from seat.ab.contenders import opened
    from seat.ab.schedule import count
    from seat.bars import Bars
    from seat.child import terminable

    clips = clips_of.gathered(wanted.clips) if wanted.clips else clips_of.bundled()
    with (
        terminable(),
        Bars(count(len(clips), wanted.rounds), what="requests") as bars,
        opened(wanted.a, wanted.api_key, wanted.model) as a,
        opened(wanted.b, wanted.api_key, wanted.model) as b,
    ):
        told, series = comparison.run(a, b, clips, wanted.rounds, bars.end)
    text = report.markdown(told)
    typer.echo(text, nl=False)
    wanted.out.parent.mkdir(parents=True, exist_ok=True)
    added(wanted.out, ".md").write_text(text, encoding="utf-8")
    facts = asdict(told) | {"pairs": {clips[n].name: pairs for n, pairs in series.pairs.items()}}
    added(wanted.out, ".json").write_text(json.dumps(facts, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    plots.draw(added(wanted.out, ".png"), told, series, clips)


def added(out: Path, ending: str) -> Path:
    """A name with an ending behind it: 'v0.1' has none that could be replaced."""
    return Path(f"{out}{ending}")
