"""A seat that is real but for its model: `seat.serve` with `FakeRecognizer`, started by `tests.process.seats.FakeSeat`.

It hears the bursts of `tests.fakes.speech`, and its argument is a folder for signs. Two digits have a meaning: the
model waits in a nine until the folder holds a file ``nine``, and raises in every batch that holds a seven. Each call of
the model leaves two lines in a file ``calls``.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from seat.errors import ModelUnavailable
from seat.recognizer import Waveform
from seat.serve import serve
from seat.settings import Settings, read
from tests.fakes import SPOKEN, TONE_LEVEL, FakeRecognizer, hear

WAITS = "nine"
RAISES = "seven"


def main() -> int:
    """Serve what the environment asks for."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--slow-load", action="store_true", help="load until the folder holds a file 'load'")
    arguments.add_argument("--fault", help="load to no avail, for this reason")
    given = arguments.parse_args()

    def load(settings: Settings) -> FakeRecognizer:
        if given.slow_load:
            _wait_for(given.folder / "load")
        if given.fault:
            raise ModelUnavailable(model=settings.model, reason=given.fault)
        return FakeRecognizer(before=_Obedience(given.folder))

    return serve(read(), load)


class _Obedience:
    """What the model does first; what its first call makes stays, as with a real one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: list[object] | None = None
        self._frozen: dict[str, object] = {}

    def __call__(self, waveforms: Sequence[Waveform]) -> None:
        if self._made is None:
            self._made = []
        if any((waveform % TONE_LEVEL).any() for waveform in waveforms):
            return  # the noise of the warm-up, or what a gateway sends: no word of `speech`, whatever its loudness
        if not self._frozen:
            hidden = not any(each is self._made for each in gc.get_objects())
            self._frozen = {"frozen": gc.get_freeze_count(), "warm_up_frozen": hidden}
        said = [[SPOKEN[token - 1] for token in hear(waveform).tokens] for waveform in waveforms]
        seen = {"said": said, "thread": threading.get_ident(), **self._frozen}
        with (self._folder / "calls").open("a") as calls:
            calls.write(json.dumps(seen | {"did": "begin"}) + "\n")
            calls.flush()
            if any(WAITS in words for words in said):
                _wait_for(self._folder / WAITS)
            calls.write(json.dumps(seen | {"did": "end"}) + "\n")
        if any(RAISES in words for words in said):
            message = "the fake was told to fail"
            raise ValueError(message)


def _wait_for(sign: Path) -> None:
    while not sign.exists():
        time.sleep(0.005)


if __name__ == "__main__":
    sys.exit(main())
