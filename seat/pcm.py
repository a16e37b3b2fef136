"""Turn raw samples that come in pieces into waveforms. Knows PCM, G.711 and sampling rates; no container, no model."""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
import soxr
from numpy.typing import NDArray

from seat.recognizer import SAMPLE_RATE, Waveform

Encoding = Literal["pcm16", "pcmu", "pcma"]
"""Sixteen-bit little-endian samples, or those of G.711: mu-law and A-law, a byte each."""

LOWEST_RATE, HIGHEST_RATE = 8_000, 192_000
"""Hertz that are taken: from telephones to studios."""

G711_RATE: Final = 8_000
"""Hertz of G.711, always."""


class PcmReader:
    """Reads one stream. Pieces may end anywhere, also inside a sample."""

    def __init__(self, encoding: Encoding, rate: int) -> None:
        """Begin.

        Args:
            encoding: How samples are written.
            rate: Hertz, within `LOWEST_RATE` and `HIGHEST_RATE`.
        """
        self.encoding = encoding
        """How samples are written."""
        self.rate = rate
        """Hertz."""
        self._rest = b""
        self._stream = self._resampler()

    def _resampler(self) -> soxr.ResampleStream | None:
        return None if self.rate == SAMPLE_RATE else soxr.ResampleStream(self.rate, SAMPLE_RATE, 1, "float32", "HQ")

    @property
    def nbytes_per_s(self) -> int:
        """Bytes of a second."""
        return self.rate * (2 if self.encoding == "pcm16" else 1)

    def read(self, data: bytes) -> Waveform:
        """Samples at `SAMPLE_RATE` of the next bytes; the resampler keeps back some milliseconds."""
        samples = self._samples(data)
        return _rounded(self._stream.resample_chunk(samples.astype(np.float32))) if self._stream else samples

    def end(self) -> Waveform:
        """What was kept back, where the stream pauses or ends; it may go on after."""
        self._rest = b""
        if self._stream is None:
            return np.zeros(0, np.int16)
        rest = _rounded(self._stream.resample_chunk(np.zeros(0, np.float32), last=True))
        self._stream = self._resampler()
        return rest

    def _samples(self, data: bytes) -> Waveform:
        if self.encoding != "pcm16":
            return _G711[self.encoding][np.frombuffer(data, np.uint8)]
        whole = self._rest + data if self._rest else data
        even = len(whole) // 2 * 2
        self._rest = whole[even:]
        return np.frombuffer(whole, "<i2", even // 2).astype(np.int16, copy=False)


def _rounded(samples: NDArray[np.float32]) -> Waveform:
    """To sixteen bits without soxr's dither, which would depend on where the pieces end."""
    return np.clip(np.rint(samples), -32_768, 32_767).astype(np.int16)


def _mu_law() -> NDArray[np.int16]:
    """Samples by byte: ITU-T G.711, table 2a, in steps of 16 bits."""
    code = ~np.arange(256, dtype=np.uint8)
    exponent, mantissa = (code >> 4 & 7).astype(np.int32), (code & 15).astype(np.int32)
    size = (((mantissa << 3) + 132) << exponent) - 132
    return np.where(code & 128, -size, size).astype(np.int16)


def _a_law() -> NDArray[np.int16]:
    """Samples by byte: ITU-T G.711, table 1a, in steps of 16 bits."""
    code = np.arange(256, dtype=np.uint8) ^ 0x55
    exponent, mantissa = (code >> 4 & 7).astype(np.int32), (code & 15).astype(np.int32)
    size = np.where(exponent == 0, (mantissa << 4) + 8, ((mantissa << 4) + 264) << np.maximum(exponent - 1, 0))
    return np.where(code & 128, size, -size).astype(np.int16)


_G711: Final[dict[str, NDArray[np.int16]]] = {"pcmu": _mu_law(), "pcma": _a_law()}
