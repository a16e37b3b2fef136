"""The `seat` command. Knows arguments, the terminal, exit codes and next steps; imports what is heavy late."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer

from seat import __version__
from seat.bars import Newest
from seat.errors import SeatError
from seat.files import OutputFormat
from seat.order import Order, by_settings, by_url
from seat.sentences import sentence

FAILED: Final = 1
"""Exit code where something that was asked for was not done."""
INTERRUPTED: Final = 128 + 2
"""Exit code after Ctrl-C, as shells count it: 128 and the number of SIGINT."""

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


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
FilesArgument = Annotated[
    list[Path],
    typer.Argument(
        help="Sound or film files, folders of them, manifests as NeMo's (.json, .jsonl); '-' is standard input."
    ),
]
LinesOption = Annotated[
    Path | None, typer.Option("--jsonl", help="Add an object a line to this file, with --format json or verbose_json.")
]
JobsOption = Annotated[int, typer.Option(min=1, help="Files at the same time, with --output-dir or --jsonl.")]
AgainOption = Annotated[
    bool,
    typer.Option(
        "--again",
        help="Do also what an earlier run has done: --output-dir replaces files, --jsonl adds lines, the last counts.",
    ),
]
FormatOption = Annotated[OutputFormat, typer.Option("--format", "-f", help="What to write.")]
FolderOption = Annotated[Path | None, typer.Option(help="Write one file for each here, not to standard output.")]
UrlOption = Annotated[
    str | None, typer.Option(help="A running server, http://HOST:PORT; else a model in this process.")
]
KeyOption = Annotated[
    str | None, typer.Option(help="The server's key.", envvar=["SEAT_API_KEY", "OPENAI_API_KEY"], show_envvar=True)
]
SideArgument = Annotated[
    str,
    typer.Argument(help="An address, 'seat', or settings of a seat to start: 'SEAT_WINDOW_S=20 SEAT_DTYPE=float32'."),
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
    from seat.errors import InvalidSettings
    from seat.telemetry import configure_logging, log

    with _sentences():
        try:
            wanted = settings.read(host=host, port=port, model=model, device=device)
        except InvalidSettings as fault:
            if sys.stderr.isatty():
                raise
            configure_logging("json")  # whoever reads this stream reads events
            log.error("cannot_start", reason=str(fault))
            raise typer.Exit(FAILED) from fault
        from seat import serve as serving

        raise typer.Exit(serving.serve(wanted))


@app.command()
def transcribe(  # noqa: PLR0913  one parameter per option
    files: FilesArgument,
    *,
    output_format: FormatOption = OutputFormat.TEXT,
    output_dir: FolderOption = None,
    lines: LinesOption = None,
    jobs: JobsOption = 1,
    again: AgainOption = False,
    model: ModelOption = None,
    device: DeviceOption = None,
    url: UrlOption = None,
    api_key: KeyOption = None,
    model_name: ModelNameOption = None,
) -> None:
    """Transcribe files, folders and manifests, with a model in this process or by a running server."""
    with _sentences():
        order = Order(paths=files, form=output_format, folder=output_dir, lines=lines, jobs=jobs, again=again)
        misuse = order.misuse()
        if url is not None and (model or device):
            misuse = "--model and --device are for this process; with --url there is --model-name."
        elif url is None and model_name:
            misuse = "--model-name is for a server; without --url there is --model."
        if misuse:
            raise typer.BadParameter(misuse)
        failed = order.carry_out(by_url(url, api_key, model_name) if url else by_settings(model, device))
    raise typer.Exit(FAILED if failed else 0)


@app.command()
def live(  # noqa: PLR0913  one parameter per option
    source: Annotated[str, typer.Argument(help="A file, 'mic', or '-' for raw 16-bit samples at 16 kHz.")],
    *,
    url: Annotated[str | None, typer.Option(help="A running seat; else by SEAT_HOST and SEAT_PORT.")] = None,
    api_key: KeyOption = None,
    model_name: ModelNameOption = None,
    speed: Annotated[float, typer.Option(min=0, help="Times as fast as it was said; 0 for at once.")] = 1.0,
    as_json: Annotated[bool, typer.Option("--json", help="Write the server's messages, one a line.")] = False,
) -> None:
    """Show what is said while it is said, by a running seat."""
    import json

    from seat import settings
    from seat.captions import captions, sound_of

    newest = Newest()
    with _sentences():
        address = url or settings.read(settings.of_command_line()).url
        sound = sound_of(source, speed)
        for message in captions(address, sound, api_key=api_key, model=model_name):
            if as_json:
                typer.echo(json.dumps(message, ensure_ascii=False))
            elif message["type"] == "final" and message["text"]:
                newest.replace("")
                typer.echo(message["text"])
            elif message["type"] == "partial":
                newest.replace(message["text"])


@app.command()
def room(
    *,
    url: Annotated[str | None, typer.Option(help="A running seat; else by SEAT_HOST and SEAT_PORT.")] = None,
    device: DeviceOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON, in bytes.")] = False,
) -> None:
    """Show what a shared card has room for beside a seat."""
    import json

    from seat import room as rooms
    from seat import settings
    from seat.caps import cap_nbytes
    from seat.client import Client, NoTranscript
    from seat.gpu.device import card as read_card

    with _sentences():
        wanted = settings.read(settings.of_command_line(), device=device)
        try:
            with Client(url or wanted.url, timeout_s=5) as client:
                memory = client.health()["memory"]
        except NoTranscript:
            if url:
                raise
            memory = None
        seat = rooms.Seat.of_health(memory) if memory else None
        card = read_card(wanted.device)
        cap = seat.cap if seat else cap_nbytes(wanted.mem_cap_mib, "cuda" if card else "cpu")
        told = json.dumps(rooms.as_json(card, seat, cap)) + "\n" if as_json else rooms.told(card, seat, cap)
        typer.echo(told, nl=False)


@app.command()
def ab(  # noqa: PLR0913  one parameter per option
    a: SideArgument,
    b: SideArgument,
    *,
    clips: Annotated[
        Path | None, typer.Option(help="A folder or manifest of sound with transcripts; else the bundled clips.")
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="How often each clip counts for each side.")] = 20,
    out: Annotated[Path, typer.Option(help="Where the report goes: .md, .json and .png are added.")] = Path("ab"),
    api_key: KeyOption = None,
    model_name: ModelNameOption = None,
) -> None:
    """Compare two speech servers, or two settings of a seat: latency, words, memory."""
    from seat.ab.command import Wanted, compare

    with _sentences():
        compare(Wanted(a=a, b=b, clips=clips, rounds=rounds, out=out, api_key=api_key, model=model_name))


@app.command()
def doctor(
    *,
    url: Annotated[str | None, typer.Option(help="A running seat; else one is started in this process.")] = None,
    api_key: KeyOption = None,
    model: ModelOption = None,
    device: DeviceOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON.")] = False,
) -> None:
    """Tell whether a seat computes where it says, hears right, and keeps its promises; 1 where it does not."""
    from seat.doctor import report

    if url is not None and (model or device):
        misuse = "--model and --device are for a seat in this process, not for one at --url."
        raise typer.BadParameter(misuse)
    with _sentences():
        raise typer.Exit(report.examine(url=url, api_key=api_key, model=model, device=device, as_json=as_json))


@app.command()
def fetch(
    model: Annotated[str, typer.Argument(help="'owner/name' on Hugging Face, with an optional '@REVISION'.")],
) -> None:
    """Download a model, and print the settings that pin it; its licence goes to standard error."""
    from seat import hub

    with _sentences():
        fetched = hub.fetch(model)
        typer.echo(f"{fetched.path}\n{fetched.terms}", err=True)
        typer.echo(fetched.pins, nl=False)


@app.command()
def demo(model: DemoModelOption = "demo", device: DeviceOption = None) -> None:
    """Start a seat, send it a clip over HTTP, print what came back, and stop it."""
    from seat import demo as showing

    with _sentences():
        raise typer.Exit(showing.show(model=model, device=device))


@contextmanager
def _sentences() -> Iterator[None]:
    """End the command with a sentence where an error of ours or a file's arrives, and without a word after Ctrl-C."""
    try:
        yield
    except BrokenPipeError:  # whoever read our output has left, and typer leaves as quietly
        raise
    except (SeatError, OSError) as fault:
        typer.echo(sentence(fault), err=True)
        raise typer.Exit(FAILED) from fault
    except KeyboardInterrupt as interruption:
        raise typer.Exit(INTERRUPTED) from interruption


def main() -> None:
    """Run the command line; an error of ours, or of a file's, is a sentence, not a traceback."""
    app()
