"""Show on a terminal how far files are, and what is being said. Knows rich's bars; nothing of what is done."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self

import typer


class Bars:
    """Two bars, over files and over the audio of one; a context manager. Off a terminal only sentences are printed.

    They are on standard error: standard output holds transcripts and nothing else.
    """

    def __init__(self, files: int, *, jobs: int = 1, what: str = "files") -> None:
        """Prepare them.

        Args:
            files: How many there are.
            jobs: Files in work at the same time; the bar over the audio is for one.
            what: What is counted.
        """
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[state]}", markup=False),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            disable=not console.is_terminal,
        )
        self._files = self._progress.add_task(what, total=files, state=f"0 of {files}")
        self._audio = self._progress.add_task("", total=None, state="")
        self._alone = jobs == 1
        self._what = ""
        self._count = files
        self._ended = 0
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def say(self, words: str) -> None:
        """Print a line above the bars."""
        self._progress.console.print(words, markup=False, highlight=False, soft_wrap=True)

    def begin(self, what: str, state: str = "") -> None:
        """Name what is in work; how far it is is not known."""
        if not self._alone:
            return
        self._progress.remove_task(self._audio)  # rich cannot make a known total unknown again
        self._audio = self._progress.add_task(what, total=None, state=state)
        self._what = what

    def end(self) -> None:
        """Count one more file as over."""
        with self._lock:
            self._ended += 1
        self._progress.update(self._files, completed=self._ended, state=f"{self._ended} of {self._count}")

    def heard(self, done_s: float, all_s: float) -> None:
        """Show how much of the audio is recognized; a `seat.hearing.Progress`."""
        if self._alone:
            self._progress.update(self._audio, completed=done_s, total=all_s, state=f"{done_s:.0f} of {all_s:.0f} s")

    def sent(self, nbytes: int, of_nbytes: int) -> None:
        """Show how much of the file is sent; once it all is, only that it is waited for."""
        if self._alone and nbytes < of_nbytes:
            self._progress.update(self._audio, completed=nbytes, total=of_nbytes, state="sending")
        else:
            self.begin(self._what, "waiting for the server")

    def wait(self, reason: str, seconds: float) -> None:
        """Say why nothing happens for some seconds, and let them pass."""
        self.say(f"{reason} Asking again in {seconds:g} s.")
        time.sleep(seconds)

    def write(self, text: str) -> None:
        """Write to standard output, without bars in between where both are one terminal."""
        self._progress.stop()
        typer.echo(text, nl=False)
        self._progress.start()


class Newest:
    """The latest words, on the terminal's last line, until they are final; off a terminal nothing is shown."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(stderr=True)

    def replace(self, words: str) -> None:
        """Show these in place of those before: their end, where the line is too short."""
        if self._console.is_terminal:
            self._console.file.write("\r\x1b[K" + words[-(self._console.width - 1) :])
            self._console.file.flush()
