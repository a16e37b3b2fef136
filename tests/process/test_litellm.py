"""LiteLLM as a library against the real server."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

import openai
import pytest

from tests.process.conftest import Start
from tests.process.seats import FakeSeat, said, until

pytestmark = [
    pytest.mark.process,
    pytest.mark.filterwarnings("ignore"),  # LiteLLM's own, and its clients are closed by the collector
]

TEXT = "one two three"

PATIENT = {"x-stainless-read-timeout": "60"}
"""Keeps the deadline that the SDK tells a seat from ending a request before the SDK does."""


@pytest.fixture(scope="module")
def litellm() -> Iterator[ModuleType]:
    """The library, with the prices it brings: it would fetch newer ones from the network."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    import litellm

    litellm.suppress_debug_info = True
    yield litellm
    del os.environ["LITELLM_LOCAL_MODEL_COST_MAP"]


@pytest.fixture
def transcribe(litellm: ModuleType, fake: FakeSeat) -> Callable[..., Any]:
    """Ask the seat by way of the library."""

    def transcribe(provider: str = "openai", file: bytes = said(1, 2, 3), **wishes: Any) -> Any:
        return litellm.transcription(
            model=f"{provider}/whisper-1",
            file=("speech.flac", file),
            api_base=f"{fake.url}/v1",
            api_key="none",
            **wishes,
        )

    return transcribe


@pytest.mark.parametrize("provider", ["openai", "hosted_vllm"])
@pytest.mark.parametrize("response_format", [None, "json", "verbose_json", "text", "srt", "vtt"])
def test_every_format_has_its_words_and_a_price(
    transcribe: Callable[..., Any], provider: str, response_format: str | None
) -> None:
    """Seconds are read from the answer, whatever its form: 3.6 of them at whisper-1's price."""
    wishes = {"response_format": response_format} if response_format else {}
    answer = transcribe(provider, **wishes)
    assert TEXT in answer.text
    assert answer._hidden_params["response_cost"] == pytest.approx(3.6 * 0.0001)


def test_without_a_format_the_duration_comes(transcribe: Callable[..., Any]) -> None:
    """LiteLLM asks for 'verbose_json' then."""
    answer = transcribe()
    assert (answer.duration, answer.language, answer.task) == (3.6, "en", "transcribe")
    assert answer.segments[0]["text"] == TEXT


def test_words_keep_their_confidence(transcribe: Callable[..., Any]) -> None:
    """Keys that LiteLLM does not know survive inside words."""
    answer = transcribe(response_format="verbose_json", timestamp_granularities=["word"])
    assert [(word["word"], word["confidence"]) for word in answer.words] == [(word, 0.9) for word in TEXT.split()]


def test_a_stream_is_a_stream(transcribe: Callable[..., Any]) -> None:
    """Though LiteLLM asks for 'verbose_json' with it; tokens come where they are asked for."""
    wishes = {"chunking_strategy": "auto", "include": ["logprobs"], "keywords": ["one"], "languages": ["en"]}
    *deltas, done = list(transcribe(file=said(*[1, 2, 3] * 5), stream=True, **wishes))
    assert len(deltas) > 1
    assert "".join(event.delta for event in deltas) == done.text == " ".join([TEXT] * 5)
    assert "".join(row.token for row in done.logprobs) == done.text


async def test_a_stream_is_one_for_asynchronous_callers_too(litellm: ModuleType, fake: FakeSeat) -> None:
    """Event by event."""
    stream = await litellm.atranscription(
        model="openai/whisper-1",
        file=("speech.flac", said(*[1, 2, 3] * 5)),
        api_base=f"{fake.url}/v1",
        api_key="none",
        stream=True,
    )
    *deltas, done = [event async for event in stream]
    assert "".join(event.delta for event in deltas) == done.text == " ".join([TEXT] * 5)


def _by_the_sdk(seat: FakeSeat) -> None:
    with openai.OpenAI(base_url=f"{seat.url}/v1", api_key="none", timeout=2.0) as client:
        client.audio.transcriptions.create(model="whisper-1", file=said(9), extra_headers=PATIENT)


def _by_litellm(seat: FakeSeat) -> None:
    import litellm

    litellm.transcription(
        model="openai/whisper-1",
        file=("speech.flac", said(9)),
        api_base=f"{seat.url}/v1",
        api_key="none",
        timeout=2.0,
        max_retries=2,
    )


@pytest.mark.usefixtures("litellm")
@pytest.mark.parametrize(
    "ask, uploads, statuses",
    [
        (_by_the_sdk, {3}, {499}),
        # From LiteLLM the seat hears of the deadline, and may see it pass first: then it says not to try again.
        (_by_litellm, {1, 2, 3}, {499, 504}),
    ],
)
def test_what_a_client_sends_again_after_its_timeout_never_stacks(
    start: Start, ask: Callable[[FakeSeat], None], uploads: set[int], statuses: set[int]
) -> None:
    """Of three uploads one is in the model and at most one waits; of those left nothing is ever heard."""
    seat = start().wait_for("/health/ready")

    def waiting() -> int:
        return int(seat.get("/health").json()["work"]["queue"]["requests"])

    with ThreadPoolExecutor(1) as pool:
        asked, most = pool.submit(ask, seat), 0
        while not asked.done():
            most = max(most, waiting())
        assert isinstance(asked.exception(), openai.APIError)
    until(lambda: len(seat.log_lines(event="request")) in uploads and not waiting(), what="all are given up")
    assert {line["status"] for line in seat.log_lines(event="request")} <= statuses
    assert most <= 1
    seat.sign("nine")
    assert seat.post(said(1)).json()["text"] == "one"
    assert seat.words() == [["nine"], ["one"]]


@pytest.mark.parametrize(
    "wishes, param, code",
    [
        ({"file": b"junk"}, "file", "invalid_audio"),
        ({"language": "fr"}, "language", "unsupported_value"),
        ({"response_format": "diarized_json"}, "response_format", "unsupported_value"),
        ({"chunking_strategy": {"type": "server_vad", "threshold": 7}}, "chunking_strategy", "invalid_value"),
    ],
)
def test_an_error_names_the_field(
    transcribe: Callable[..., Any], wishes: dict[str, Any], param: str, code: str
) -> None:
    """As the openai SDK below it raises it."""
    with pytest.raises(openai.BadRequestError) as refusal:
        transcribe(**wishes)
    fault = refusal.value
    assert (fault.status_code, fault.param, fault.code) == (400, param, code)
