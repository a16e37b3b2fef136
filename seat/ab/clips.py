"""Gather the clips of a comparison: a folder's with their transcripts, or those that come with the package.

Knows samples and texts; sends nothing. Every clip goes out as WAV, so that both sides decode the same bytes.

    SeatError
    └── NothingToCompare            there is no clip of which it is known what is said
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from seat import audio, demo
from seat.errors import SeatError
from seat.inputs import Item, NotText, expand
from seat.recognizer import SAMPLE_RATE, Waveform
from seat.wav import wav

LONG_S: Final = 90.0
"""Seconds of the long clip that is made of the bundled ones: more than twice the longest window of a seat."""

GAP_S: Final = 0.5
"""Seconds of silence between clips that are joined."""


class NothingToCompare(SeatError):
    """There is no clip of which it is known what is said."""

    def __init__(self, *, folder: Path) -> None:
        super().__init__(
            f"{folder} has no sound with its words: put a text file beside each, such as a.txt beside a.wav, or name a "
            'manifest whose lines are {"audio_filepath": "a.wav", "text": "what is said"}.'
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Clip:
    """Audio of which it is known what is said."""

    name: str
    """What to call it."""
    waveform: Waveform
    """Its samples."""
    text: str
    """What is said in it; empty where nothing is."""

    @property
    def seconds(self) -> float:
        """How long it is."""
        return len(self.waveform) / SAMPLE_RATE

    @property
    def wav(self) -> bytes:
        """It, as a file."""
        return wav(self.waveform)


def bundled() -> list[Clip]:
    """The clips that come with the package, and a long one made of them: one for each bin of length."""
    clips = [Clip(name=each.path.name, waveform=_decoded(each.path), text=each.text) for each in demo.clips()]
    once = joined("once", clips, gap_s=GAP_S)
    return [*clips, joined("long", [once] * round(LONG_S / once.seconds + 0.5), gap_s=GAP_S)]


def gathered(source: Path) -> list[Clip]:
    """The clips of a folder or a manifest.

    Raises:
        NothingToCompare: None has a transcript.
        SeatError: A manifest or a text cannot be read, or a file is no audio.
        OSError: A file is not there.
    """
    clips = [
        Clip(name=str(item.name), waveform=_decoded(item.path), text=text)
        for item in expand([source])
        for text in _said(item)
    ]
    if not clips:
        raise NothingToCompare(folder=source)
    return clips


def joined(name: str, clips: Sequence[Clip], *, gap_s: float) -> Clip:
    """Clips one after the other, with silence in between."""
    gap = np.zeros(round(gap_s * SAMPLE_RATE), np.int16)
    parts = [part for clip in clips for part in (clip.waveform, gap)][:-1]
    return Clip(name=name, waveform=np.concatenate(parts), text=" ".join(clip.text for clip in clips))


def silence(seconds: float) -> Clip:
    """Zeros, in which nothing is said."""
    return Clip(name="silence", waveform=np.zeros(round(seconds * SAMPLE_RATE), np.int16), text="")


def _decoded(path: Path) -> Waveform:
    with path.open("rb") as file:
        return audio.decode(file, limit_s=None)


def _said(item: Item) -> Iterator[str]:
    """What is said in a file: in its manifest, or in a text beside it; nothing where neither tells."""
    beside = item.path.with_suffix(".txt")
    if "text" in item.facts:
        yield str(item.facts["text"])
    elif beside.is_file():
        try:
            yield beside.read_text(encoding="utf-8").strip()
        except UnicodeDecodeError as fault:
            raise NotText(path=beside) from fault
