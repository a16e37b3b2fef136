"""Sounds made here, in every container, come back as what they were; everything else is refused in one sentence."""

from __future__ import annotations

import io
import re
import socket
import subprocess
import sys
import tempfile
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seat.audio import DecodingCancelled, decode
from seat.errors import AudioTooLong, InvalidRequest, MissingField, UndecodableAudio
from seat.recognizer import SAMPLE_RATE, Waveform
from tests import sounds
from tests.sounds import Sound

SECONDS = 2.0
CODEC_DELAY_S = 0.06
"""The longest delay without a header that says so: AAC in ADTS is 1,024 samples late, and MP2 and AC-3 fill a frame."""
RIGHT_CHANNEL = sounds.side_by_side(sounds.silence(SECONDS, 48_000), sounds.chirp(SECONDS, 48_000))


def decoded(file: bytes, *, limit_s: float | None = None) -> Waveform:
    """What `decode` makes of these bytes."""
    return decode(io.BytesIO(file), limit_s=limit_s)


def likeness(waveform: Waveform, sound: Sound) -> tuple[float, float]:
    """How far ``sound``, at 16 kHz, is shifted in ``waveform``, in seconds, and the correlation there, from 0 to 1."""
    heard = waveform / 32_768
    size = 2 ** (heard.size + sound.size).bit_length()
    product = np.fft.irfft(np.fft.rfft(heard, size) * np.conj(np.fft.rfft(sound, size)), size)
    shift = int(product.argmax())
    shift -= size if shift > size // 2 else 0
    return shift / SAMPLE_RATE, float(product.max() / (np.linalg.norm(heard) * np.linalg.norm(sound)))


def assert_same(waveform: Waveform, seconds: float = SECONDS, *, delay_s: float = CODEC_DELAY_S) -> None:
    """The waveform is the chirp of that many seconds, whole, in place and of the type the model is given."""
    shift_s, correlation = likeness(waveform, sounds.chirp(seconds))
    assert (np.dtype(np.int16), 1) == (waveform.dtype, waveform.ndim)
    assert waveform.size / SAMPLE_RATE == pytest.approx(seconds, abs=delay_s)
    assert shift_s == pytest.approx(0, abs=delay_s)
    assert correlation > 0.97


@pytest.mark.parametrize("name", sounds.CASE_20)
def test_every_container_of_the_openai_list_is_heard_whole(name: str) -> None:
    """Case 20: what goes in comes out, in length, place and shape."""
    assert_same(decoded(sounds.CASE_20[name](sounds.chirp(SECONDS, 48_000), 48_000)))


@pytest.mark.parametrize("name", ["ac3", "caf", "m4a alac", "mka", "ts"])
def test_its_neighbours_are_heard_too(name: str) -> None:
    """Containers that are not on the list cost nothing more."""
    assert_same(decoded(sounds.muxed(sounds.chirp(SECONDS, 48_000), 48_000, name)))


def test_amr_from_a_telephone_is_heard() -> None:
    """A vocoder keeps no waveform, but the loudness stays in place."""
    waveform = decoded(sounds.muxed(sounds.bursts(2, 8000, starts=[0.5, 1.5]), 8000, "amr"))
    loud = [bool(np.abs(part).max() > 6000) for part in np.array_split(waveform, 8)]
    assert [False, False, True, False, False, False, True, False] == loud


ENCODINGS = [
    ("WAV", "PCM_16"),
    ("WAV", "PCM_U8"),
    ("WAV", "PCM_32"),
    ("WAV", "FLOAT"),
    ("WAV", "DOUBLE"),
    ("WAV", "ALAW"),
    ("WAV", "ULAW"),
    ("WAV", "MS_ADPCM"),
    ("WAV", "IMA_ADPCM"),
    ("WAVEX", "PCM_24"),
    ("RF64", "PCM_16"),
    ("W64", "PCM_16"),
    ("AIFF", "PCM_24"),
    ("CAF", "PCM_16"),
    ("AU", "ULAW"),
    ("FLAC", "PCM_24"),
]


@pytest.mark.parametrize("rate", [8000, 44_100, 48_000])
@pytest.mark.parametrize(
    "container, encoding, channels",
    [
        (container, encoding, channels)
        for container, encoding in ENCODINGS
        for channels in (1, 2, 6)
        if channels <= 2 or not encoding.endswith("ADPCM")
    ],
)
def test_every_encoding_rate_and_channel_count_is_heard(
    container: str, encoding: str, channels: int, rate: int
) -> None:
    """Case 22."""
    sound = sounds.side_by_side(*[sounds.chirp(SECONDS, rate)] * channels)
    assert_same(
        decoded(sounds.written(sound, rate, container, encoding)), delay_s=0.2 if "ADPCM" in encoding else 0.001
    )


@pytest.mark.parametrize("name", ["m4a", "opus", "mka", "oga"])
def test_six_channels_of_a_codec_are_heard(name: str) -> None:
    """A film's 5.1 sound is averaged like any other."""
    sound = sounds.side_by_side(*[sounds.chirp(SECONDS, 48_000)] * 6)
    assert_same(decoded(sounds.muxed(sound, 48_000, name)), delay_s=0.15)


@pytest.mark.parametrize("name", ["m4a", "opus", "mka"])
def test_eight_channels_of_a_codec_do_not_crash(name: str) -> None:
    """PyAV's own conversion to numpy follows a length as if it were a ninth plane, which ends the process."""
    sound = sounds.side_by_side(*[sounds.chirp(SECONDS, 48_000)] * 8)
    assert_same(decoded(sounds.muxed(sound, 48_000, name)), delay_s=0.15)


@given(samples=st.lists(st.integers(-32_768, 32_767), min_size=1, max_size=200))
@settings(max_examples=30, deadline=None)
def test_sixteen_bits_at_16_khz_pass_untouched(samples: list[int]) -> None:
    """The samples of the plainest file reach the model bit by bit."""
    pcm = np.array(samples, np.int16)
    assert samples == decoded(sounds.hand_made_wav(rate=16_000, channels=1, data=pcm.tobytes())).tolist()


def test_a_long_file_passes_untouched_over_all_its_blocks() -> None:
    """No sample is lost or doubled between blocks."""
    pcm = np.rint(sounds.noise(20) * 32_767).astype(np.int16)
    assert pcm.tobytes() == decoded(sounds.hand_made_wav(rate=16_000, channels=1, data=pcm.tobytes())).tobytes()


@pytest.mark.parametrize("name", ["wav", "mp3", "m4a"])
def test_speech_on_the_right_channel_only_is_heard(name: str) -> None:
    """Case 7: at half the level, but whole."""
    file = sounds.wav(RIGHT_CHANNEL, 48_000) if name == "wav" else sounds.muxed(RIGHT_CHANNEL, 48_000, name)
    assert_same(decoded(file))


def test_channels_that_cancel_are_heard() -> None:
    """With one of two wires swapped the average is silence; the first channel is taken then."""
    chirp = sounds.chirp(SECONDS, 48_000)
    assert_same(decoded(sounds.wav(sounds.side_by_side(chirp, -chirp), 48_000)))


def test_loud_floats_are_clipped() -> None:
    """Samples beyond full scale do not wrap round."""
    file = sounds.written(np.array([0.0, 0.5, 1.0, 3.0, -1.0, -7.0]), 16_000, "WAV", "FLOAT")
    assert [0, 16_384, 32_767, 32_767, -32_768, -32_768] == decoded(file).tolist()


@pytest.mark.parametrize("encoding", ["FLOAT", "DOUBLE"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_samples_that_are_no_numbers_are_refused(value: float, encoding: str) -> None:
    """A NaN would spread through the model's whole batch."""
    sound = sounds.chirp(SECONDS)
    sound[777] = value
    with pytest.raises(UndecodableAudio, match="non-finite"):
        decoded(sounds.written(sound, 16_000, "WAV", encoding))


def test_what_two_readers_decode_is_held_once() -> None:
    """The first fails at the last sample of a minute, and what it had drawn serves the second."""
    samples = np.zeros(60 * SAMPLE_RATE)
    samples[-1] = np.nan
    drawn: list[int] = []
    with pytest.raises(UndecodableAudio):
        decode(io.BytesIO(sounds.written(samples, SAMPLE_RATE, "WAV", "FLOAT")), limit_s=None, draw=drawn.append)
    assert 0 < sum(drawn) <= 2 * len(samples)


def test_an_index_at_the_end_is_found() -> None:
    """Case 18: the m4a of the tests has its index behind the samples, as phones write it."""
    file = sounds.muxed(sounds.chirp(SECONDS, 48_000), 48_000, "m4a")
    assert file.index(b"mdat") < file.index(b"moov")
    assert_same(decoded(file))


@pytest.mark.parametrize("make", [sounds.endless_webm, sounds.fragmented_mp4])
def test_a_browsers_recording_without_duration_is_heard_whole(make: sounds.Maker) -> None:
    """Case 19: Chrome writes WebM without a duration, Safari MP4 in fragments."""
    assert_same(decoded(make(sounds.chirp(SECONDS, 48_000), 48_000)))


@pytest.mark.parametrize("nbytes", [0xFFFF_FFFF, 0xFFFF_FFDB, 0x7FFF_FFFF, 0])
def test_a_wav_that_lies_about_its_length_has_its_real_one(nbytes: int) -> None:
    """Case 21: ffmpeg writes 0xFFFFFFFF into a pipe, recorders that were switched off leave 0."""
    file = sounds.with_data_size(sounds.wav(sounds.chirp(SECONDS)), nbytes)
    assert_same(decoded(file, limit_s=SECONDS), delay_s=0)


def test_a_flac_of_unknown_length_is_heard_whole() -> None:
    """An encoder that writes into a pipe leaves the number of samples at 0."""
    file = bytearray(sounds.written(sounds.chirp(SECONDS), 16_000, "FLAC", "PCM_16"))
    file[21] &= 0xF0
    file[22:26] = bytes(4)
    assert_same(decoded(bytes(file)), delay_s=0)


@pytest.mark.parametrize("name", ["ogg", "opus", "oga", "mp3", "aac"])
def test_files_put_one_behind_the_other_are_heard_to_the_end(name: str) -> None:
    """Internet radio and `cat` chain streams; libsndfile would return the first as if it were all."""
    file = sounds.CASE_20[name](sounds.chirp(SECONDS, 48_000), 48_000)
    waveform = decoded(file + file)
    assert waveform.size / SAMPLE_RATE == pytest.approx(2 * SECONDS, abs=2 * CODEC_DELAY_S)
    assert likeness(waveform[waveform.size // 2 :], sounds.chirp(SECONDS))[1] > 0.97


def test_a_rate_that_changes_in_mid_stream_is_followed() -> None:
    """Each part is resampled from its own rate."""
    parts = [sounds.muxed(sounds.chirp(SECONDS, rate), rate, "aac") for rate in (48_000, 24_000)]
    waveform = decoded(b"".join(parts))
    assert waveform.size / SAMPLE_RATE == pytest.approx(2 * SECONDS, abs=0.25)
    assert likeness(waveform[waveform.size // 2 :], sounds.chirp(SECONDS))[1] > 0.97


def test_a_stream_that_begins_in_mid_file_does_no_harm() -> None:
    """PyAV ends such a file with an IndexError, after its last packet."""
    sound = sounds.chirp(SECONDS, 48_000)
    assert_same(decoded(sounds.muxed(sound, 48_000, "ts") + sounds.film(sound, 48_000, "film ts")))


def test_a_film_without_sound_is_refused() -> None:
    """Pictures say nothing."""
    with pytest.raises(UndecodableAudio, match="no sound track"):
        decoded(sounds.film(None))


def test_a_sound_track_without_a_sample_is_refused() -> None:
    """Case 18: an index that announces sound, and nothing behind it, is no recording of nothing."""
    file = sounds.fragmented_mp4(sounds.chirp(SECONDS, 48_000))
    with pytest.raises(UndecodableAudio, match="holds nothing"):
        decoded(file[: file.index(b"moof") - 4])


@pytest.mark.parametrize("name", ["mp3", "mpeg", "mpga", "ogg", "oga", "opus", "wav", "webm", "flac", "aac"])
def test_a_truncated_file_is_heard_as_far_as_it_goes(name: str) -> None:
    """An upload that broke off is worth its beginning."""
    file = sounds.CASE_20[name](sounds.chirp(6, 48_000), 48_000)
    waveform = decoded(file[: len(file) * 7 // 10])
    assert 2 < waveform.size / SAMPLE_RATE < 5
    assert likeness(waveform, sounds.chirp(6)[: waveform.size])[1] > 0.97


@pytest.mark.parametrize("name", ["mp3", "mpga", "m4a", "flac", "aac"])
def test_damage_in_the_middle_costs_only_the_middle(name: str) -> None:
    """What stands behind a broken frame is heard: a transcript must not end in silence there."""
    file = bytearray(sounds.CASE_20[name](sounds.chirp(6, 48_000), 48_000))
    middle = len(file) // 2
    file[middle : middle + 100] = bytes(100)
    assert decoded(bytes(file)).size / SAMPLE_RATE == pytest.approx(6, abs=0.6)


def test_an_empty_file_is_a_missing_field() -> None:
    """Case 15."""
    with pytest.raises(MissingField) as caught:
        decoded(b"")
    assert ("file", "The file is empty.") == (caught.value.param, str(caught.value))


@pytest.mark.parametrize("rate", [8000, 16_000, 48_000])
def test_a_header_without_samples_is_an_empty_waveform(rate: int) -> None:
    """Case 15: a recording of nothing, not a broken file."""
    assert (0,) == decoded(sounds.wav(sounds.silence(0), rate)).shape


@pytest.mark.parametrize("nsamples", [1, 800, 1600])
def test_tiny_sounds_keep_their_length(nsamples: int) -> None:
    """Case 16: padding is the planner's business."""
    assert nsamples == decoded(sounds.wav(sounds.silence(nsamples / SAMPLE_RATE))).size


NOT_AUDIO = {
    "random bytes": np.random.default_rng(1).bytes(50_000),
    "one byte": b"R",
    "text": b"This is not a sound, whatever its name says.\n" * 40,
    "RIFF and no more": b"RIFF",
    "RIFF of random bytes": b"RIFF" + np.random.default_rng(2).bytes(5000),
    "WAV without samples chunk": sounds.wav(sounds.chirp(1))[:30],
    "broken m4a": sounds.muxed(sounds.chirp(SECONDS, 48_000), 48_000, "m4a")[:9000],
    "m4a of random bytes": b"\0\0\0\x1cftypM4A " + np.random.default_rng(3).bytes(5000),
    "FLAC header": sounds.written(sounds.chirp(1), 16_000, "FLAC")[:60],
    "Ogg page": sounds.written(sounds.chirp(1), 16_000, "OGG")[:58],
    "WebM header": sounds.muxed(sounds.chirp(1, 48_000), 48_000, "webm")[:200],
    "picture": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x02\0\0\0\x90wS\xde\0\0\0\0IEND\xaeB`\x82",
    "rate 0": sounds.hand_made_wav(rate=0, channels=1),
    "rate 1": sounds.hand_made_wav(rate=1, channels=1),
    "rate 10 MHz": sounds.hand_made_wav(rate=10_000_000, channels=1),
    "rate 2**32 - 1": sounds.hand_made_wav(rate=2**32 - 1, channels=1),
    "no channels": sounds.hand_made_wav(rate=16_000, channels=0),
    "200 channels": sounds.hand_made_wav(rate=16_000, channels=200),
    "65535 channels": sounds.hand_made_wav(rate=16_000, channels=65_535),
    "unknown codec": sounds.hand_made_wav(rate=16_000, channels=1, tag=0x7777),
}


@pytest.mark.parametrize("name", NOT_AUDIO)
def test_what_is_no_audio_is_refused_in_a_sentence_that_names_no_place(
    name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Case 24; nothing is printed either, not even by the libraries."""
    with pytest.raises(UndecodableAudio) as caught:
        decoded(NOT_AUDIO[name])
    sentence = str(caught.value)
    assert re.fullmatch(r"The audio file could not be decoded: [^<>\[\]]+[^.]\.", sentence)
    assert not re.search(r"0x|(?<!\w)/|BytesIO", sentence)
    assert ("", "") == tuple(capfd.readouterr())


def test_the_librarys_own_error_is_kept_as_the_cause() -> None:
    """Whoever reads the log sees what libsndfile or FFmpeg said."""
    with pytest.raises(UndecodableAudio) as caught:
        decoded(NOT_AUDIO["broken m4a"])
    assert "InvalidDataError" == type(caught.value.__cause__).__name__


@pytest.mark.parametrize(
    "script",
    [
        "#EXTM3U\n#EXT-X-VERSION:3\n#EXT-X-TARGETDURATION:2\n#EXTINF:2,\n{path}\n#EXT-X-ENDLIST\n",
        "#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:2,\nhttp://127.0.0.1:{port}/a.ts\n#EXT-X-ENDLIST\n",
        "ffconcat version 1.0\nfile {path}\n",
        "ffconcat version 1.0\nfile http://127.0.0.1:{port}/a.ts\n",
        "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=audio 5004 RTP/AVP 0\n",
        '<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011"><BaseURL>http://127.0.0.1:{port}/</BaseURL></MPD>',
    ],
)
def test_a_playlist_is_not_followed(script: str, tmp_path: Path) -> None:
    """A text that names a file which could be decoded, or a server that listens, gets neither opened."""
    (tmp_path / "secret.ts").write_bytes(sounds.muxed(sounds.chirp(SECONDS, 48_000), 48_000, "ts"))
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0)
        file = script.format(path=tmp_path / "secret.ts", port=server.getsockname()[1]).encode()
        with pytest.raises(UndecodableAudio):
            decoded(file)
        with pytest.raises(BlockingIOError):
            server.accept()


def test_exactly_the_limit_passes_and_a_sample_more_does_not() -> None:
    """The limit counts decoded samples."""
    assert SECONDS * SAMPLE_RATE == decoded(sounds.wav(sounds.chirp(SECONDS)), limit_s=SECONDS).size
    with pytest.raises(AudioTooLong) as caught:
        decoded(sounds.wav(sounds.chirp(SECONDS + 1 / SAMPLE_RATE)), limit_s=SECONDS)
    assert "2 seconds" in str(caught.value)


@pytest.mark.parametrize("rate", [8000, 22_050, 44_100, 48_000])
def test_exactly_the_limit_passes_at_every_rate(rate: int) -> None:
    """Resampling adds nothing."""
    assert 3 * SAMPLE_RATE == decoded(sounds.wav(sounds.chirp(3, rate), rate), limit_s=3).size


@pytest.mark.parametrize("name", ["mp3", "m4a", "wav", "flac", "webm"])
def test_decoding_stops_soon_after_the_limit(name: str) -> None:
    """A long file is not read to its end to learn that it is too long."""
    source = _Counting(sounds.CASE_20[name](sounds.noise(40, 48_000), 48_000))
    with pytest.raises(AudioTooLong):
        decode(source, limit_s=1)
    assert source.nbytes_read < len(source.getvalue()) / 2


def test_a_header_that_claims_little_lets_nothing_long_pass() -> None:
    """The duration in an m4a's header is not asked."""
    file = sounds.muxed(sounds.chirp(SECONDS, 48_000), 48_000, "m4a")
    at = file.index(b"mvhd") + 4 + 16
    with pytest.raises(AudioTooLong):
        decoded(file[:at] + (1).to_bytes(4, "big") + file[at + 4 :], limit_s=1)


@pytest.mark.parametrize("name", ["wav", "mp3", "m4a", "flac"])
def test_a_cancelled_decoding_stops(name: str) -> None:
    """It is asked before each read, and nothing is read after it said so."""
    file = sounds.CASE_20[name](sounds.noise(30, 48_000), 48_000)
    for patience in (0, 1, 5):
        answers = iter([False] * patience)
        source = _Counting(file)
        with pytest.raises(DecodingCancelled):
            decode(source, limit_s=None, cancelled=lambda: next(answers, True))  # noqa: B023, called in this turn only
        assert patience == source.reads


@pytest.mark.parametrize("name", ["wav", "mp3"])
def test_a_disk_that_fails_is_not_the_clients_fault(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    """A read error is neither a short transcript nor a 400."""
    source = _Counting(sounds.CASE_20[name](sounds.noise(20, 48_000), 48_000), fails_after=50_000)
    with pytest.raises(OSError, match="the disk is gone"):
        decode(source, limit_s=None)
    assert ("", "") == tuple(capfd.readouterr())


def test_the_source_may_stand_anywhere_and_stays_open() -> None:
    """A spooled upload stands at its end after it was written."""
    with tempfile.SpooledTemporaryFile(max_size=1000) as spooled:
        spooled.write(sounds.wav(sounds.chirp(SECONDS)))
        assert_same(decode(spooled, limit_s=None))
        assert_same(decode(spooled, limit_s=None))
        assert not spooled.closed


@pytest.mark.parametrize("name", ["x.mp3", "x.WAV", "a.raw", "b.m3u8", "none"])
@pytest.mark.parametrize("kind", ["wav", "m4a"])
def test_the_name_of_a_file_is_not_believed(kind: str, name: str, tmp_path: Path) -> None:
    """Case 23: soundfile takes a `.raw` for headerless samples when it sees the name."""
    (tmp_path / name).write_bytes(sounds.CASE_20[kind](sounds.chirp(SECONDS, 48_000), 48_000))
    with (tmp_path / name).open("rb") as file:
        assert_same(decode(file, limit_s=None))


@pytest.mark.parametrize("name", ["wav", "flac", "mpga", "aac"])
def test_ten_minutes_need_less_than_40_kb_a_second(name: str) -> None:
    """The samples need 32; growing and decoding add less than 8."""
    if name in {"wav", "flac"}:
        file = io.BytesIO(sounds.CASE_20[name](np.tile(sounds.chirp(10, 48_000), 60), 48_000))
    else:
        file = io.BytesIO(sounds.CASE_20[name](sounds.chirp(10), SAMPLE_RATE) * 60)
    tracemalloc.start()
    waveform = decode(file, limit_s=None)
    _, peak_nbytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert waveform.size / SAMPLE_RATE == pytest.approx(600, abs=60 * 3 * CODEC_DELAY_S)
    assert peak_nbytes / (waveform.size / SAMPLE_RATE) < 40_000


def test_many_threads_decode_at_once() -> None:
    """Decodings share nothing."""
    files = [make(sounds.chirp(SECONDS, 48_000), 48_000) for make in sounds.CASE_20.values()] * 3
    alone = [decoded(file).tobytes() for file in files]
    gate = threading.Barrier(4)

    def together(file: bytes) -> bytes:
        gate.wait()
        return decoded(file).tobytes()

    with ThreadPoolExecutor(4) as pool:
        assert alone == list(pool.map(together, files))


def test_bad_files_leave_no_descriptor_open(tmp_path: Path) -> None:
    """After 200 of them the process holds as many files as before."""
    paths = []
    for number, file in enumerate(NOT_AUDIO.values()):
        paths.append(tmp_path / str(number))
        paths[-1].write_bytes(file)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for path in paths * 10:
        with path.open("rb") as source, pytest.raises(UndecodableAudio):
            decode(source, limit_s=None)
    assert before == len(list(Path("/proc/self/fd").iterdir()))


def test_without_pyav_wav_and_flac_are_heard_and_the_rest_says_why(tmp_path: Path) -> None:
    """One machine has no PyAV and is sent nothing else; `import seat.audio` does not ask for it."""
    for name in ("wav", "flac", "m4a"):
        (tmp_path / name).write_bytes(sounds.CASE_20[name](sounds.chirp(1, 48_000), 48_000))
    program = (
        "import sys; sys.modules['av'] = None\n"
        "from seat.audio import decode\n"
        "for name in ('wav', 'flac', 'm4a'):\n"
        "    try: print(decode(open(sys.argv[1] + '/' + name, 'rb'), limit_s=None).size)\n"
        "    except Exception as error: print(error)\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True, cwd=Path.cwd()
    )
    sentence = "The audio file could not be decoded: this kind of file needs PyAV, which is not installed here."
    assert ["16000", "16000", sentence] == answer.stdout.splitlines()


MAGIC = st.sampled_from(
    [b"", b"RIFF", b"fLaC", b"OggS", b"ID3\x04", b"\xff\xfb\x90\x00", b"\xff\xf1L@", b"\0\0\0\x1cftyp"]
)


@given(magic=MAGIC, rest=st.binary(max_size=2000))
@settings(max_examples=150, deadline=None)
def test_any_bytes_are_a_waveform_or_an_invalid_request(magic: bytes, rest: bytes) -> None:
    """Nothing else comes out of the decoder."""
    with suppress(InvalidRequest):
        assert np.int16 == decoded(magic + rest, limit_s=60).dtype


FRAGILE = [make(sounds.chirp(0.5, 48_000), 48_000) for make in sounds.CASE_20.values()]


@given(
    number=st.integers(0, len(FRAGILE) - 1),
    damage=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=8),
)
@settings(max_examples=150, deadline=None)
def test_any_damage_leaves_a_waveform_or_an_invalid_request(number: int, damage: list[tuple[float, int]]) -> None:
    """Files that were good once get further into the codecs than random bytes do."""
    file = bytearray(FRAGILE[number])
    for place, value in damage:
        file[int(place**3 * len(file))] = value
    with suppress(InvalidRequest):
        assert np.int16 == decoded(bytes(file), limit_s=60).dtype


class _Counting(io.BytesIO):
    """A file that counts what is read, and may break."""

    def __init__(self, file: bytes, *, fails_after: int | None = None) -> None:
        super().__init__(file)
        self.nbytes_read = 0
        self.reads = 0
        self._fails_after = fails_after

    def read(self, size: int | None = -1, /) -> bytes:
        found = super().read(size)
        self.nbytes_read += len(found)
        self.reads += 1
        if self._fails_after is not None and self.nbytes_read > self._fails_after:
            raise OSError(5, "the disk is gone")
        return found


def test_an_index_that_claims_millions_of_entries_takes_no_memory() -> None:
    """In a process of its own, whose peak tells; FFmpeg would take 2.8 GB for 900 bytes."""
    code = """
import io, resource
from seat.audio import decode
from seat.errors import UndecodableAudio
from tests.sounds import fragmented_mp4, index_bomb, tone
decode(io.BytesIO(fragmented_mp4(tone(0.5, 48_000))), limit_s=None)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    decode(io.BytesIO(index_bomb(80_000_000)), limit_s=3600)
except UndecodableAudio:
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024 < 100)
"""
    result = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60)
    assert result.stdout.split() == ["True"], result.stderr
