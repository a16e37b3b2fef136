"""The official OpenAI client against the real server with the bundled model."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import jiwer
import openai
import pytest
from openai.types.audio import Transcription, TranscriptionVerbose

from tests.process.conftest import Start
from tests.process.seats import MODEL_PATIENCE_S, PATIENCE_S, FakeSeat, Seat, said, until

pytestmark = [pytest.mark.process, pytest.mark.model]

WORST_WER = 0.1
"""Share of wrong words, over all clips: they were chosen as what the bundled model hears well."""

SEGMENT_FIELDS = {
    *("id", "seek", "start", "end", "text", "tokens"),
    *("temperature", "avg_logprob", "compression_ratio", "no_speech_prob"),
}


class CountedClient(openai.OpenAI):
    """The SDK with its own retries, and a count of what it sends."""

    def __init__(self, seat: Seat, key: str = "unused", max_retries: int = openai.DEFAULT_MAX_RETRIES) -> None:
        self.sent: list[str] = []
        super().__init__(
            max_retries=max_retries,
            base_url=f"{seat.url}/v1",
            api_key=key,
            timeout=MODEL_PATIENCE_S,
            http_client=httpx.Client(
                event_hooks={"request": [lambda request: self.sent.append(request.url.path)]}, timeout=PATIENCE_S
            ),
        )


@pytest.fixture
def client(seat: Seat) -> Iterator[CountedClient]:
    """The synchronous client."""
    with CountedClient(seat) as client:
        yield client


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeSeat]:
    """A seat that is sent what it refuses; the last of it keeps its model waiting."""
    with FakeSeat(tmp_path_factory.mktemp("refusing")) as refusing:
        yield refusing.wait_for("/health/ready")


@pytest.fixture(scope="module")
def clip(clips: dict[Path, str]) -> Path:
    """One clip with several words."""
    return max(clips, key=lambda path: len(clips[path].split()))


@pytest.fixture(scope="module")
def heard(seat: Seat, clip: Path) -> str:
    """What is heard in the clip, as plain text."""
    return seat.post(clip.read_bytes()).json()["text"]


def words_of(text: str) -> str:
    """A text's words without case and punctuation."""
    return " ".join(re.findall(r"[\w']+", text.lower()))


def test_the_clips_are_heard_right(client: CountedClient, clips: dict[Path, str]) -> None:
    """The bundled model hears what is said in the bundled clips; their paths are enough."""
    texts = [client.audio.transcriptions.create(model="demo", file=path).text for path in clips]
    assert jiwer.wer([words_of(text) for text in clips.values()], [words_of(text) for text in texts]) <= WORST_WER


def test_json_is_a_transcription_with_its_bill(client: CountedClient, clip: Path, heard: str) -> None:
    """The SDK's own type, with whole seconds to pay for."""
    answer = client.audio.transcriptions.create(model="whisper-1", file=clip.read_bytes())
    assert isinstance(answer, Transcription)
    assert answer.text == heard
    assert answer.usage is not None
    assert (answer.usage.type, answer.usage.seconds) == ("duration", int(answer.usage.seconds))
    assert answer.usage.seconds > 0


@pytest.mark.parametrize(
    "response_format, pattern",
    [
        ("text", r"TEXT\n"),
        ("srt", r"(\d+\n\d\d:\d\d:\d\d,\d{3} --> \d\d:\d\d:\d\d,\d{3}\n(.+\n){1,2}\n)+"),
        ("vtt", r"WEBVTT\n(\n\d\d:\d\d:\d\d\.\d{3} --> \d\d:\d\d:\d\d\.\d{3}\n(.+\n){1,2})+"),
    ],
)
def test_plain_formats_arrive_untouched(
    client: CountedClient, clip: Path, heard: str, response_format: Any, pattern: str
) -> None:
    """A string with the same words, and cues where there should be."""
    answer = client.audio.transcriptions.create(model="whisper-1", file=clip, response_format=response_format)
    assert isinstance(answer, str)
    assert re.fullmatch(pattern.replace("TEXT", re.escape(heard)), answer)
    spoken = [line for line in answer.split("\n") if line and not re.fullmatch(r"WEBVTT|\d+|\d\d:.*-->.*", line)]
    assert " ".join(spoken) == heard


def test_verbose_json_has_words_and_whole_segments(client: CountedClient, clip: Path, heard: str) -> None:
    """All ten fields of a segment, words in order inside the audio, one text in all three places."""
    answer = client.audio.transcriptions.create(
        model="whisper-1", file=clip, response_format="verbose_json", timestamp_granularities=["word", "segment"]
    )
    assert isinstance(answer, TranscriptionVerbose)
    assert answer.text == heard
    assert answer.segments
    assert answer.words
    assert " ".join(word.word for word in answer.words) == heard
    assert " ".join(segment.text for segment in answer.segments) == heard
    assert all(segment.model_fields_set >= SEGMENT_FIELDS for segment in answer.segments)
    assert all(None not in segment.model_dump().values() for segment in answer.segments)
    times = [time for word in answer.words for time in (word.start, word.end)]
    assert times == sorted(times)
    assert all(word.start < word.end for word in answer.words)
    assert 0 <= times[0] < times[-1] <= float(answer.duration)
    assert answer.language == "en"
    assert answer.usage is not None
    assert answer.usage.type == "duration"


@pytest.mark.parametrize(
    "wrapped",
    [
        lambda path: path,
        lambda path: path.read_bytes(),
        lambda path: ("x.mp3", path.read_bytes()),
        lambda path: ("a.bin", path.read_bytes(), "application/octet-stream"),
        lambda path: ("blob", path.read_bytes(), "audio/webm;codecs=opus"),
        lambda path: ("Größe \N{SPEAKER}.WAV", path.read_bytes()),
        lambda path: ('a "quoted"; name.flac', path.read_bytes(), "text/plain"),
    ],
    ids=["path", "bytes", "mp3", "bin", "webm", "unicode", "quoted"],
)
def test_a_file_may_be_handed_over_in_every_way(
    client: CountedClient, clip: Path, heard: str, wrapped: Callable[[Path], Any]
) -> None:
    """As path, bytes, open file or tuple, under any name and type: the bytes decide."""
    assert client.audio.transcriptions.create(model="ext-stt", file=wrapped(clip)).text == heard


def test_a_file_may_be_open(client: CountedClient, clip: Path, heard: str) -> None:
    """As most examples hand it over."""
    with clip.open("rb") as file:
        assert client.audio.transcriptions.create(model="ext-stt", file=file).text == heard


async def test_the_asynchronous_client_gets_the_same(seat: Seat, clip: Path, heard: str) -> None:
    """All formats, one after the other, on one connection."""
    async with openai.AsyncOpenAI(base_url=f"{seat.url}/v1", api_key="unused", timeout=MODEL_PATIENCE_S) as client:
        create = client.audio.transcriptions.create
        assert (await create(model="whisper-1", file=clip)).text == heard
        assert await create(model="whisper-1", file=clip, response_format="text") == heard + "\n"
        assert (await create(model="whisper-1", file=clip, response_format="srt")).startswith("1\n00:00:")
        assert (await create(model="whisper-1", file=clip, response_format="vtt")).startswith("WEBVTT\n\n00:00:")
        verbose = await create(
            model="whisper-1", file=clip, response_format="verbose_json", timestamp_granularities=["word"]
        )
        assert [word.word for word in verbose.words or []] == heard.split()
        assert verbose.segments is None


@pytest.mark.parametrize("response_format", ["json", "text", "verbose_json"])
def test_a_stream_brings_the_same_words(client: CountedClient, clip: Path, heard: str, response_format: Any) -> None:
    """Of events that the SDK has types for, whatever the format; tokens joined are the text."""
    stream = client.audio.transcriptions.create(
        model="whisper-1", file=clip, response_format=response_format, stream=True, include=["logprobs"]
    )
    *deltas, done = list(stream)
    assert all(event.type == "transcript.text.delta" for event in deltas)
    assert done.type == "transcript.text.done"
    assert "".join(event.delta for event in deltas) == done.text == heard
    for rows in (done.logprobs, [row for event in deltas for row in event.logprobs]):
        assert "".join(row.token for row in rows) == heard
        assert b"".join(bytes(row.bytes) for row in rows).decode() == heard
        assert all(math.isfinite(row.logprob) and row.logprob <= 0 for row in rows)


async def test_a_stream_is_one_for_the_asynchronous_client_too(seat: Seat, clip: Path, heard: str) -> None:
    """Event by event."""
    async with openai.AsyncOpenAI(base_url=f"{seat.url}/v1", api_key="unused", timeout=MODEL_PATIENCE_S) as client:
        stream = await client.audio.transcriptions.create(model="whisper-1", file=clip, stream=True)
        events = [event async for event in stream]
    assert "".join(getattr(event, "delta", "") for event in events) == heard


def test_logprobs_come_with_json(client: CountedClient, clip: Path, heard: str) -> None:
    """As the SDK's own type has them."""
    answer = client.audio.transcriptions.create(model="whisper-1", file=clip, include=["logprobs"])
    assert answer.logprobs
    assert "".join(str(row.token) for row in answer.logprobs) == heard


@pytest.mark.parametrize(
    "strategy", ["auto", {"type": "server_vad", "threshold": 0.3, "prefix_padding_ms": 300, "silence_duration_ms": 500}]
)
def test_the_clips_are_heard_right_in_chunks(client: CountedClient, clips: dict[Path, str], strategy: Any) -> None:
    """Cut by speech and silence, the bundled model hears them as well."""
    texts = [
        client.audio.transcriptions.create(model="demo", file=path, chunking_strategy=strategy).text for path in clips
    ]
    assert jiwer.wer([words_of(text) for text in clips.values()], [words_of(text) for text in texts]) <= WORST_WER


@pytest.mark.filterwarnings("ignore:deprecated:DeprecationWarning")  # the SDK's own word on the whole endpoint
def test_a_translation_is_english(client: CountedClient, clip: Path, heard: str) -> None:
    """What an English model hears is."""
    answer = client.audio.translations.create(model="whisper-1", file=clip, response_format="verbose_json")
    assert (answer.text, answer.language) == (heard, "english")
    assert client.audio.translations.create(model="whisper-1", file=clip, response_format="text") == heard + "\n"


@pytest.mark.parametrize(
    "file, wishes, kind, uploads",
    [
        (b"", {}, openai.BadRequestError, 1),
        (b"no sound", {}, openai.BadRequestError, 1),
        (said(1), {"model": "none"}, openai.NotFoundError, 1),
        (said(1), {"language": "fr"}, openai.BadRequestError, 1),
        (said(1), {"response_format": "diarized_json"}, openai.BadRequestError, 1),
        (said(7), {}, openai.InternalServerError, 1),
        (said(9), {"timeout": 1.0, "extra_headers": {"x-stainless-read-timeout": "600"}}, openai.APITimeoutError, 3),
    ],
    ids=["empty", "junk", "model", "language", "format", "fault", "timeout"],
)
def test_a_refusal_costs_so_many_uploads(
    refusing: FakeSeat, file: bytes, wishes: dict[str, Any], kind: type[Exception], uploads: int
) -> None:
    """One where trying again is hopeless, a fault of the model included; the SDK's own timeout is its own affair."""
    with CountedClient(refusing) as client, pytest.raises(kind):
        client.audio.transcriptions.create(**{"model": "whisper-1", "file": file, **wishes})
    assert len(client.sent) == uploads


def test_an_answer_that_comes_too_late_costs_one_upload(start: Start) -> None:
    """The same file would take as long again, and so it is told."""
    seat = start(SEAT_DEADLINE_S="0.3").wait_for("/health/ready")
    with CountedClient(seat) as client, pytest.raises(openai.InternalServerError) as refusal:
        client.audio.transcriptions.create(model="whisper-1", file=said(9))
    assert (refusal.value.status_code, refusal.value.code) == (504, "deadline_exceeded")
    assert len(client.sent) == 1
    seat.sign("nine")


def test_the_models_are_its_own_name_and_its_aliases(client: CountedClient) -> None:
    """Each can be listed, retrieved and transcribed with."""
    listed = [model.id for model in client.models.list()]
    assert listed == ["demo", "whisper-1", "ext-stt"]
    assert [client.models.retrieve(name).id for name in listed] == listed
    with pytest.raises(openai.NotFoundError) as refusal:
        client.models.retrieve("large-v3")
    assert refusal.value.code == "model_not_found"


def test_an_unknown_model_is_refused_after_one_upload(client: CountedClient, clip: Path, seat: Seat) -> None:
    """The client raises what it has a class for, knows why, and does not try again."""
    with pytest.raises(openai.NotFoundError) as refusal:
        client.audio.transcriptions.create(model="large-v3", file=clip)
    fault = refusal.value
    assert (fault.status_code, fault.code, fault.param) == (404, "model_not_found", "model")
    assert fault.type == "invalid_request_error"
    assert len(client.sent) == 1
    assert fault.request_id is not None
    assert len(seat.request_lines(fault.request_id)) == 1


def test_junk_is_refused_after_one_upload(client: CountedClient, seat: Seat) -> None:
    """A file that is no audio is the client's fault, said once."""
    with pytest.raises(openai.BadRequestError) as refusal:
        client.audio.transcriptions.create(model="whisper-1", file=("talk.wav", b"this is no audio " * 100))
    fault = refusal.value
    assert (fault.status_code, fault.code, fault.param) == (400, "invalid_audio", "file")
    assert len(client.sent) == 1
    assert fault.request_id is not None
    assert len(seat.request_lines(fault.request_id)) == 1


def test_the_request_id_is_the_header(client: CountedClient, clip: Path, seat: Seat) -> None:
    """What the client shows in an error report is found in the log."""
    answer = client.audio.transcriptions.with_raw_response.create(
        model="whisper-1", file=clip, extra_headers={"x-request-id": "from-the-caller"}
    )
    assert answer.headers["x-request-id"] == "from-the-caller"
    assert answer.parse()._request_id == "from-the-caller"
    (line,) = seat.request_lines("from-the-caller")
    assert (line["status"], line["model"], line["windows"]) == (200, "whisper-1", 2)


def test_an_upload_over_the_limit_costs_one_upload(start: Start) -> None:
    """Refused before its end, it reaches the client as a status, not as a broken connection that is tried again."""
    seat = start(SEAT_MAX_UPLOAD_MIB="2").wait_for("/health/ready")
    with CountedClient(seat) as client, pytest.raises(openai.APIStatusError) as refusal:
        client.audio.transcriptions.create(model="whisper-1", file=b"\1" * 20_000_000)
    assert (refusal.value.status_code, refusal.value.code) == (413, "upload_too_large")
    assert len(client.sent) == 1


async def test_an_upload_over_the_limit_costs_the_asynchronous_client_one_upload(start: Start) -> None:
    """It reads while it writes, so it is the one that a reset would hurt."""
    seat = start(SEAT_MAX_UPLOAD_MIB="2").wait_for("/health/ready")
    async with openai.AsyncOpenAI(base_url=f"{seat.url}/v1", api_key="unused", timeout=PATIENCE_S) as client:
        for _ in range(10):
            with pytest.raises(openai.APIStatusError) as refusal:
                await client.audio.transcriptions.create(model="whisper-1", file=b"\1" * 8_000_000)
            assert refusal.value.status_code == 413
    assert seat.post(said(1)).status_code == 200
    until(lambda: len(seat.log_lines(event="request")) > 10, what="a line for every request")
    assert [line["status"] for line in seat.log_lines(event="request")] == [413] * 10 + [200]


def test_a_seat_with_keys_lets_in_who_has_one(start: Start) -> None:
    """A wrong key is an AuthenticationError at the first try, also for a large file; a right one works."""
    seat = start(SEAT_API_KEYS="right-key,other-key").wait_for("/health/ready")
    for key, file in [("wrong-key", said(1)), ("wrong-key", b"\1" * 20_000_000)]:
        with CountedClient(seat, key) as client, pytest.raises(openai.AuthenticationError) as refusal:
            client.audio.transcriptions.create(model="whisper-1", file=file)
        assert (refusal.value.status_code, refusal.value.code) == (401, "invalid_api_key")
        assert len(client.sent) == 1
        assert "wrong-key" not in json.dumps(refusal.value.body)
    with CountedClient(seat, "other-key") as client:
        assert client.audio.transcriptions.create(model="whisper-1", file=said(1)).text == "one"


def test_a_loading_seat_is_waited_for(start: Start) -> None:
    """503 with Retry-After makes the client come back by itself, when the model is there."""
    seat = start("--slow-load").wait_for("/health/live")
    with CountedClient(seat, max_retries=10) as client:
        client._client.event_hooks["response"] = [lambda _: seat.sign("load")]
        assert client.audio.transcriptions.create(model="whisper-1", file=said(1)).text == "one"
        assert len(client.sent) > 1
