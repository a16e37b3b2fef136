"""Raw samples that come in pieces."""

import io
from itertools import pairwise

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from seat.pcm import Encoding, PcmReader
from seat.recognizer import SAMPLE_RATE


def tone(rate: int) -> np.ndarray:
    """A second of 440 Hz."""
    return np.round(10_000 * np.sin(2 * np.pi * 440 * np.arange(rate) / rate)).astype(np.int16)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 300), max_size=20), st.sampled_from([8_000, 16_000, 44_100]))
def test_pieces_may_end_anywhere(lengths: list[int], rate: int) -> None:
    """Also inside a sample: what is read is what would be read at once."""
    data = tone(rate)[:2000].tobytes()
    whole, cut = PcmReader("pcm16", rate), PcmReader("pcm16", rate)
    stops = [0, *np.minimum(np.cumsum(lengths), len(data)).astype(int).tolist(), len(data)]
    pieces = [cut.read(data[first:stop]) for first, stop in pairwise(stops)]
    expected = np.concatenate([whole.read(data), whole.end()])
    assert np.array_equal(np.concatenate([*pieces, cut.end()]), expected)


@pytest.mark.parametrize("rate", [8_000, 16_000, 24_000, 44_100, 48_000])
def test_every_rate_becomes_ours(rate: int) -> None:
    """A tone stays the tone, as long as it was."""
    reader = PcmReader("pcm16", rate)
    heard = np.concatenate([reader.read(tone(rate).tobytes()), reader.end()])
    assert abs(len(heard) - SAMPLE_RATE) <= 1
    middle = slice(2000, 14_000)
    assert np.abs(heard[middle].astype(int) - tone(SAMPLE_RATE)[middle]).max() < 100


@pytest.mark.parametrize("encoding, subtype", [("pcmu", "ULAW"), ("pcma", "ALAW")])
def test_g711_is_what_libsndfile_reads(encoding: Encoding, subtype: str) -> None:
    """Every one of the 256 codes of both laws."""
    codes = bytes(range(256))
    expected, _ = soundfile.read(
        io.BytesIO(codes), dtype="int16", format="RAW", samplerate=8_000, channels=1, subtype=subtype
    )
    reader = PcmReader(encoding, SAMPLE_RATE)
    assert np.array_equal(reader.read(codes), expected)


def test_a_stream_goes_on_after_its_end() -> None:
    """Half a sample that nothing followed is dropped with it."""
    reader = PcmReader("pcm16", SAMPLE_RATE)
    assert reader.read(b"\1").tolist() == []
    assert reader.end().tolist() == []
    assert reader.read(b"\2\0\3\0").tolist() == [2, 3]
