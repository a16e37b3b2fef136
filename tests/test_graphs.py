"""NeMo's graph decoder, made once: its own algorithm on a processor, where only the capture itself is left out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pytest

from seat.recognizer import Chunk, Recognition, Waveform
from tests.tiny import build, chirps

if TYPE_CHECKING:
    from seat.gpu.nemo import NemoRecognizer

pytestmark = pytest.mark.model

ROWS = 4
LONGEST_S = 31
"""More than the 375 frames, 30 s, that NeMo begins with."""

MIXES_S = [(1,), (31,), (1, 2, 20), (5, 5, 5, 5), (12,)]
"""Batches of seconds; any two that follow each other would make NeMo capture again."""


def _sound(seconds: int) -> Waveform:
    return (chirps(seconds, seconds) * 32767).astype(np.int16)


def _rehearsing(recognizer: NemoRecognizer) -> Any:
    """Let a recognizer decode with the graphs' algorithm, which NeMo gives to tensors on CUDA only."""
    from seat.gpu.graphs import Graphs

    computer = recognizer._computer
    kind = type(computer)

    class Rehearsal(kind):  # type: ignore[misc, valid-type]  NeMo has no types
        reinitialized = 0

        def __call__(self, x: Any, out_len: Any, prev_batched_state: Any) -> Any:
            return self.cuda_graphs_impl(x, out_len, prev_batched_state)

        def _graph_reinitialize(self, encoded: Any) -> None:
            type(self).reinitialized += 1
            super()._graph_reinitialize(encoded)

    computer.__class__ = Rehearsal
    computer.force_cuda_graphs_mode("no_graphs")
    recognizer._decode = Graphs(computer)
    return computer


def _alike(expected: list[Recognition], actual: list[Recognition]) -> None:
    for one, other in zip(expected, actual, strict=True):
        assert (one.tokens, one.frames, one.durations) == (other.tokens, other.frames, other.durations)
        assert one.confidences == pytest.approx(other.confidences, abs=1e-4)


@pytest.mark.parametrize("kind", ["rnnt", "tdt"])
def test_graphs_are_made_once_and_hear_the_same(
    load_nemo: Callable[..., NemoRecognizer], tmp_path: Path, kind: Literal["rnnt", "tdt"]
) -> None:
    """Whatever comes after, none is made again, and every batch is heard as without them, chunks too."""
    recognizer = load_nemo(str(build(tmp_path, kind)))
    batches = [[_sound(seconds) for seconds in mix] for mix in MIXES_S]
    expected = [recognizer.recognize(batch) for batch in batches]
    chunks = [[Chunk(waveform=_sound(seconds), first=3, stop=50) for seconds in mix] for mix in MIXES_S]
    chunks += [[Chunk(waveform=_sound(8), first=3, stop=50, ahead=ahead)] * rows for rows in (2, 3) for ahead in (0, 1)]
    expected_chunks = [_proceed_twice(recognizer, batch) for batch in chunks]
    assert any(heard.tokens for batch in expected_chunks for heard in batch)

    computer = _rehearsing(recognizer)
    recognizer.capture(ROWS, LONGEST_S * 16_000)
    assert (computer.state.batch_size, computer.state.max_time, computer.reinitialized) == (ROWS, 388, 1)
    for batch, heard in zip(batches, expected, strict=True):
        _alike(heard, recognizer.recognize(batch))
    for batch, heard in zip(chunks, expected_chunks, strict=True):
        _alike(heard, _proceed_twice(recognizer, batch))
    assert computer.reinitialized == 1


def _proceed_twice(recognizer: NemoRecognizer, chunks: list[Chunk]) -> list[Recognition]:
    first = recognizer.proceed(chunks)
    second = recognizer.proceed(
        [
            replace(chunk, first=50, stop=90, carried=carried)
            for chunk, (_, carried) in zip(chunks, first, strict=True)
            if len(chunk.waveform) > 7 * 16_000
        ]
        or [Chunk(waveform=chunks[0].waveform, first=0, stop=10, carried=first[0][1])]
    )
    return [heard for heard, _ in (*first, *second)]


def test_what_is_larger_than_the_graphs_is_refused(load_nemo: Callable[..., NemoRecognizer], tmp_path: Path) -> None:
    """NeMo would make them again; the fault belongs to the batch, and the next one is heard."""
    recognizer = load_nemo(str(build(tmp_path, "rnnt")))
    computer = _rehearsing(recognizer)
    recognizer.capture(2, 16_000)
    before = recognizer.recognize([_sound(5)])
    for batch in ([_sound(5)] * 3, [_sound(LONGEST_S)]):
        with pytest.raises(RuntimeError, match=r"the decoder is made for 2 rows of 375 frames, not for"):
            recognizer.recognize(batch)
    assert recognizer.recognize([_sound(5)]) == before
    assert computer.reinitialized == 1


def test_a_window_has_as_many_frames_as_the_graphs_are_made_for(
    load_nemo: Callable[..., NemoRecognizer], tmp_path: Path
) -> None:
    """Around every border of a hop and of a frame."""
    recognizer = load_nemo(str(build(tmp_path, "rnnt")))
    for samples in (16_000, 16_001, 16_159, 16_160, 16_639, 16_640, 17_279, 17_280, 17_281, 80_000):
        encoded, _ = recognizer._encode([np.zeros(samples, np.int16)])
        assert encoded.shape[1] <= recognizer._frames(samples) <= encoded.shape[1] + 1


def test_a_processor_has_no_graphs(load_nemo: Callable[..., NemoRecognizer], tmp_path: Path) -> None:
    """Asked for, it says 'off', and goes on as ever."""
    recognizer = load_nemo(str(build(tmp_path, "rnnt")), cuda_graphs=True)
    recognizer.capture(2, 16_000)
    assert recognizer.graphs == "off"
    assert len(recognizer.recognize([_sound(1)] * 3)) == 3
