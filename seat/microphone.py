"""Listen to this machine's microphone. Knows FFmpeg's names of sound systems; nothing of what is heard.

SeatError
└── NoMicrophone                nothing can be recorded here
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final

import numpy as np

from seat.errors import SeatError
from seat.recognizer import SAMPLE_RATE, Waveform

DEVICES: Final = {"linux": ("alsa", "default"), "darwin": ("avfoundation", ":default")}
"""FFmpeg's sound system and its usual device, by platform."""


class NoMicrophone(SeatError):
    """Nothing can be recorded here."""

    def __init__(self, *, reason: str) -> None:
        super().__init__(
            f"The microphone cannot be opened: {reason}. Or pipe raw samples in: "
            f"'arecord -q -f S16_LE -r {SAMPLE_RATE} -c 1 | seat live -'."
        )


def listen() -> Iterator[Waveform]:
    """What the microphone hears, as it comes.

    Raises:
        NoMicrophone: There is none, or it may not be used.
    """
    import av

    if sys.platform not in DEVICES:
        raise NoMicrophone(reason=f"how to is not known on {sys.platform}")
    system, name = DEVICES[sys.platform]
    resampler = av.AudioResampler(format="s16", layout="mono", rate=SAMPLE_RATE)
    try:
        with av.open(name, format=system) as device:
            for frame in device.decode(audio=0):
                for piece in resampler.resample(frame):
                    yield np.frombuffer(bytes(piece.planes[0]), np.int16, piece.samples)
    except (av.FFmpegError, ValueError) as fault:
        raise NoMicrophone(reason=str(getattr(fault, "strerror", None) or fault)) from fault
