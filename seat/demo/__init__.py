"""Show a seat at work: start one, send it a clip that comes with the package, print what came back, and stop it.

Knows processes, clips and the terminal; no model. The seat is a real one, and what it says went over HTTP.

    SeatError
    └── NoClips                     the package came without them
"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from seat.child import READY_WITHIN_S, Child, terminable
from seat.errors import SeatError

if TYPE_CHECKING:
    from rich.console import Console

    from seat.client import Client

BUNDLED: Final = "demo"
"""The model whose clips these are. Others may spell what they hear in their own way."""
WANTED_CLIP_S: Final = 5.0
"""Seconds of the clip to show: long enough for a sentence, short enough to read along."""


class NoClips(SeatError):
    """The package came without its clips."""

    def __init__(self, *, folder: str) -> None:
        super().__init__(
            f"There are no clips in {folder}. Install seat again; or send a file of your own with 'seat transcribe'."
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Clip:
    """A recording of which it is known what is said."""

    path: Path
    """Where it lies."""
    text: str
    """What is said in it."""
    seconds: float
    """How long it is."""


def show(*, model: str, device: str | None) -> int:
    """Run the demonstration.

    Args:
        model: As ``SEAT_MODEL``.
        device: As ``SEAT_DEVICE``, or None for what that says.

    Returns:
        0 where the words are those of the clip, 1 where they differ.

    Raises:
        NoClips: There is none.
        NoChild: There is no seat.
        NoTranscript: The seat refuses.
    """
    import httpx
    from rich.console import Console

    from seat.client import Client, Wish

    console, progress = Console(highlight=False), Console(stderr=True, highlight=False)
    clip = min(clips(), key=lambda clip: abs(clip.seconds - WANTED_CLIP_S))
    settings = {"SEAT_MODEL": model, "SEAT_MODEL_SHA256": None} | ({"SEAT_DEVICE": device} if device else {})
    with (
        terminable(),
        Child(settings) as seat,
        # Made here, so that a proxy which the environment names does not stand between us and the loopback.
        Client(seat.url, timeout_s=READY_WITHIN_S, transport=httpx.HTTPTransport()) as client,
    ):
        with _spinner(progress, "Loading: NeMo takes about 10 s to import, a large model longer."):
            seat.wait_until_ready(client)
        wish = Wish(model=client.models()[0], response_format="verbose_json", granularities=("word",))
        console.print(_curl(client, clip, wish.model), markup=False, soft_wrap=True)
        began_at = time.perf_counter()
        with clip.path.open("rb") as file:
            answer = json.loads(client.transcribe(file, clip.path.name, wish))
        took_s = time.perf_counter() - began_at
        _print(console, answer, took_s, client.health()["model"])
    heard = answer["text"]
    if heard == clip.text or (model != BUNDLED and spoken(heard) == spoken(clip.text)):
        return 0
    progress.print(f"The clip says something else: {clip.text}", markup=False, soft_wrap=True)
    return 1


def clips() -> list[Clip]:
    """The clips that come with the package, the shortest first.

    Raises:
        NoClips: It came without them.
    """
    folder = Path(__file__).parent / "clips"
    try:
        transcripts = json.loads((folder / "transcripts.json").read_text(encoding="utf-8"))
    except FileNotFoundError as fault:
        raise NoClips(folder=str(folder)) from fault
    found = [Clip(path=folder / name, text=said["text"], seconds=said["seconds"]) for name, said in transcripts.items()]
    return sorted(found, key=lambda clip: clip.seconds)


def _spinner(console: Console, words: str) -> AbstractContextManager[object]:
    """Turn while something loads; off a terminal, say it once."""
    if console.is_terminal:
        return console.status(words)
    console.print(words, soft_wrap=True)
    return nullcontext()


def _curl(client: Client, clip: Clip, model: str) -> str:
    fields = {"model": model, "response_format": "verbose_json", "timestamp_granularities[]": "word"}
    forms = [*(f"{name}={value}" for name, value in fields.items()), f"file=@{clip.path}"]
    return f"curl {client.url}/audio/transcriptions " + " ".join(f"-F {shlex.quote(form)}" for form in forms)


def _print(console: Console, answer: Mapping[str, Any], took_s: float, model: Mapping[str, Any]) -> None:
    from rich.table import Table

    table = Table("word", "from", "to", "confidence")
    for word in answer["words"]:
        table.add_row(word["word"], f"{word['start']:.2f} s", f"{word['end']:.2f} s", f"{word['confidence']:.0%}")
    console.print("\n" + answer["text"] + "\n", markup=False, soft_wrap=True)
    console.print(table)
    console.print(
        f"{answer['duration']:.2f} s of audio in {took_s:.2f} s: {answer['duration'] / took_s:.0f} times real time, "
        f"by {model['id']} on {model['device']} ({model['device_name']}) in {model['dtype']}.",
        markup=False,
        soft_wrap=True,
    )


def spoken(text: str) -> list[str]:
    """The words alone, without case and punctuation."""
    return "".join(each if each.isalnum() else " " for each in text.lower()).split()
