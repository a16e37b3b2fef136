"""The `seat` command. Knows arguments and exit codes."""

from __future__ import annotations

import sys

import typer

from seat.errors import SeatError

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.callback()
def _root() -> None:
    """Speech to text on a graphics card that has neighbours."""


@app.command()
def serve(
    host: str | None = None, port: int | None = None, model: str | None = None, device: str | None = None
) -> None:
    """Serve until a signal ends it."""
    from seat import serve as serving
    from seat import settings

    raise typer.Exit(serving.serve(settings.read(host=host, port=port, model=model, device=device)))


def main() -> None:
    """Run the command line; an error of ours is a sentence, not a traceback."""
    try:
        app()
    except SeatError as fault:
        print(fault, file=sys.stderr)  # noqa: T201
        sys.exit(1)
