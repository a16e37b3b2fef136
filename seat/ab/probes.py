"""Send what speech servers stumble over: a long file, a long pause, silence and noise. Knows clips; judges no times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from seat.ab import clips as making
from seat.ab.clips import Clip
from seat.ab.contenders import Contender
from seat.ab.words import Errors, errors
from seat.recognizer import SAMPLE_RATE

LONG_FILE_S: Final = 180.0
"""Seconds of the long file, at least: several windows of any server that has windows."""

PAUSE_S: Final = 6.0
"""Seconds of digital silence between two clips: longer than any model's memory of a pause."""

NOTHING_S: Final = 5.0
"""Seconds of silence, and of noise."""

NOISE_LEVEL: Final = 300
"""Standard deviation of the noise, of 32,768: a quiet room with the gain turned up."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Probe:
    """What both sides made of something hard."""

    name: str
    """What was sent."""
    seconds: float
    """How long it is."""
    a: Errors | None
    """What A got wrong; None where it refused."""
    b: Errors | None
    """What B got wrong; None where it refused."""


def probe(a: Contender, b: Contender, clips: Sequence[Clip]) -> list[Probe]:
    """Send both sides what is hard, once.

    Args:
        a: One side.
        b: The other.
        clips: What the hard clips are made of.
    """
    by_length = sorted(clips, key=lambda clip: clip.seconds)
    short = [clip for clip in by_length if clip.seconds < LONG_FILE_S / 2] or by_length[:1]
    once = making.joined("once", short, gap_s=making.GAP_S)
    times = int(LONG_FILE_S // once.seconds) + 1
    noise = np.random.default_rng(0).normal(0, NOISE_LEVEL, round(NOTHING_S * SAMPLE_RATE)).astype(np.int16)
    hard = {
        "long file": making.joined("long file", [once] * times, gap_s=making.GAP_S),
        f"pause of {PAUSE_S:g} s": making.joined("pause", [short[0], short[-1]], gap_s=PAUSE_S),
        "silence": making.silence(NOTHING_S),
        "noise": Clip(name="noise", waveform=noise, text=""),
    }
    return [Probe(name=name, seconds=clip.seconds, a=_wrong(a, clip), b=_wrong(b, clip)) for name, clip in hard.items()]


def _wrong(side: Contender, clip: Clip) -> Errors | None:
    heard = side.hear(clip.wav)
    return None if heard.error else errors(clip.text, heard.text)
