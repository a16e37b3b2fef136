"""Carry out what a user of `seat transcribe` ordered. Knows files, who hears them and where that goes; no arguments."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from seat.bars import Bars
from seat.files import Hear, OutputFormat, by_model, by_server, each, is_there, left_to_do
from seat.inputs import Item, expand
from seat.outputs import Folder, Lines, Output, Screen

if TYPE_CHECKING:
    from seat.settings import Settings

LOCAL_LIMITS: Final[Mapping[str, str]] = {
    "SEAT_MAX_AUDIO_S": "0",
    "SEAT_MAX_QUEUE_AUDIO_S": "inf",
    "SEAT_MAX_REQUESTS": "1000000",
    "SEAT_DEADLINE_S": "604800",
    "SEAT_STALL_S": "604800",
}
"""A server's limits keep one client from the others' share. In this process there is nobody else: no limit, more than
there are threads, and a week. ``SEAT_MAX_DECODED_MIB`` stays, as it is memory; where it is reached, files wait."""

Source = Callable[[Bars, OutputFormat], AbstractContextManager[Hear]]
"""Opens what hears: asked once, where there is something to do."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Order:
    """What is to be transcribed, and where it goes."""

    paths: Sequence[Path]
    """Files, folders and manifests."""
    form: OutputFormat
    """What to write."""
    folder: Path | None
    """Where to write a file for each; None for elsewhere."""
    lines: Path | None
    """The file to which a line for each is added; None for elsewhere."""
    jobs: int
    """Files at the same time."""
    again: bool
    """Whether to do also what an earlier run has done."""

    def misuse(self) -> str | None:
        """Why this cannot be meant, in a sentence; None where it can."""
        if self.folder and self.lines:
            return "--output-dir writes a file for each, --jsonl a line for each: choose one."
        if self.jobs > 1 and not (self.folder or self.lines):
            return "--jobs needs --output-dir or --jsonl: on the screen, transcripts come one after the other."
        if self.lines and self.form in {OutputFormat.SRT, OutputFormat.VTT}:
            return "--jsonl holds text or, with --format verbose_json, words with their times; no subtitles."
        return None

    def carry_out(self, source: Source) -> int:
        """Do it; the number of files that have no transcript now.

        Raises:
            SeatError: A manifest is none, two files would be written to one, or there is nothing that hears.
        """
        items = expand(self.paths)
        with ExitStack() as stack:
            bars = stack.enter_context(Bars(len(items), jobs=self.jobs))
            output = self._output(items, bars, stack)
            if not items:
                bars.say("There is nothing to transcribe: the folders hold no sound, the manifests no lines.")
            left = left_to_do(items, output, bars)
            there = [item for item in left if is_there(item, output, bars)]
            failed = len(left) - len(there)
            if there:
                form = self.form
                if self.lines and form is OutputFormat.TEXT:
                    form = OutputFormat.JSON
                failed += each(there, stack.enter_context(source(bars, form)), output, bars, self.jobs)
        return failed

    def _output(self, items: Sequence[Item], bars: Bars, stack: ExitStack) -> Output:
        if self.folder:
            return Folder(self.folder, self.form.suffix, items, again=self.again)
        if self.lines:
            return stack.enter_context(Lines(self.lines, again=self.again))
        return Screen(bars.say, bars.write, several=len(items) > 1)


def by_url(url: str, api_key: str | None, model_name: str | None) -> Source:
    """Let a server hear."""

    def opened(bars: Bars, form: OutputFormat) -> AbstractContextManager[Hear]:
        from seat.client import Client

        return by_server(Client(url, api_key=api_key, wait=bars.wait), model_name, form)

    return opened


def by_settings(model: str | None, device: str | None) -> Source:
    """Let a model in this process hear."""

    def opened(bars: Bars, form: OutputFormat) -> AbstractContextManager[Hear]:
        from seat.serve import load_nemo

        settings = settings_here(model, device)
        bars.begin(f"loading {settings.model_id}")
        return by_model(settings, partial(load_nemo, settings), form)

    return opened


def settings_here(model: str | None, device: str | None) -> Settings:
    """Read the settings for a model in this process, and keep the terminal clear."""
    from seat import settings

    wanted = settings.read({**LOCAL_LIMITS, **settings.of_command_line()}, model=model, device=device)
    hush(wanted)
    return wanted


def hush(settings: Settings) -> None:
    """Let only errors of other people's code reach the terminal, before a model is loaded into this process."""
    from seat.telemetry import configure_logging

    configure_logging(settings.log_format)
    logging.getLogger().setLevel(logging.ERROR)
