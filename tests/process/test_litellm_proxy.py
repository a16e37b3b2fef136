"""A LiteLLM proxy, a process of its own, in front of two seats."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest

from tests.fakes import SPOKEN
from tests.process.proxies import Proxy
from tests.process.seats import PATIENCE_S, FakeSeat, said, until

pytestmark = [pytest.mark.clients, pytest.mark.timeout(600)]

TEXT = "one two three"
CLIP = said(1, 2, 3)
CLIENTS = 16


class Pair:
    """Two seats and the proxy in front of them."""

    def __init__(self, seats: tuple[FakeSeat, FakeSeat], proxy: Proxy) -> None:
        self.seats, self.proxy = seats, proxy
        self.api = httpx.Client(
            base_url=proxy.url, headers={"authorization": f"Bearer {proxy.key}"}, timeout=PATIENCE_S, trust_env=False
        )

    def post(self, file: bytes = CLIP, **fields: Any) -> httpx.Response:
        """Transcribe through the proxy."""
        wishes = {"model": "ext-stt", **fields}
        return self.api.post("/v1/audio/transcriptions", data=wishes, files={"file": ("speech.flac", file)})

    def uploads(self) -> int:
        """Requests that reached a seat so far."""
        return sum(len(seat.log_lines(event="request")) for seat in self.seats)

    async def heard(self, digits: list[int], client: openai.AsyncOpenAI) -> bool:
        """Whether these digits, spoken, come back as their words."""
        answer = await client.audio.transcriptions.create(model="ext-stt", file=("speech.flac", said(*digits)))
        return answer.text == " ".join(SPOKEN[digit] for digit in digits)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """With the configuration that the repository ships."""
    folder = tmp_path_factory.mktemp
    with FakeSeat(folder("first")) as first, FakeSeat(folder("second")) as second:
        urls = {"SEAT_1_URL": f"{first.url}/v1", "SEAT_2_URL": f"{second.url}/v1", "SEAT_KEY": "none"}
        with Proxy(folder("proxy"), urls) as proxy:
            first.wait_for("/health/ready")
            second.wait_for("/health/ready")
            proxy.wait()
            pair = Pair((first, second), proxy)
            with pair.api:
                yield pair


@pytest.mark.parametrize("model", ["ext-stt", "parakeet", "whisper-1"])
@pytest.mark.parametrize("response_format", [None, "json", "verbose_json", "text", "srt", "vtt"])
def test_every_format_has_its_words_and_a_cost(pair: Pair, model: str, response_format: str | None) -> None:
    """The proxy answers JSON whatever the format; what it counts are the seconds in our answer."""
    answer = pair.post(model=model, **({"response_format": response_format} if response_format else {}))
    assert answer.status_code == 200
    assert TEXT in answer.json()["text"]
    assert float(answer.headers["x-litellm-response-cost"]) == pytest.approx(3.6 * 0.0001)
    if response_format in {None, "verbose_json"}:
        assert (answer.json()["duration"], answer.json()["language"]) == (3.6, "en")
    request_id = answer.headers["llm_provider-x-request-id"]
    until(
        lambda: any(seat.log_lines(event="request", request_id=request_id) for seat in pair.seats),
        what="the request's line in one of the logs",
    )


def test_a_stream_passes_the_proxy(pair: Pair) -> None:
    """Event by event, to the openai SDK."""
    with openai.OpenAI(base_url=f"{pair.proxy.url}/v1", api_key=pair.proxy.key, timeout=PATIENCE_S) as client:
        stream = client.audio.transcriptions.create(
            model="ext-stt", file=("speech.flac", said(*[1, 2, 3] * 5)), stream=True
        )
        *deltas, done = list(stream)
    assert len(deltas) > 1
    assert done.type == "transcript.text.done"
    joined = "".join(event.delta for event in deltas if event.type == "transcript.text.delta")
    assert joined == done.text == " ".join([TEXT] * 5)


def test_the_proxys_health_check_is_healthy(pair: Pair) -> None:
    """It posts a sound of its own to each seat, once: aliases are no deployments."""
    health = pair.api.get("/health").json()
    assert (health["healthy_count"], health["unhealthy_count"]) == (2, 0)


@pytest.mark.parametrize(
    "file, fields, param",
    [
        (b"junk", {}, "file"),
        (b"", {}, "file"),
        (CLIP, {"language": "fr"}, "language"),
        (CLIP, {"response_format": "diarized_json"}, "response_format"),
    ],
)
def test_an_error_keeps_its_status_and_field(pair: Pair, file: bytes, fields: dict[str, str], param: str) -> None:
    """And costs one upload: nobody tries a wrong file again."""
    before = pair.uploads()
    answer = pair.post(file, **fields)
    error = answer.json()["error"]
    assert (answer.status_code, error["type"], error["param"]) == (400, "invalid_request_error", param)
    assert pair.uploads() == before + 1


async def test_sixteen_clients_at_once_each_get_their_own_words(pair: Pair) -> None:
    """Whatever batches the seats make of them."""
    async with openai.AsyncOpenAI(
        base_url=f"{pair.proxy.url}/v1", api_key=pair.proxy.key, timeout=PATIENCE_S
    ) as client:
        right = await asyncio.gather(
            *(pair.heard([number % 7, number // 7, 8, number % 3], client) for number in range(CLIENTS))
        )
    assert right == [True] * CLIENTS


async def test_a_seat_that_dies_under_load_costs_no_client_its_answer(pair: Pair) -> None:
    """One of the two is killed while sixteen clients ask on and on: what fails is healed by a retry. It runs last."""
    _, second = pair.seats
    answered = asyncio.Event()

    async with openai.AsyncOpenAI(
        base_url=f"{pair.proxy.url}/v1", api_key=pair.proxy.key, timeout=PATIENCE_S
    ) as client:

        async def ask_on(number: int) -> list[bool]:
            right = []
            for turn in range(6):
                right.append(await pair.heard([number % 7, turn, 8], client))
                if turn == 1:
                    answered.set()
            return right

        asking = asyncio.gather(*(ask_on(number) for number in range(CLIENTS)))
        await answered.wait()
        second.process.kill()
        right = await asking
    assert right == [[True] * 6] * CLIENTS
    assert second.log_lines(event="request", status=200)
