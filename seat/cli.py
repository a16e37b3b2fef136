"""The `seat` command. Knows arguments, the terminal, exit codes and next steps; imports what is heavy late."""

from __future__ import annotations

import asyncio
import enum
import json
import logging
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager, nullcontext
from functools import partial
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, BinaryIO, Final, Self, cast

import typer

from seat import __version__, formats
from seat.errors import ModelNotFound, ModelUnavailable, RecognitionFailed, SeatError
from seat.formats import GRANULARITIES

if TYPE_CHECKING:
    from seat.client import Client
    from seat.recognizer import Recognizer
    from seat.settings import Settings
    from seat.transcript import Transcript

FAILED: Final = 1
"""Exit code where something that was asked for was not done."""
INTERRUPTED: Final = 128 + 2
"""Exit code after Ctrl-C, as shells count it: 128 and the number of SIGINT."""

STDIN: Final = Path("-")
"""Stands for standard input."""

LOCAL_LIMITS: Final[Mapping[str, str]] = {"SEAT_MAX_AUDIO_S": "0", "SEAT_DEADLINE_S": "604800"}
"""A server's limits keep one client from the others' share. In this process there are none: no limit, and a week."""

NEXT_STEPS: Final[Mapping[str, str]] = {
    "invalid_audio": "See with a player, or with 'ffprobe', whether it holds sound.",
    "audio_too_long": "Or raise SEAT_MAX_AUDIO_S where the model runs; 0 is no limit.",
    "upload_too_large": "Send it in parts, or raise SEAT_MAX_UPLOAD_MIB where the server runs.",
    "invalid_api_key": "Give the key with --api-key, or in SEAT_API_KEY.",
    "model_not_found": "Choose one with --model-name, or leave that out to take the first.",
    "model_loading": "Try again in a minute.",
    "queue_full": "Try again in a minute.",
    "gpu_stalled": "Try again in a minute; if it stays so, read the server's log.",
    "shutting_down": "Try again when it is back.",
    "deadline_exceeded": "Send it in parts, or raise SEAT_DEADLINE_S where the server runs.",
    "ModelUnavailable": "Name one with --model: 'demo', a path to a .nemo file, or 'owner/name' on Hugging Face.",
    "InvalidSettings": "Correct these options or variables, or leave them out.",
}
"""What to do, by an error's code, or by the name of its class where it has none."""

Hear = Callable[[BinaryIO, str, "Bars"], str]
"""Turns an open file with a name into the text to write, showing how far it is."""

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


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


def _print_version(asked: bool) -> None:  # noqa: FBT001  typer calls it so
    if asked:
        typer.echo(f"seat {__version__}")
        raise typer.Exit


VersionOption = Annotated[
    bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and leave.")
]
HostOption = Annotated[str | None, typer.Option(help="Address to listen on; else SEAT_HOST, 127.0.0.1.")]
PortOption = Annotated[int | None, typer.Option(help="Port to listen on; else SEAT_PORT, 8300.")]
ModelOption = Annotated[
    str | None, typer.Option(help="'demo', a .nemo file, or 'owner/name' on Hugging Face; else SEAT_MODEL, demo.")
]
DeviceOption = Annotated[str | None, typer.Option(help="auto, cpu, cuda or cuda:N; else SEAT_DEVICE, auto.")]
DemoModelOption = Annotated[str, typer.Option("--model", help="Another model than the bundled one.")]
FilesArgument = Annotated[list[Path], typer.Argument(help="Sound or film files; '-' is standard input.")]
FormatOption = Annotated[OutputFormat, typer.Option("--format", "-f", help="What to write.")]
FolderOption = Annotated[Path | None, typer.Option(help="Write one file for each here, not to standard output.")]
UrlOption = Annotated[
    str | None, typer.Option(help="A running server, http://HOST:PORT; else a model in this process.")
]
KeyOption = Annotated[
    str | None, typer.Option(help="The server's key.", envvar=["SEAT_API_KEY", "OPENAI_API_KEY"], show_envvar=True)
]
ModelNameOption = Annotated[str | None, typer.Option(help="One of the server's models; else its first.")]


@app.callback()
def _root(*, version: VersionOption = False) -> None:
    """Speech to text on a graphics card that has neighbours."""


@app.command()
def serve(
    host: HostOption = None, port: PortOption = None, model: ModelOption = None, device: DeviceOption = None
) -> None:
    """Serve until a signal ends it."""
    from seat import settings

    with _sentences():
        wanted = settings.read(host=host, port=port, model=model, device=device)
        from seat import serve as serving

        raise typer.Exit(serving.serve(wanted))


@app.command()
def transcribe(  # noqa: PLR0913  one parameter per option
    files: FilesArgument,
    *,
    output_format: FormatOption = OutputFormat.TEXT,
    output_dir: FolderOption = None,
    model: ModelOption = None,
    device: DeviceOption = None,
    url: UrlOption = None,
    api_key: KeyOption = None,
    model_name: ModelNameOption = None,
) -> None:
    """Transcribe files, with a model in this process or by a running server."""
    targets = {path: output_dir / (_name(path).stem + output_format.suffix) for path in files} if output_dir else {}
    misuse = None
    if url is not None and (model or device):
        misuse = "--model and --device are for this process; with --url there is --model-name."
    elif url is None and model_name:
        misuse = "--model-name is for a server; without --url there is --model."
    elif len(set(targets.values())) < len(targets):
        misuse = "Two of the files have the same name: both would be written to one."
    if misuse:
        raise typer.BadParameter(misuse)

    def deliver(path: Path, text: str) -> None:
        if output_dir:
            targets[path].parent.mkdir(parents=True, exist_ok=True)
            targets[path].write_text(text, encoding="utf-8")
            return
        if len(files) > 1:
            bars.say(f"==> {path} <==")
        bars.write(text)

    with _sentences(), Bars(len(files)) as bars:
        found = [path for path in files if _found(path, bars)]
        failed = len(files) - len(found)
        if found and url is not None:
            from seat.client import Client

            with by_server(Client(url, api_key=api_key, wait=bars.wait), model_name, output_format) as hear:
                failed += each(found, hear, deliver, bars)
        elif found:
            from seat.serve import load_nemo

            settings = _settings_here(model, device)
            bars.begin(f"loading {settings.model_id}")
            with by_model(settings, partial(load_nemo, settings), output_format) as hear:
                failed += each(found, hear, deliver, bars)
    raise typer.Exit(FAILED if failed else 0)


@app.command()
def demo(model: DemoModelOption = "demo", device: DeviceOption = None) -> None:
    """Start a seat, send it a clip over HTTP, print what came back, and stop it."""
    from seat import demo as showing

    with _sentences():
        raise typer.Exit(showing.show(model=model, device=device))


@contextmanager
def _sentences() -> Iterator[None]:
    """End the command with a sentence where an error of ours arrives, and without a word after Ctrl-C."""
    try:
        yield
    except SeatError as fault:
        typer.echo(sentence(fault), err=True)
        raise typer.Exit(FAILED) from fault
    except KeyboardInterrupt as interruption:
        raise typer.Exit(INTERRUPTED) from interruption


def sentence(fault: SeatError | OSError) -> str:
    """Say what happened and what to do next."""
    if not isinstance(fault, SeatError):
        return f"{fault.strerror or fault}. Check the name and the permissions of {fault.filename or 'the file'}."
    if isinstance(fault, RecognitionFailed):
        cause = fault.__cause__
        return f"{fault} It raised {type(cause).__name__}: {cause}. Report that, with the file's format and length."
    key = getattr(fault, "reason", None) or fault.code or type(fault).__name__
    said = str(fault)
    return (said + ("\n" if "\n" in said else " ") + NEXT_STEPS.get(key, "")).rstrip()


class Bars:
    """Two bars, over files and over the audio of one; a context manager. Off a terminal only sentences are printed.

    They are on standard error: standard output holds transcripts and nothing else.
    """

    def __init__(self, files: int) -> None:
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
        self._files = self._progress.add_task("files", total=files, state=f"0 of {files}")
        self._audio = self._progress.add_task("", total=None, state="")
        self._count = files
        self._ended = 0

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

    def begin(self, what: str) -> None:
        """Name what is in work; how far it is is not known yet."""
        self._progress.reset(self._audio, total=None, description=what, state="")

    def end(self) -> None:
        """Count one more file as over."""
        self._ended += 1
        self._progress.update(self._files, completed=self._ended, state=f"{self._ended} of {self._count}")

    def heard(self, done_s: float, all_s: float) -> None:
        """Show how much of the audio is recognized; a `seat.transcriber.Progress`."""
        self._progress.update(self._audio, completed=done_s, total=all_s, state=f"{done_s:.0f} of {all_s:.0f} s")

    def sent(self, nbytes: int, of_nbytes: int) -> None:
        """Show how much of the file is sent; once it all is, only that it is waited for."""
        if nbytes < of_nbytes:
            self._progress.update(self._audio, completed=nbytes, total=of_nbytes, state="sending")
        else:
            self._progress.update(self._audio, total=None, state="waiting for the server")

    def wait(self, reason: str, seconds: float) -> None:
        """Say why nothing happens for some seconds, and let them pass."""
        self.say(f"{reason} Asking again in {seconds:g} s.")
        time.sleep(seconds)

    def write(self, text: str) -> None:
        """Write to standard output, without bars in between where both are one terminal."""
        self._progress.stop()
        typer.echo(text, nl=False)
        self._progress.start()


@contextmanager
def by_model(
    settings: Settings, load_recognizer: Callable[[], Recognizer], output_format: OutputFormat
) -> Iterator[Hear]:
    """Load a model into this process, behind the same service that a server has.

    Raises:
        CannotStart: It cannot be loaded.
    """
    from seat.service import Service

    faults: list[BaseException] = []
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        try:
            service = runner.run(stack.enter_async_context(Service(settings, load_recognizer, faults.append)))
            runner.run(service.loaded())
            for fault in faults:
                if isinstance(fault, SeatError):
                    raise fault
                raise ModelUnavailable(model=settings.model, reason=f"{type(fault).__name__}: {fault}") from fault
            yield lambda file, _name, bars: written(runner.run(service.transcribe(file, bars.heard)), output_format)
        finally:
            runner.run(stack.aclose())


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
    match output_format:
        case OutputFormat.TEXT:
            return formats.text(transcript)
        case OutputFormat.SRT:
            return formats.srt(transcript)
        case OutputFormat.VTT:
            return formats.vtt(transcript)
        case OutputFormat.JSON:
            answer = formats.json(transcript)
        case OutputFormat.VERBOSE_JSON:
            answer = formats.verbose_json(transcript, GRANULARITIES)
    return json.dumps(answer, ensure_ascii=False, separators=(",", ":")) + "\n"


def each(paths: Sequence[Path], hear: Hear, deliver: Callable[[Path, str], None], bars: Bars) -> int:
    """Transcribe files one after the other; one that fails is reported, and the next goes on.

    Returns:
        How many failed.
    """
    failed = 0
    for path in paths:
        bars.begin(_name(path).name)
        try:
            with _opened(path) as file:
                text = hear(file, _name(path).name, bars)
            deliver(path, text)
        except BrokenPipeError:  # whoever read our output has left
            raise
        except (SeatError, OSError) as fault:
            bars.say(f"{path}: {sentence(fault)}")
            failed += 1
        bars.end()
    return failed


def _name(path: Path) -> Path:
    return Path("stdin") if path == STDIN else path


def _found(path: Path, bars: Bars) -> bool:
    """Whether there is a file, asked before a model is loaded for it."""
    if path == STDIN or (path.exists() and not path.is_dir()):
        return True
    bars.say(
        f"{path}: It is a folder. Name the files in it, such as {path}/*.wav."
        if path.is_dir()
        else f"{path}: There is no such file. Check its name; '-' reads standard input."
    )
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


def _settings_here(model: str | None, device: str | None) -> Settings:
    """Read the settings for a model in this process, and let only errors of other people's code reach the terminal."""
    from seat import settings
    from seat.telemetry import configure_logging

    environment = {name: value for name, value in os.environ.items() if name != "SEAT_API_KEY"}
    wanted = settings.read({**LOCAL_LIMITS, **environment}, model=model, device=device)
    configure_logging(wanted.log_format)
    logging.getLogger().setLevel(logging.ERROR)
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # for the reason given in seat.serve
    return wanted


def main() -> None:
    """Run the command line; an error of ours is a sentence, not a traceback."""
    app()
