"""A seat that notes when its model is at work: `python -m tests.bench.timed_seat PORT FILE`, a line for each call."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from seat.recognizer import Chunk, Recognition, Waveform
from seat.serve import load_nemo, serve
from seat.settings import Settings, read


class Timed:
    """A recognizer, and a file of the seconds that its calls took: windows, when it began, when it ended."""

    def __init__(self, recognizer: Any, path: Path) -> None:
        self._recognizer = recognizer
        self._file = path.open("w", buffering=1)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._recognizer, name)

    def recognize(self, waveforms: Sequence[Waveform], padded: object | None = None) -> list[Recognition]:
        """As the recognizer does."""
        return self._timed(self._recognizer.recognize, waveforms, padded)

    def proceed(self, chunks: Sequence[Chunk], padded: object | None = None) -> list[tuple[Recognition, object]]:
        """As the recognizer does."""
        return self._timed(self._recognizer.proceed, chunks, padded)

    def _timed(self, call: Any, windows: Sequence[Any], padded: object | None) -> Any:
        began_at = time.monotonic()
        try:
            return call(windows, padded)
        finally:
            self._file.write(f"{len(windows)} {began_at} {time.monotonic()}\n")


def main() -> int:
    """Serve on a port."""
    port, path = sys.argv[1:]

    def load(settings: Settings) -> Any:
        return Timed(load_nemo(settings), Path(path))

    return serve(read(port=port), load)


if __name__ == "__main__":
    sys.exit(main())
