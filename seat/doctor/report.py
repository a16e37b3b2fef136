"""Write what a doctor found, for people and programs. Knows lines and exit codes; judges nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from functools import partial
from typing import Final

import typer

from seat import __version__
from seat.doctor import findings, visit
from seat.doctor.findings import Finding, Level
from seat.settings import Settings, of_command_line

COLOURS: Final = {Level.OK: "green", Level.WARN: "yellow", Level.FAIL: "red"}
SICK: Final = 1
"""Exit code where a check fails; warnings leave 0."""


def examine(*, url: str | None, api_key: str | None, model: str | None, device: str | None, as_json: bool) -> int:
    """Examine a seat and print a line for each check as it is made.

    Returns:
        1 where one fails, else 0.
    """
    settings, first = visit.understood(of_command_line(), model=model, device=device)
    found: list[Finding] = []
    for finding in _found(first, url, api_key, settings):
        found.append(finding)
        if not as_json:
            _print(finding)
    if as_json:
        typer.echo(as_json_text(found))
    return SICK if findings.worst(found) is Level.FAIL else 0


def _found(first: Finding, url: str | None, api_key: str | None, settings: Settings | None) -> Iterable[Finding]:
    yield first
    if url is not None:
        yield from visit.elsewhere(url, api_key, settings or Settings())
    elif settings is not None:
        from seat.order import hush
        from seat.serve import load_nemo

        hush(settings)
        yield from asyncio.run(visit.here(settings, partial(load_nemo, settings)))


def as_json_text(found: Sequence[Finding]) -> str:
    """All findings, with the worst level first."""
    told = {"version": __version__, "level": findings.worst(found), "findings": [asdict(finding) for finding in found]}
    return json.dumps(told, ensure_ascii=False)


def _print(finding: Finding) -> None:
    level = typer.style(f"{finding.level:<5}", fg=COLOURS[finding.level])
    typer.echo(f"{level} {finding.check:<12} {finding.said}")
    if finding.next_step:
        typer.echo(f"{'':<18} → {finding.next_step}")
