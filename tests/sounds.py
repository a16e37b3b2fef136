"""Make sounds and put them into containers. Knows signals, soundfile and PyAV; nothing of the seat.

Every signal is a float array, shape (samples,) or (samples, channels), within [-1, 1], the same on every run.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import av
import numpy as np
import soundfile
from numpy.typing import NDArray

Sound = NDArray[np.float64]
"""Samples within [-1, 1], shape (samples,) or (samples, channels)."""

Maker = Callable[[Sound, int], bytes]
"""Makes a file from a sound and its rate."""

AUDIO_ONLY: Mapping[str, tuple[str, str, str]] = {
    # name: container, codec, sample format the encoder takes
    "aac": ("adts", "aac", "fltp"),
    "ac3": ("ac3", "ac3", "fltp"),
    "amr": ("amr", "libopencore_amrnb", "s16"),
    "caf": ("caf", "pcm_s16le", "s16"),
    "m4a": ("ipod", "aac", "fltp"),
    "m4a alac": ("ipod", "alac", "s16p"),
    "mka": ("matroska", "flac", "s16"),
    "mp3": ("mp3", "libmp3lame", "fltp"),
    "mpga": ("mp2", "mp2", "s16"),
    "oga": ("oga", "flac", "s16"),
    "opus": ("opus", "libopus", "flt"),
    "ts": ("mpegts", "aac", "fltp"),
    "webm": ("webm", "libopus", "flt"),
}
"""What `muxed` writes by name; video files are in `WITH_VIDEO`."""

WITH_VIDEO: Mapping[str, tuple[str, str, str, str]] = {
    # name: container, audio codec, its sample format, video codec
    "mp4": ("mp4", "aac", "fltp", "mpeg4"),
    "mpeg": ("mpeg", "mp2", "s16", "mpeg1video"),
    "avi": ("avi", "libmp3lame", "fltp", "mpeg4"),
    "film ts": ("mpegts", "aac", "fltp", "mpeg1video"),
}
"""What `film` writes by name."""


def silence(seconds: float, rate: int = 16_000) -> Sound:
    """Digital zero."""
    return np.zeros(round(seconds * rate))


def tone(seconds: float, rate: int = 16_000, *, hertz: float = 440.0, level: float = 0.5) -> Sound:
    """A steady sine."""
    return level * np.sin(2 * np.pi * hertz * np.arange(round(seconds * rate)) / rate)


def noise(seconds: float, rate: int = 16_000, *, level: float = 0.1, seed: int = 7) -> Sound:
    """White noise, the same for the same seed."""
    return np.clip(level * np.random.default_rng(seed).standard_normal(round(seconds * rate)), -1, 1)


def chirp(seconds: float, rate: int = 16_000, *, low: float = 300.0, high: float = 3000.0, level: float = 0.5) -> Sound:
    """A sine that climbs from ``low`` to ``high`` hertz: unlike itself at any shift, so correlation finds its place."""
    at = np.arange(round(seconds * rate)) / rate
    return level * np.sin(2 * np.pi * (low * at + (high - low) * at**2 / (2 * max(seconds, 1e-9))))


def bursts(
    seconds: float, rate: int = 16_000, *, starts: Iterable[float], long: float = 0.1, hertz: float = 1000.0
) -> Sound:
    """Tone bursts of ``long`` seconds at ``starts``, silence between them."""
    out = silence(seconds, rate)
    for start in starts:
        burst = tone(long, rate, hertz=hertz)
        first = round(start * rate)
        out[first : first + burst.size] = burst[: out.size - first]
    return out


def side_by_side(*channels: Sound) -> Sound:
    """Several mono sounds as the channels of one."""
    return np.stack(channels, axis=1)


def written(sound: Sound, rate: int = 16_000, container: str = "WAV", encoding: str | None = None) -> bytes:
    """A file by libsndfile: ``container`` and ``encoding`` are soundfile's names, such as ``WAVEX`` and ``PCM_24``."""
    file = io.BytesIO()
    channels = 1 if sound.ndim == 1 else sound.shape[1]
    with soundfile.SoundFile(file, "w", rate, channels, encoding, format=container) as out:
        for start in range(
            0, len(sound), rate
        ):  # in seconds: libsndfile overruns its stack on a minute of Vorbis at once
            out.write(sound[start : start + rate])
    return file.getvalue()


def wav(sound: Sound, rate: int = 16_000) -> bytes:
    """The plainest file: 16-bit WAV."""
    return written(sound, rate, "WAV", "PCM_16")


def muxed(sound: Sound, rate: int = 48_000, name: str = "m4a", **options: str) -> bytes:
    """A file by FFmpeg without pictures; ``name`` is one of `AUDIO_ONLY`, ``options`` go to the muxer."""
    container, codec, sample_format = AUDIO_ONLY[name]
    return _mux(sound, rate, _Streams(container, codec, sample_format), options)


def film(sound: Sound | None, rate: int = 48_000, name: str = "mp4", **options: str) -> bytes:
    """A file by FFmpeg with a small grey picture; without a sound track where ``sound`` is None."""
    container, codec, sample_format, video = WITH_VIDEO[name]
    return _mux(sound, rate, _Streams(container, codec, sample_format, video), options)


def endless_webm(sound: Sound, rate: int = 48_000) -> bytes:
    """WebM as a browser records it: no duration, no index, clusters of unknown length."""
    return muxed(sound, rate, "webm", live="1")


def fragmented_mp4(sound: Sound, rate: int = 48_000) -> bytes:
    """MP4 in fragments, as Safari records it: the index at the front is empty."""
    return muxed(sound, rate, "m4a", movflags="frag_keyframe+empty_moov+default_base_moof", frag_duration="1000000")


def index_bomb(entries: int) -> bytes:
    """MP4 of 900 bytes in one fragment that claims so many samples."""

    def box(kind: bytes, *parts: bytes) -> bytes:
        content = b"".join(parts)
        return struct.pack(">I", 8 + len(content)) + kind + content

    file = fragmented_mp4(tone(0.5, 48_000))
    head = struct.pack(
        ">IIIII", 0x00020038, 1, 1024, 0, 0x02000000
    )  # base is moof; duration, size and flags by default
    run = struct.pack(">III", 1, entries, 200)
    moof = box(
        b"moof", box(b"mfhd", bytes(4), struct.pack(">I", 1)), box(b"traf", box(b"tfhd", head), box(b"trun", run))
    )
    return file[: file.index(b"moof") - 4] + moof + box(b"mdat", bytes(100))


def with_data_size(file: bytes, nbytes: int) -> bytes:
    """A WAV whose header claims ``nbytes`` of samples, whatever follows."""
    at = file.index(b"data") + 4
    return file[:at] + struct.pack("<I", nbytes) + file[at + 4 :]


def hand_made_wav(*, rate: int, channels: int, bits: int = 16, tag: int = 1, data: bytes = b"\0" * 3200) -> bytes:
    """A WAV with any header at all, sane or not."""
    frame = channels * bits // 8
    header = struct.pack("<HHIIHH", tag, channels, rate, (rate * frame) % 2**32, frame % 2**16, bits)
    body = b"WAVEfmt " + struct.pack("<I", len(header)) + header + b"data" + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", len(body)) + body


CASE_20: Mapping[str, Maker] = {
    "mp3": lambda sound, rate: muxed(sound, rate, "mp3"),
    "mp4": lambda sound, rate: film(sound, rate, "mp4"),
    "mpeg": lambda sound, rate: film(sound, rate, "mpeg"),
    "mpga": lambda sound, rate: muxed(sound, rate, "mpga"),
    "m4a": lambda sound, rate: muxed(sound, rate, "m4a"),
    "ogg": lambda sound, rate: written(sound, rate, "OGG", "VORBIS"),
    "oga": lambda sound, rate: muxed(sound, rate, "oga"),
    "opus": lambda sound, rate: muxed(sound, rate, "opus"),
    "wav": wav,
    "webm": lambda sound, rate: muxed(sound, rate, "webm"),
    "flac": lambda sound, rate: written(sound, rate, "FLAC", "PCM_16"),
    "aac": lambda sound, rate: muxed(sound, rate, "aac"),
}
"""Every container of the OpenAI list by its name there; each makes a file from a sound at 48 kHz."""


class _Streams(NamedTuple):
    container: str
    codec: str
    sample_format: str
    video: str | None = None


def _mux(sound: Sound | None, rate: int, streams: _Streams, options: Mapping[str, str]) -> bytes:
    container, codec, sample_format, video = streams
    file = io.BytesIO()
    with av.open(file, "w", format=container, options=dict(options)) as out:
        picture: Any = out.add_stream(video, rate=25, width=64, height=64, pix_fmt="yuv420p") if video else None
        channels = 1 if sound is None or sound.ndim == 1 else sound.shape[1]
        layout = {1: "mono", 2: "stereo", 6: "5.1", 8: "7.1"}[channels]
        track: Any = None
        if sound is not None:
            track = out.add_stream(codec, rate=rate, layout=layout, format=sample_format)
        seconds = 1.0 if sound is None else len(sound) / rate
        if picture is not None:
            for number in range(round(seconds * 25)):
                frame = av.VideoFrame.from_ndarray(np.full((96, 64), number % 200, np.uint8), format="yuv420p")
                frame.pts = number
                out.mux(picture.encode(frame))
            out.mux(picture.encode(None))
        if sound is not None:
            pcm = np.rint(np.clip(sound, -1, 32767 / 32768) * 32768).astype(np.int16).reshape(1, -1)
            block = av.AudioFrame.from_ndarray(pcm, format="s16", layout=layout)
            block.sample_rate = rate
            block.pts = 0
            resampler = av.AudioResampler(
                format=sample_format, layout=layout, rate=rate, frame_size=track.frame_size or 0
            )
            for piece in [*resampler.resample(block), *resampler.resample(None)]:
                out.mux(track.encode(piece))
            out.mux(track.encode(None))
    return file.getvalue()
