"""The HTTP surface in this process, with a fake model: fields, formats, errors and headers."""

from __future__ import annotations

import asyncio
import io
import json
import math
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx
import numpy as np
import pytest
import soundfile
from litestar.testing import AsyncTestClient
from structlog.testing import capture_logs

from seat import settings
from seat.app import build_app
from seat.meter import MIB
from seat.recognizer import SAMPLE_RATE, Recognition, Waveform
from seat.service import State
from seat.wav import wav
from seat.web.transcriptions import client_deadline_s
from tests.fakes import FakeRecognizer, speech

PATH = "/v1/audio/transcriptions"


CLIP = wav(speech([3, 1, 4]))


@asynccontextmanager
async def _client(recognizer: FakeRecognizer | None = None, **values: object) -> AsyncIterator[AsyncTestClient[Any]]:
    model = recognizer or FakeRecognizer()
    app, service = build_app(settings.read({}, **values), lambda: model)
    async with AsyncTestClient(app, raise_server_exceptions=False) as client:
        while service.state is State.LOADING:
            await client.get("/health/ready")
        yield client


@pytest.fixture
async def client() -> AsyncIterator[AsyncTestClient[Any]]:
    """A seat with the default settings."""
    async with _client() as client:
        yield client


def _error(response: httpx.Response) -> tuple[int, str | None, str | None]:
    """Status, param and code of an answer in OpenAI's error shape, checked to be just that shape."""
    assert response.headers["content-type"].split(";")[0] == "application/json"
    body = response.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"message", "type", "param", "code"}
    assert body["error"]["type"] == ("invalid_request_error" if response.status_code < 500 else "server_error")
    assert body["error"]["message"]
    return response.status_code, body["error"]["param"], body["error"]["code"]


async def _post(client: AsyncTestClient[Any], clip: bytes = CLIP, **fields: Any) -> httpx.Response:
    return await client.post(PATH, data={"model": "whisper-1"} | fields, files={"file": ("clip.wav", clip)})


@pytest.mark.parametrize(
    "response_format, content_type, body",
    [
        ("text", "text/plain; charset=utf-8", "three one four\n"),
        ("srt", "text/plain; charset=utf-8", "1\n00:00:00,560 --> 00:00:02,960\nthree one four\n\n"),
        ("vtt", "text/vtt; charset=utf-8", "WEBVTT\n\n00:00:00.560 --> 00:00:02.960\nthree one four\n"),
        ("json", "application/json", '{"text":"three one four","usage":{"type":"duration","seconds":4}}'),
    ],
)
async def test_every_format_has_its_body_and_type(
    client: AsyncTestClient[Any], response_format: str, content_type: str, body: str
) -> None:
    """As OpenAI sends them."""
    response = await _post(client, response_format=response_format)
    assert (200, content_type, body) == (response.status_code, response.headers["content-type"], response.text)


async def test_json_is_what_comes_without_a_format(client: AsyncTestClient[Any]) -> None:
    """OpenAI's default."""
    assert set((await _post(client)).json()) == {"text", "usage"}


@pytest.mark.parametrize(
    "fields, expected",
    [
        ({}, {"segments"}),
        ({"timestamp_granularities[]": "word"}, {"words"}),
        ({"timestamp_granularities": "word"}, {"words"}),
        ({"timestamp_granularities[]": ["word", "segment"]}, {"words", "segments"}),
        ({"timestamp_granularities": '["word","segment"]'}, {"words", "segments"}),
        ({"timestamp_granularities": "word, segment"}, {"words", "segments"}),
        ({"timestamp_granularities": ""}, {"segments"}),
    ],
)
async def test_granularities_are_read_however_they_are_written(
    client: AsyncTestClient[Any], fields: dict[str, Any], expected: set[str]
) -> None:
    """With or without brackets, once, repeated, as JSON, with commas."""
    response = await _post(client, response_format="verbose_json", **fields)
    assert set(response.json()) & {"words", "segments"} == expected


@pytest.mark.parametrize(
    "fields, expected",
    [
        ({"response_format": "diarized_json"}, (400, "response_format", "unsupported_value")),
        ({"stream": "true", "response_format": "srt"}, (400, "response_format", "unsupported_value")),
        ({"language": "fr"}, (400, "language", "unsupported_value")),
        ({"chunking_strategy[type]": "none"}, (400, "chunking_strategy", "unsupported_value")),
        ({"chunking_strategy": '{"type": "server_vad", "threshold": 2}'}, (400, "chunking_strategy", "invalid_value")),
        ({"response_format": "JSON"}, (400, "response_format", "unsupported_value")),
        ({"timestamp_granularities[]": "sentence"}, (400, "timestamp_granularities", "unsupported_value")),
        ({"timestamp_granularities": "[1"}, (400, "timestamp_granularities", "unsupported_value")),
        ({"timestamp_granularities": "[[1]]"}, (400, "timestamp_granularities", "unsupported_value")),
        ({"model": "gpt-4o-transcribe"}, (404, "model", "model_not_found")),
        ({"model": ""}, (400, "model", "missing_required_parameter")),
    ],
)
async def test_what_is_not_supported_is_named(
    client: AsyncTestClient[Any], fields: dict[str, Any], expected: tuple[int, str, str]
) -> None:
    """A clear 4xx with the field at fault; 5xx would be sent again."""
    assert expected == _error(await _post(client, **fields))


async def test_the_names_that_work_are_told(client: AsyncTestClient[Any]) -> None:
    """Whoever guesses a model's name wrong learns the right ones."""
    message = (await _post(client, model="parakeet")).json()["error"]["message"]
    assert message == "The model 'parakeet' does not exist on this server. It serves 'demo', 'whisper-1', 'ext-stt'."


async def test_fields_without_effect_are_accepted(client: AsyncTestClient[Any]) -> None:
    """A prompt, a temperature, a language, and whatever a gateway forwards."""
    response = await _post(
        client,
        prompt="Names: Ada.",
        temperature="0.7",
        language="en",
        user="me",
        **{"metadata[a]": "1", "stream": "false"},
    )
    assert (200, "three one four") == (response.status_code, response.json()["text"])


@pytest.mark.parametrize("model", ["demo", "whisper-1", "ext-stt"])
async def test_the_model_answers_to_all_its_names(client: AsyncTestClient[Any], model: str) -> None:
    """And lists them."""
    assert (await _post(client, model=model)).status_code == 200
    assert model in [entry["id"] for entry in (await client.get("/v1/models")).json()["data"]]
    described = (await client.get(f"/v1/models/{model}")).json()
    assert (model, "model", "cpu") == (described["id"], described["object"], described["device"])


async def test_an_unknown_model_is_not_described(client: AsyncTestClient[Any]) -> None:
    """Names may hold a slash."""
    assert _error(await client.get("/v1/models/nvidia/parakeet")) == (404, "model", "model_not_found")


@pytest.mark.parametrize(
    "content, expected",
    [
        (b"", (400, "file", "missing_required_parameter")),
        (b"plain text", (400, "file", "invalid_audio")),
        (bytes(range(256)) * 40, (400, "file", "invalid_audio")),
        (wav(np.zeros(7 * SAMPLE_RATE, np.int16)), (413, "file", "audio_too_long")),
    ],
)
async def test_files_that_cannot_be_used(content: bytes, expected: tuple[int, str, str]) -> None:
    """Empty, not audio, too long: one attempt each."""
    async with _client(max_audio_s=6) as client:
        assert _error(await _post(client, content)) == expected


async def test_a_file_larger_than_the_limit_is_refused() -> None:
    """By the length that is announced; `tests/process` streams one without."""
    async with _client(max_upload_mib=2) as client:
        assert _error(await _post(client, bytes(8 * 1024 * 1024))) == (413, "file", "upload_too_large")
        assert _error(await _post(client, bytes(3 * 1024 * 1024))) == (413, "file", "upload_too_large")


async def test_a_large_file_passes_the_disk_whole(client: AsyncTestClient[Any]) -> None:
    """Beyond the framework's own limit of 10 MB, and beyond what stays in memory."""
    digits = [number % 10 for number in range(400)]
    response = await _post(client, wav(speech(digits)))
    assert len(response.json()["text"].split()) == 400


def _form(*parts: tuple[str, bytes], end: bytes = b"--x--\r\n") -> tuple[bytes, dict[str, str]]:
    body = b"".join(
        b"--x\r\nContent-Disposition: form-data; " + head.encode() + b"\r\n\r\n" + content + b"\r\n"
        for head, content in parts
    )
    return body + end, {"content-type": "multipart/form-data; boundary=x"}


MODEL = ('name="model"', b"whisper-1")


@pytest.mark.parametrize(
    "head",
    [
        'name="file"',
        'name="file"; filename=""',
        'name="file"; filename="upload"\r\nContent-Type: application/octet-stream',
        'name="file"; filename="x.mp3"\r\nContent-Type: audio/mpeg',
        'name="file"; filename="x.WAV"\r\nContent-Type: audio/webm;codecs=opus',
        'name="file"; filename="é%22.bin"; filename*=UTF-8\'\'%C3%A9.bin',
    ],
)
async def test_names_and_types_are_hints(client: AsyncTestClient[Any], head: str) -> None:
    """The same bytes under any name, none included, are the same audio."""
    body, headers = _form(MODEL, (head, CLIP))
    response = await client.post(PATH, content=body, headers=headers)
    assert (200, "three one four") == (response.status_code, response.json()["text"])


@pytest.mark.parametrize(
    "body, headers, expected",
    [
        (*_form(MODEL), (400, "file", "missing_required_parameter")),
        (*_form(('name="file"; filename="a"', CLIP)), (400, "model", "missing_required_parameter")),
        (
            *_form(
                MODEL,
                ('name="file"', b""),
            ),
            (400, "file", "missing_required_parameter"),
        ),
        (*_form(MODEL, ('name="file"', CLIP), end=b""), (400, None, "invalid_form")),
        (*_form(MODEL, ('name="file"', CLIP), ('name="file"', CLIP)), (400, None, "invalid_form")),
        (_form(MODEL)[0][:-30], _form()[1], (400, None, "invalid_form")),
        (b"", _form()[1], (400, None, "invalid_form")),
        (b"no boundary here", _form()[1], (400, None, "invalid_form")),
        (_form(MODEL)[0], {"content-type": "multipart/form-data"}, (400, None, "invalid_form")),
        (b"{}", {"content-type": "application/json"}, (400, "file", "missing_required_parameter")),
        (b"", {}, (400, "file", "missing_required_parameter")),
        (*_form(*[('name="k"', b"")] * 1001), (413, None, "too_many_parts")),
        (*_form(('name="model"', b"x" * 70_000)), (413, None, "too_many_parts")),
    ],
)
async def test_forms_that_are_none(
    client: AsyncTestClient[Any], body: bytes, headers: dict[str, str], expected: tuple[int, str | None, str]
) -> None:
    """Whatever is wrong with a body, the answer has our shape and is no 5xx."""
    assert _error(await client.post(PATH, content=body, headers=headers)) == expected


async def test_a_field_that_is_not_known_is_read_past(client: AsyncTestClient[Any]) -> None:
    """However large it is."""
    body, headers = _form(MODEL, ('name="known_speaker_references[]"', bytes(3_000_000)), ('name="file"', CLIP))
    assert (await client.post(PATH, content=body, headers=headers)).status_code == 200


@pytest.mark.parametrize(
    "method, path, expected",
    [
        ("GET", "/nowhere", (404, None, "unknown_url")),
        ("GET", "/v1/audio/translations", (405, None, "method_not_allowed")),
        ("POST", "/v1/audio/transcription", (404, None, "unknown_url")),
        ("GET", PATH, (405, None, "method_not_allowed")),
        ("DELETE", "/v1/models", (405, None, "method_not_allowed")),
    ],
)
async def test_the_frameworks_own_refusals_have_our_shape(
    client: AsyncTestClient[Any], method: str, path: str, expected: tuple[int, None, str]
) -> None:
    """404 and 405 too."""
    assert _error(await client.request(method, path)) == expected


async def test_a_fault_of_the_model_is_a_500_without_its_details() -> None:
    """What it raised goes to the log, not to the client."""

    def refuse(waveforms: object) -> None:
        if len(waveforms[0]) == len(speech([3, 1, 4])):  # type: ignore[index]
            message = "secret tensor"
            raise ValueError(message)

    async with _client(FakeRecognizer(before=refuse)) as client:
        response = await _post(client)
    assert _error(response) == (500, None, "recognition_failed")
    assert "secret" not in response.text


KEYS = {"api_keys": "first,ann:second"}


@pytest.mark.parametrize(
    "headers, status",
    [
        ({}, 401),
        ({"authorization": "Bearer third"}, 401),
        ({"authorization": "Bearer "}, 401),
        ({"authorization": "Basic first"}, 401),
        ({"authorization": "Bearer first"}, 200),
        ({"authorization": "bearer second"}, 200),
        ({"authorization": "Bearer ann:second"}, 401),
    ],
)
async def test_keys_let_in_who_shows_one(headers: dict[str, str], status: int) -> None:
    """401 in OpenAI's shape for the others; probes stay open."""
    async with _client(**KEYS) as client:
        response = await client.get("/v1/models", headers=headers)
        assert response.status_code == status
        if status == 401:
            assert _error(response) == (401, None, "invalid_api_key")
            assert response.headers["www-authenticate"] == "Bearer"
        assert (await client.get("/health")).status_code == 200
        assert (await client.get("/metrics")).status_code == 200


@pytest.mark.parametrize("path", ["/", "/health", "/health/live", "/docs", "/v1/models", "/nowhere"])
async def test_no_answer_to_head_has_a_body(path: str) -> None:
    """HTTP/1.1 would drop one; over HTTP/2 it is a fault of the protocol."""
    async with _client() as client:
        answer = await client.request("HEAD", path)
        assert answer.content == b""
        assert int(answer.headers["content-length"]) > 0


async def test_only_transcriptions_are_remembered() -> None:
    """Not what a browser asks first, what strangers ask, nor what there is not."""
    async with _client(**KEYS, cors_origins="https://app.example") as client:
        asks = {"origin": "https://app.example", "access-control-request-method": "POST"}
        await client.options("/v1/audio/transcriptions", headers=asks)
        await client.post("/v1/audio/nowhere")
        await client.post("/v1/audio/transcriptions")
        assert (await client.get("/health")).json()["answered"] == 0
        await client.post("/v1/audio/transcriptions", headers={"authorization": "Bearer first"})
        assert (await client.get("/health")).json()["answered"] == 1


async def test_guesses_at_a_key_leave_a_trace() -> None:
    """Though what is asked every second has no line."""
    async with _client(**KEYS) as client:
        with capture_logs() as lines:
            await client.get("/health/requests", headers={"authorization": "Bearer guess"})
            await client.get("/healthcare")
    assert [(line["event"], line["path"]) for line in lines] == [
        ("key_refused", "/health/requests"),
        ("request", "/healthcare"),
    ]


async def test_a_line_names_whose_key_was_shown() -> None:
    """By the name it was given, or its place; never by itself. A refused key has none."""
    async with _client(**KEYS) as client:
        with capture_logs() as lines:
            for key in ("first", "second", "third"):
                await client.get("/v1/models", headers={"authorization": f"Bearer {key}"})
    assert [line.get("client") for line in lines if line["event"] == "request"] == ["key1", "ann", None]


async def test_metrics_are_what_is_handed_in() -> None:
    """In Prometheus' own content type, and without a line in the log."""
    app, _ = build_app(settings.read({}), FakeRecognizer, exposition=lambda: b"asr_queue_length 0\n")
    async with AsyncTestClient(app) as client:
        with capture_logs() as lines:
            answer = await client.get("/metrics")
    assert (answer.text, answer.headers["content-type"].split(";")[0]) == ("asr_queue_length 0\n", "text/plain")
    assert not [line for line in lines if line["event"] == "request"]


async def test_health_tells_what_runs(client: AsyncTestClient[Any]) -> None:
    """State, device, model, number type, versions, memory and weights, as read."""
    health = (await client.get("/health")).json()
    assert (health["state"], health["model"]["id"], health["model"]["device"]) == ("ready", "fake", "cpu")
    assert (health["memory"]["cap"], health["memory"]["outside"]["source"]) == (None, "none")
    assert 0 < health["memory"]["rest"] <= health["memory"]["peak"]
    assert (health["weights"]["released"], health["graphs"]) == (False, "off")
    assert (await client.get("/health/live")).json() == {"live": True}
    assert (await client.get("/health/ready")).json() == {"ready": True, "state": "ready"}


async def test_a_seat_whose_weights_have_left_is_ready() -> None:
    """Whoever routes requests must send one for them to come back."""
    async with _client(idle_release_s=0.05) as client:
        async with asyncio.timeout(5):
            while (ready := await client.get("/health/ready")).json()["state"] != "released":
                assert ready.status_code == 200
        assert (ready.status_code, ready.json()) == (200, {"ready": True, "state": "released"})
        assert (await _post(client)).json()["text"] == "three one four"
        assert (await client.get("/health")).json()["weights"]["restore_s"] > 0


@pytest.mark.usefixtures("tidy")
async def test_a_request_that_memory_cannot_hold_is_503_and_the_seat_lives() -> None:
    """On resident memory, for real: a try takes 400 MiB where 100 are allowed. Then an earlier clip is heard again."""
    hungry = wav(speech([3] * 9))

    def take(waveforms: Sequence[Waveform]) -> None:
        if len(waveforms[0]) == len(speech([3] * 9)):
            np.ones(400 * MIB, np.uint8)

    recognizer = FakeRecognizer(before=take)
    async with _client(recognizer, mem_cap_mib=recognizer.meter.used() // MIB + 100) as client:
        before = await _post(client, response_format="verbose_json")
        refused = [await _post(client, hungry) for _ in range(2)]
        after = await _post(client, response_format="verbose_json")
    for response in refused:
        assert _error(response) == (503, None, "gpu_memory_limit")
        assert 0 < int(response.headers["retry-after"]) < 120
    assert before.status_code == 200
    assert before.content == after.content


@pytest.mark.parametrize(
    "shown",
    ["abc-1.2:3", "a" * 129, "two words", "naïve"],
)
async def test_a_request_id_is_echoed_where_it_is_harmless(client: AsyncTestClient[Any], shown: str) -> None:
    """Else the answer has one of ours."""
    response = await client.get("/v1/models", headers={"x-request-id": shown.encode()})
    answered = response.headers["x-request-id"]
    assert (answered == shown) == (shown == "abc-1.2:3")
    assert answered.startswith(("abc", "req_"))


@pytest.mark.parametrize(
    "header, expected_s",
    [({}, math.inf), ({"x-stainless-read-timeout": "2.5"}, 2.5)]
    + [({"x-stainless-read-timeout": value}, math.inf) for value in ("", "not given", "0", "-1", "nan")],
)
def test_a_client_may_tell_its_deadline(header: dict[str, str], expected_s: float) -> None:
    """The openai SDK does, in a header; nonsense in it is no deadline."""
    assert client_deadline_s(header) == expected_s


async def test_an_answer_that_nobody_waits_for_is_not_computed() -> None:
    """The client's own deadline ends a request that would take longer, with 504."""
    release = threading.Event()

    def hold(waveforms: Sequence[Waveform]) -> None:
        if len(waveforms[0]) == len(speech([3, 1, 4])):
            release.wait(10)

    async with _client(FakeRecognizer(before=hold)) as client:
        response = await client.post(
            PATH,
            data={"model": "whisper-1"},
            files={"file": ("clip.wav", CLIP)},
            headers={"x-stainless-read-timeout": "0.2"},
        )
        release.set()
    assert _error(response) == (504, None, "deadline_exceeded")


async def test_one_line_tells_a_request(client: AsyncTestClient[Any]) -> None:
    """Status, audio, windows, times; neither what was said nor the file's name."""
    with capture_logs() as lines:
        response = await _post(client)
        await _post(client, b"junk")
    told = [line for line in lines if line["event"] == "request"]
    assert [line["status"] for line in told] == [200, 400]
    first = told[0]
    assert first["request_id"] == response.headers["x-request-id"]
    assert (first["audio_s"], first["windows"], first["batch_sizes"]) == (3.6, 1, (1,))
    assert {
        "method",
        "path",
        "model",
        "response_format",
        "stream",
        "decode_s",
        "queue_s",
        "inference_s",
        "total_s",
    } <= set(first)
    assert 0 < first["rest_mib"] <= first["peak_mib"]
    assert told[1]["error"] == "invalid_audio"
    written = json.dumps(lines, default=str)
    assert "three" not in written
    assert "clip.wav" not in written


async def test_a_gateways_health_check_is_healthy(client: AsyncTestClient[Any]) -> None:
    """LiteLLM posts 0.66 s at 22,050 Hz, mono; any 2xx will do, and the length is the sound's."""
    file = io.BytesIO()
    soundfile.write(file, np.zeros(14_553, np.int16), 22_050, format="WAV", subtype="PCM_16")
    response = await _post(client, file.getvalue(), response_format="verbose_json")
    assert (200, 0.66) == (response.status_code, response.json()["duration"])


@pytest.mark.parametrize("make", [lambda: np.zeros(0, np.int16), lambda: np.zeros(1, np.int16)])
async def test_next_to_nothing_is_a_right_answer(client: AsyncTestClient[Any], make: Callable[[], Waveform]) -> None:
    """A header without samples, or one sample: empty text and the right duration."""
    verbose = (await _post(client, wav(make()), response_format="verbose_json")).json()
    assert (verbose["text"], verbose["segments"]) == ("", [])
    assert verbose["duration"] == round(len(make()) / SAMPLE_RATE, 3)


TRANSLATIONS = "/v1/audio/translations"


async def test_a_model_that_hears_only_english_translates(client: AsyncTestClient[Any]) -> None:
    """What it writes is English already; the answer says what was asked for, in OpenAI's words."""
    answer = await client.post(
        TRANSLATIONS, data={"model": "whisper-1", "response_format": "verbose_json"}, files={"file": ("a.wav", CLIP)}
    )
    told = answer.json()
    assert (told["task"], told["language"], told["text"]) == ("translate", "english", "three one four")


async def test_a_model_of_many_languages_does_not_translate() -> None:
    """It would write down the other language; said in a sentence, and it transcribes in the language asked for."""
    async with _client(model_languages="de,en") as client:
        refused = await client.post(TRANSLATIONS, data={"model": "whisper-1"}, files={"file": ("a.wav", CLIP)})
        assert _error(refused) == (400, "model", "unsupported_value")
        assert "de, en" in refused.json()["error"]["message"]
        for fields, language in [({}, "de"), ({"language": "English"}, "en"), ({"language": "de-AT"}, "de")]:
            told = await _post(client, response_format="verbose_json", **fields)
            assert told.json()["language"] == language
        assert (await client.get("/health")).json()["model"]["languages"] == ["de", "en"]


@pytest.mark.parametrize("response_format", ["json", "verbose_json"])
async def test_logprobs_come_where_there_is_a_place_for_them(
    client: AsyncTestClient[Any], response_format: str
) -> None:
    """Tokens that joined are the text, with finite logarithms."""
    told = (await _post(client, response_format=response_format, **{"include[]": "logprobs"})).json()
    assert "".join(row["token"] for row in told["logprobs"]) == told["text"]
    assert [row["logprob"] for row in told["logprobs"]] == [round(math.log(0.9), 6)] * 3


async def test_a_chunking_strategy_cuts_where_it_is_silent() -> None:
    """Each turn is a window of its own where a client says what ends one; 'auto' hears them together."""
    recognizer = FakeRecognizer()
    async with _client(recognizer) as client:
        warm = len(recognizer.batches)
        for fields, windows in [
            ({}, 1),
            ({"chunking_strategy": "auto"}, 1),
            ({"chunking_strategy[type]": "server_vad"}, 3),
            ({"chunking_strategy[type]": "server_vad", "chunking_strategy[silence_duration_ms]": "900"}, 1),
        ]:
            before = sum(map(len, recognizer.batches[warm:]))
            assert (await _post(client, **fields)).json()["text"] == "three one four"
            assert sum(map(len, recognizer.batches[warm:])) - before == windows


async def test_what_is_tried_again_does_not_confuse_a_stream() -> None:
    """A window that comes back empty holds back the words behind it until it was heard again."""

    class Swallowing(FakeRecognizer):
        def recognize(self, waveforms: Sequence[Waveform], padded: object | None = None) -> list[Recognition]:
            nothing = Recognition(tokens=(), frames=(), durations=(), confidences=())
            heard = super().recognize(waveforms, padded)
            return [
                nothing if len(waveform) > SAMPLE_RATE and not waveform[-SAMPLE_RATE:].any() else recognition
                for waveform, recognition in zip(waveforms, heard, strict=True)
            ]

    audio = np.concatenate([speech([4, 2]), np.zeros(3 * SAMPLE_RATE, np.int16), speech([1, 2, 3, 4, 5, 6])])
    async with _client(Swallowing(), window_s=5, window_context_s="0,0") as client:
        told = (await _post(client, wav(audio), stream="true")).text
    deltas = [json.loads(line[6:])["delta"] for line in told.split("\n") if '"transcript.text.delta"' in line]
    assert "".join(deltas) == "four two one two three four five six"


ORIGIN = {"origin": "https://app.example"}


@pytest.mark.parametrize(
    "origins, allowed",
    [("", None), ("https://app.example", "https://app.example"), ("*", "*"), ("https://b.example", None)],
)
async def test_browsers_of_other_origins_are_let_in_where_that_is_set(origins: str, allowed: str | None) -> None:
    """Off by default; errors can be read by who may read answers."""
    async with _client(cors_origins=origins) as client:
        for response in (
            await client.get("/v1/models", headers=ORIGIN),
            await client.get("/none", headers=ORIGIN),
            await client.options(
                PATH,
                headers=ORIGIN
                | {
                    "access-control-request-method": "POST",
                    "access-control-request-headers": "authorization,x-stainless-lang",
                },
            ),
        ):
            assert response.headers.get("access-control-allow-origin") == allowed
        if allowed:
            assert "authorization" in response.headers["access-control-allow-headers"]


@pytest.mark.parametrize("path", ["/v1/models", "/health", "/none", "/docs", "/openapi.json"])
async def test_every_answer_tells_browsers_what_not_to_do(client: AsyncTestClient[Any], path: str) -> None:
    """And none is kept by a cache that it was not meant for."""
    headers = (await client.get(path)).headers
    assert (headers["x-content-type-options"], headers["x-frame-options"]) == ("nosniff", "DENY")
    assert headers["content-security-policy"].startswith("default-src 'none'")
    assert headers["cache-control"] == "no-store"
    assert headers["x-request-id"]


async def test_nothing_that_is_private_leaves_by_a_side_door(client: AsyncTestClient[Any]) -> None:
    """Neither the file's name nor the prompt nor a word of the transcript stands in a header or in the log."""
    with capture_logs() as lines:
        answers = [
            await client.post(
                PATH,
                data={"model": "whisper-1", "prompt": "secretprompt", "keywords[]": "secretword", **fields},
                files={"file": ("secretname.wav", content)},
            )
            for fields in ({}, {"stream": "true"}, {"response_format": "srt"}, {"language": "secretlanguage"})
            for content in (CLIP, b"secretjunk")
        ]
    told = json.dumps(lines, default=str) + str([answer.headers for answer in answers])
    assert "secret" not in told
    assert "three" not in told
    assert len([line for line in lines if line["event"] == "request"]) == len(answers)


async def test_whoever_is_refused_knows_whether_to_try_again() -> None:
    """What is hopeless says so, since the openai SDK repeats every 5xx; what is not says when."""

    def refuse(waveforms: Sequence[Waveform]) -> None:
        if len(waveforms[0]) == len(speech([3, 1, 4])):
            raise ValueError

    async with _client(FakeRecognizer(before=refuse)) as client:
        assert (await _post(client)).headers["x-should-retry"] == "false"
        assert "x-should-retry" not in (await _post(client, b"junk")).headers
    app, service = build_app(settings.read({}), FakeRecognizer)
    async with AsyncTestClient(app) as client:
        service.stop_admission()
        refused = await _post(client)
        assert (refused.status_code, refused.headers["x-should-retry"]) == (503, "true")
        assert 0 < int(refused.headers["retry-after"]) <= 120
