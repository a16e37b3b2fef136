"""Turn bytes of any container into mono 16-bit samples at 16 kHz. Knows codecs; no HTTP, no model.

    source → _libsndfile or _ffmpeg → blocks at the file's own rate → _resampled → _limited → _joined → Waveform

libsndfile reads the uncompressed containers, at ten times the speed. FFmpeg, through PyAV, reads the rest, and what
libsndfile cannot: it steps over a broken FLAC or MPEG frame where libsndfile ends, and goes on to the second stream of
a chained Ogg file where libsndfile returns the first as if it were all.
"""

from __future__ import annotations

import ctypes
import io
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, suppress
from functools import cache
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

from seat.errors import AudioTooLong, MissingField, UndecodableAudio
from seat.recognizer import SAMPLE_RATE, Waveform

if TYPE_CHECKING:
    import av

Block = tuple[NDArray[np.float32], int]
"""Samples in about [-1, 1), shape (channels, samples), and their rate in hertz."""

UNCOMPRESSED = frozenset({b"RIFF", b"RIFX", b"RF64", b"riff", b"FORM", b"caff", b".snd"})
"""First four bytes of WAV in its variants, Wave64, AIFF, CAF and AU."""

CONTAINERS = (
    "aac,ac3,aiff,amr,asf,au,avi,caf,eac3,flac,flv,loas,matroska,webm,mov,mp4,m4a,3gp,3g2,mj2,"
    "mp3,mpeg,mpegts,ogg,w64,wav"
)
"""What FFmpeg may take the bytes for: files that hold their own audio. No playlists, SDP, scripts that name others."""

CODECS = (
    "aac,aac_latm,ac3,adpcm_ima_qt,adpcm_ima_wav,adpcm_ms,adpcm_swf,adpcm_yamaha,alac,amrnb,amrwb,dca,eac3,flac,g722,"
    "g726,gsm,gsm_ms,libopencore_amrnb,libopencore_amrwb,libopus,mp1,mp1float,mp2,mp2float,mp3,mp3float,nellymoser,opus,"
    "pcm_alaw,pcm_bluray,pcm_dvd,pcm_f32be,pcm_f32le,pcm_f64be,pcm_f64le,pcm_mulaw,pcm_s16be,pcm_s16le,pcm_s24be,"
    "pcm_s24le,pcm_s32be,pcm_s32le,pcm_s8,pcm_u8,speex,vorbis,wmalossless,wmapro,wmav1,wmav2,wmavoice"
)
"""What FFmpeg may decode: sound. Else it decodes pictures to learn their size: 150 MB for a film of 190 kB."""

BLOCK_SAMPLES = 65_536
"""Samples, of all channels, that libsndfile decodes at once: numpy holds the GIL for under a millisecond on them."""

BLOCK_FRAMES = 16
"""Codec frames handled at once: one is some 20 ms of audio, and costs numpy as many calls as a second does."""

MIN_RATE, MAX_RATE, MAX_CHANNELS = 1_000, 768_000, 16
"""Hertz, and channels, of sane files. Outside them a header is damaged, or made to cost memory."""

MAX_PLANES = 8
"""Channels of an FFmpeg frame. A damaged AAC frame can claim 39, and PyAV then reads on to a NULL that is not there."""

SAMPLE_FORMATS = {"u8": "u1", "s16": "i2", "s32": "i4", "flt": "f4", "dbl": "f8"}
"""numpy's names of FFmpeg's. `av.AudioFrame.to_ndarray` is not used: it reads beyond the eighth plane, and crashes."""

MOST_ALLOCATED = 64 * 1024 * 1024
"""Bytes that FFmpeg may ask for at once. An MP4 of 900 bytes can claim an index of 80 million entries, for which it
would take 2.8 GB and 17 s; that of fifteen hours of AAC fits."""

CANCELLED_POWER = 0.01
"""Share of the channels' mean power under which their average has cancelled; one voice on 16 channels keeps 0.06."""


class DecodingCancelled(Exception):
    """``cancelled`` said so: nobody waits. `asyncio.CancelledError` from a thread would look like the task's own."""


def decode(
    source: BinaryIO,
    *,
    limit_s: float | None,
    cancelled: Callable[[], bool] = lambda: False,
    draw: Callable[[int], None] = lambda _nbytes: None,
) -> Waveform:
    """Decode a whole file. Blocks for as long as that takes, so it belongs into a worker thread; any number may run it.

    Memory stays under 40 kB per second of audio. No name, type or duration that the file claims is believed.

    Args:
        source: Seekable, positioned anywhere, and not used by anyone else meanwhile. It stays open.
        limit_s: Most seconds to accept, or None for no limit.
        cancelled: Asked before every read from ``source``, in the calling thread.
        draw: Called with every number of bytes of samples that is about to be held; what it raises ends the decoding.

    Returns:
        All channels averaged, shape (samples,). Empty where there are no samples, as in a WAV of nothing but a header.

    Raises:
        MissingField: ``source`` has no bytes.
        UndecodableAudio: It is no audio, cannot be read, or holds non-finite samples.
        AudioTooLong: More than ``limit_s`` seconds have been decoded.
        DecodingCancelled: ``cancelled`` returned True.
    """
    file = _Source(source, cancelled)
    if not file.nbytes:
        raise MissingField(param="file", sentence="The file is empty.")
    magic = file.read(4)
    readers = [_libsndfile, _ffmpeg] if magic in UNCOMPRESSED else [_ffmpeg]
    if magic == b"fLaC":
        readers.append(_libsndfile)
    faults: list[UndecodableAudio] = []
    held = drawn = 0

    def hold(nbytes: int) -> None:  # what a reader that failed has drawn serves the next one
        nonlocal held, drawn
        held += nbytes
        if held > drawn:
            draw(held - drawn)
            drawn = held

    for read in readers:
        file.seek(0)
        held = 0
        waveform = np.zeros(0, np.int16)
        try:
            with closing(read(file)) as blocks:
                waveform = _joined(_limited(_resampled(blocks), limit_s), file.check, hold)
        except UndecodableAudio as fault:
            faults.append(fault)
        file.check()
        if waveform.size:
            return waveform
    if len(faults) == len(readers):
        raise faults[0]
    return waveform


def prepare() -> None:
    """Load what the first compressed file needs: 20 MiB that are there at rest, then. Blocks for tenths of a second."""
    with suppress(ImportError):
        import av  # noqa: F401  it is kept by Python

        _bound_allocations()


class _Source:
    """What both libraries read from. Never raises: inside their callbacks an exception is printed, or lost."""

    def __init__(self, file: BinaryIO, cancelled: Callable[[], bool]) -> None:
        self._file = file
        self._cancelled = cancelled
        self._stopped_by: Exception | None = None
        file.seek(0, io.SEEK_END)
        self.nbytes = file.tell()
        file.seek(0)

    def read(self, nbytes: int = -1) -> bytes:
        """Up to ``nbytes`` bytes; nothing, as at the end, once cancelled or broken."""
        if self._stopped_by is None and self._cancelled():
            self._stopped_by = DecodingCancelled()
        if self._stopped_by is not None:
            return b""
        try:
            return self._file.read(nbytes)
        except (OSError, ValueError) as error:  # a disk that fails; a file that its owner closed
            self._stopped_by = error
            return b""

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move, not beyond the end; -1 and no move where damaged offsets lead to before the beginning."""
        target = (0, self._file.tell(), self.nbytes)[whence] + offset
        if target < 0:
            return -1
        self._file.seek(min(target, self.nbytes))
        return self._file.tell()

    def tell(self) -> int:
        """Where the next read begins."""
        return self._file.tell()

    def check(self) -> None:
        """Raise what made `read` pretend that the file ends."""
        if self._stopped_by is not None:
            raise self._stopped_by


def _libsndfile(file: _Source) -> Generator[Block]:
    """Blocks of `BLOCK_SAMPLES`."""
    try:
        with soundfile.SoundFile(file) as sound:
            nframes = max(1, BLOCK_SAMPLES // sound.channels)
            while len(frames := sound.read(nframes, "float32", always_2d=True)):
                yield frames.T, sound.samplerate
    except soundfile.LibsndfileError as cause:
        raise UndecodableAudio(reason=cause.error_string.rstrip(".")) from cause


def _ffmpeg(file: _Source) -> Generator[Block]:
    """Blocks of `BLOCK_FRAMES` codec frames. PyAV is imported here: a machine that is only sent WAV does without it."""
    try:
        import av
    except ImportError as cause:
        raise UndecodableAudio(reason="this kind of file needs PyAV, which is not installed here") from cause
    _bound_allocations()
    options = {"format_whitelist": CONTAINERS, "codec_whitelist": CODECS}
    empty = True
    try:
        with av.open(file, "r", container_options=options, metadata_errors="replace", io_open=_refuse) as container:
            pieces = _pieces(container)
            for (rate, _), alike in groupby(pieces, key=lambda piece: (piece[1], len(piece[0]))):
                while some := [samples for samples, _ in islice(alike, BLOCK_FRAMES)]:
                    empty = False
                    yield np.concatenate(some, axis=1), rate
    except av.FFmpegError as cause:
        raise UndecodableAudio(reason=str(cause.strerror)) from cause
    if empty:
        raise UndecodableAudio(reason="its sound track holds nothing that can be decoded")


@cache
def _bound_allocations() -> None:
    """Set the bound of PyAV's own FFmpeg, once; one that the system brings is left as it is."""
    import av

    for library in Path(av.__file__).parent.parent.glob("av.libs/libavutil*.so*"):
        ctypes.CDLL(str(library)).av_max_alloc(ctypes.c_size_t(MOST_ALLOCATED))


def _pieces(container: av.container.InputContainer) -> Iterator[Block]:
    """Every frame of the best sound track that decodes; what is damaged between them is left out."""
    import av

    track = container.streams.best("audio")
    if not isinstance(track, av.AudioStream):
        raise UndecodableAudio(reason="it has no sound track")
    if track.codec_context is None or track.codec_context.name not in CODECS.split(","):
        raise UndecodableAudio(reason="the codec of its sound track is not supported")
    track.codec_context.thread_count = 1
    with suppress(IndexError):  # PyAV's way to end, after the last packet, where a stream began in mid-file
        for packet in container.demux(track):
            try:
                frames = packet.decode()
            except av.FFmpegError:
                continue
            for frame in frames:
                if frame.layout.nb_channels <= MAX_PLANES:
                    yield _floats(frame), frame.sample_rate


def _floats(frame: av.AudioFrame) -> NDArray[np.float32]:
    """A frame of any sample format as float32, shape (channels, samples)."""
    channels, planar = frame.layout.nb_channels, frame.format.is_planar
    dtype = np.dtype(SAMPLE_FORMATS[frame.format.name.removesuffix("p")])
    planes = frame.planes[: channels if planar else 1]
    values = frame.samples * (1 if planar else channels)
    samples = np.stack([np.frombuffer(bytes(plane), dtype, values) for plane in planes])
    if not planar:
        samples = samples.reshape(-1, channels).T
    middle = 128 if dtype.kind == "u" else 0
    peak = 1 if dtype.kind == "f" else 2 ** (8 * dtype.itemsize - 1)
    with np.errstate(over="ignore", invalid="ignore"):  # what float32 cannot hold is refused later, as not finite
        return (samples.astype(np.float32) - np.float32(middle)) / np.float32(peak)


def _resampled(blocks: Iterable[Block]) -> Iterator[NDArray[np.float32]]:
    """Mono at `SAMPLE_RATE`. The rate may change in mid-stream; audio that has the right rate is not touched."""
    current, stream = SAMPLE_RATE, None
    for samples, rate in blocks:
        if not (MIN_RATE <= rate <= MAX_RATE and 1 <= len(samples) <= MAX_CHANNELS):
            raise UndecodableAudio(reason=f"{len(samples)} channels at {rate} Hz are beyond what is supported")
        if rate != current:
            if stream:
                yield stream.resample_chunk(np.zeros(0, np.float32), last=True)
            current = rate
            stream = soxr.ResampleStream(rate, SAMPLE_RATE, 1, "float32", "HQ") if rate != SAMPLE_RATE else None
        mono = _mono(samples)
        yield stream.resample_chunk(mono) if stream else mono
    if stream:
        yield stream.resample_chunk(np.zeros(0, np.float32), last=True)


def _mono(samples: NDArray[np.float32]) -> NDArray[np.float32]:
    """The channels' average; the first channel where the average cancels, as it does with one of two wires swapped."""
    if not np.isfinite(samples).all():
        raise UndecodableAudio(reason="it holds non-finite samples")
    samples = np.clip(samples, -1, 1)
    average: NDArray[np.float32] = samples.mean(axis=0)
    if np.vdot(average, average) < CANCELLED_POWER * np.vdot(samples, samples) / len(samples):
        return np.ascontiguousarray(samples[0])
    return average


def _limited(pieces: Iterable[NDArray[np.float32]], limit_s: float | None) -> Iterator[bytes]:
    """Sixteen-bit samples, as far as they are not too many."""
    nbytes = 0
    for piece in pieces:
        samples = np.clip(np.rint(piece * 32_768), -32_768, 32_767).astype(np.int16).tobytes()
        nbytes += len(samples)
        if limit_s is not None and nbytes > limit_s * SAMPLE_RATE * np.int16().itemsize:
            raise AudioTooLong(limit_s=limit_s)
        yield samples


def _joined(pieces: Iterable[bytes], check: Callable[[], None], draw: Callable[[int], None]) -> Waveform:
    """All samples, in one buffer that grows in place: a list of pieces and its join need twice the memory.

    The buffer is emptied where this raises: an error and the frames it came through are a circle, and wait for the
    collector with what they hold, which is 115 MB of an hour.
    """
    joined = bytearray()
    try:
        for piece in pieces:
            draw(len(piece))
            joined += piece
        check()
    except BaseException:
        joined.clear()
        raise
    return np.frombuffer(joined, np.int16)


def _refuse(*_: object) -> BinaryIO:
    """FFmpeg's way to open a second file. No container needs one, and a hostile one could name any."""
    raise PermissionError
