"""What the card's tests measured, as JSON and as the README's tables. Knows figures and units; measures nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

VARIANTS = ("eager", "graphs", "compiled")


class Report:
    """Facts by name, written as they come: what a run had found before it was ended is there too."""

    def __init__(self, path: Path | None, *, rehearsed: bool) -> None:
        self.facts: dict[str, Any] = {"rehearsed": rehearsed}
        self._path = path

    def record(self, name: str, facts: Any) -> None:
        """Add facts under a name."""
        self.facts[name] = facts
        if self._path is not None:
            self._path.write_text(self.text())

    def text(self) -> str:
        """All of them."""
        return json.dumps(self.facts, indent=1)


def markdown(facts: dict[str, Any]) -> str:
    """The tables, with a line on where they come from; what was not measured is left out."""
    parts = [_where(facts), _memory(facts.get("memory", [])), _latency(facts), _promises(facts)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _where(facts: dict[str, Any]) -> str:
    where = facts.get("where", {})
    words = [
        where.get("device", "nowhere"),
        *(f"{name} {number}" for name, number in where.get("versions", {}).items()),
    ]
    return ("REHEARSED ON A PROCESSOR, TINY: " if facts["rehearsed"] else "") + ", ".join(words)


def _memory(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return ""
    names = ("window_s", "rest_mib", "peak_mib", "reserved_mib", "allocated_mib")
    return _table(
        ("window, s", "rest, MiB", "peak, MiB", "reserved at most, MiB", "allocated at most, MiB"),
        [[row.get(name) for name in names] for row in rows],
    )


def _latency(facts: dict[str, Any]) -> str:
    runs = {name: facts[name] for name in VARIANTS if facts.get(name, {}).get("latency_ms")}
    if not runs:
        return ""
    clips = list(next(iter(runs.values()))["latency_ms"])
    heads = [f"{name} ({run['graphs']} graphs)" if name == "graphs" else name for name, run in runs.items()]
    return _table(
        ("clip, s", *(f"{head}, ms" for head in heads)),
        [[clip, *(run["latency_ms"][clip] for run in runs.values())] for clip in clips],
    )


def _promises(facts: dict[str, Any]) -> str:
    names = ("cap", "attempts", "nvml", "attention", "weights")
    return "\n".join(f"- {name}: {json.dumps(facts[name])}" for name in names if name in facts)


def _table(heads: tuple[str, ...], rows: list[list[Any]]) -> str:
    lines = [heads, ["---:"] * len(heads), *rows]
    return "\n".join("| " + " | ".join("" if cell is None else str(cell) for cell in line) + " |" for line in lines)
