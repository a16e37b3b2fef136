"""Write a waveform as a WAV file, the one form that every server decodes alike. Knows its header; reads none."""

from __future__ import annotations

import io
import wave

from seat.recognizer import SAMPLE_RATE, Waveform


def wav(waveform: Waveform) -> bytes:
    """A file of the very same samples."""
    file = io.BytesIO()
    with wave.open(file, "wb") as written:
        written.setnchannels(1)
        written.setsampwidth(waveform.itemsize)
        written.setframerate(SAMPLE_RATE)
        written.writeframes(waveform.astype("<i2", copy=False).tobytes())
    return file.getvalue()
