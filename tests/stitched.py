"""Join the windows of a whole file at once, as tests and benchmarks have them. Knows `seat.stitching`; no model."""

from __future__ import annotations

from collections.abc import Sequence

from seat.recognizer import Recognition, Vocabulary
from seat.stitching import Join, Stitcher
from seat.transcript import Transcript
from seat.windows import Window


def stitch(  # noqa: PLR0913  what a Stitcher takes, and the recognitions
    windows: Sequence[Window],
    recognitions: Sequence[Recognition],
    vocabulary: Vocabulary,
    *,
    samples: int,
    language: str,
    join: Join = "independent",
) -> Transcript:
    """Join what was heard in all windows of a file, one recognition for each; arguments as for `Stitcher`."""
    stitcher = Stitcher(windows, vocabulary, samples=samples, language=language, join=join)
    for _, recognition in zip(windows, recognitions, strict=True):
        stitcher.take(recognition)
    return stitcher.transcript()
