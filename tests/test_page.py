"""The page at / as it is served, and what it reads; what it does is tested in a browser, in `tests/browser`."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html.parser import HTMLParser
from typing import Any

import pytest
from litestar.testing import AsyncTestClient

from seat import settings
from seat.app import build_app
from seat.service import State
from seat.web.page import PAGE, policy
from tests import sounds
from tests.fakes import FakeRecognizer, speech

CLIP = sounds.written(speech([3, 1, 4]) / 32768, container="FLAC", encoding="PCM_16")


@asynccontextmanager
async def _client(**values: object) -> AsyncIterator[AsyncTestClient[Any]]:
    app, service = build_app(settings.read({}, **values), FakeRecognizer)
    async with AsyncTestClient(app, raise_server_exceptions=False) as client:
        while service.state is State.LOADING:
            await client.get("/health/ready")
        yield client


async def _transcribe(client: AsyncTestClient[Any], clip: bytes = CLIP, **headers: str) -> int:
    answer = await client.post(
        "/v1/audio/transcriptions",
        data={"model": "whisper-1"},
        files={"file": ("holiday.flac", clip)},
        headers=headers,
    )
    return answer.status_code


class _Elements(HTMLParser):
    """What stands in a page: elements with their attributes, and what scripts and styles hold."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.attributes: list[tuple[str, str, str]] = []
        self.inside: list[tuple[str, str]] = []
        self._at = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        self._at = tag if tag == "style" or (tag == "script" and not attrs) else ""

    def handle_data(self, data: str) -> None:
        if self._at:
            self.inside.append((self._at, data))

    def handle_endtag(self, _tag: str) -> None:
        self._at = ""


ELEMENTS = _Elements(PAGE)


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


async def test_the_page_is_served() -> None:
    """As HTML, to be asked for every time and sent only where it has changed; it alone may open the microphone."""
    async with _client(api_keys="secret") as client:
        answer = await client.get("/")
        again = await client.get("/", headers={"if-none-match": answer.headers["etag"]})
        other = await client.get("/", headers={"if-none-match": '"other"'})
    assert (200, "text/html; charset=utf-8", PAGE) == (answer.status_code, answer.headers["content-type"], answer.text)
    assert answer.headers["cache-control"] == "no-cache"
    assert "microphone=(self)" in answer.headers["permissions-policy"]
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", answer.headers["etag"])
    assert other.status_code == 200
    assert "secret" not in answer.text


async def test_its_policy_allows_its_own_scripts_and_styles_by_digest_and_no_others() -> None:
    """And that is what is sent: nothing inline besides, nothing from elsewhere, no eval."""
    async with _client() as client:
        sent = (await client.get("/")).headers["content-security-policy"]
    rules = {rule.split()[0]: rule.split()[1:] for rule in sent.split("; ")}
    assert rules["default-src"] == ["'none'"]
    assert rules["script-src"] == [*(_digest(text) for tag, text in ELEMENTS.inside if tag == "script"), "blob:"]
    assert rules["style-src"] == [_digest(text) for tag, text in ELEMENTS.inside if tag == "style"]
    assert rules["connect-src"] == ["'self'"]
    assert len(rules["script-src"]) > 2


def test_the_policy_is_that_of_the_file() -> None:
    """Another letter in a script is another policy."""
    assert policy(PAGE) != policy(PAGE.replace('"use strict"', '"use  strict"', 1))


def test_the_page_needs_no_other_file() -> None:
    """No address in it leads anywhere; handlers are set by scripts, as the policy demands."""
    for tag, name, value in ELEMENTS.attributes:
        assert name not in {"src", "srcset", "action", "style"}, (tag, name)
        assert not name.startswith("on"), (tag, name)
        if name == "href":
            assert value.startswith("data:"), value
    assert not re.search(r"(?:https?|wss?):(?!//www\.w3\.org/2000/svg)|@import|url\(", PAGE)


def _reads(name: str) -> set[tuple[str, ...]]:
    """What the scripts read of an object they call so, as paths of names."""
    found = re.findall(rf"\b{name}((?:\??\.\w+)+)\b(?!\()", PAGE)
    return {tuple(path.replace("?", "").strip(".").split(".")) for path in found}


def _has(value: Any, path: tuple[str, ...]) -> bool:
    for name in path:
        if not isinstance(value, dict) or name not in value:
            return False
        value = value[name]
    return True


async def test_what_the_page_reads_is_there() -> None:
    """Every field of state, memory and recent requests that its scripts name."""
    async with _client(mem_cap_mib=64_000) as client:
        assert await _transcribe(client) == 200
        health = (await client.get("/health")).json()
        (request,) = (await client.get("/health/requests")).json()["requests"]
    for name, value in [("health", health), ("memory", health["memory"]), ("request", request)]:
        paths = _reads(name) - {("ended",)}  # the page's own, beside what it was sent
        assert len(paths) > 3
        assert [path for path in paths if not _has(value, path)] == []


async def test_health_counts_what_waits_runs_and_was_answered() -> None:
    """Idle, after one clip and one thing that is none."""
    async with _client() as client:
        await _transcribe(client)
        await _transcribe(client, b"junk")
        health = (await client.get("/health")).json()
    assert health["work"] == {"queue": {"requests": 0, "windows": 0, "audio_s": 0}, "running": 0, "batches": 1}
    assert (health["thread"]["running_s"], health["thread"]["waiting"]) == (0, 0)
    assert (health["answered"], health["key_required"]) == (2, False)


async def test_recent_requests_are_numbers_without_content() -> None:
    """Transcriptions only, oldest first; neither what was said nor the name of the file."""
    async with _client() as client:
        await _transcribe(client)
        await _transcribe(client, b"junk")
        await client.get("/v1/models")
        answer = await client.get("/health/requests")
    first, second = answer.json()["requests"]
    assert (first["status"], first["audio_s"], first["error"]) == (200, 3.6, None)
    assert (second["status"], second["audio_s"], second["error"]) == (400, None, "invalid_audio")
    assert first["at"] <= second["at"] <= answer.json()["now"]
    assert not {"three", "holiday", "testclient", "127.0.0.1"} & set(re.findall(r"[\w.]+", answer.text))


@pytest.mark.parametrize("key, status", [("wrong", 401), ("right", 200)])
async def test_recent_requests_are_shown_to_who_has_a_key(key: str, status: int) -> None:
    """Where the seat has keys; its state stays open and tells that it has."""
    async with _client(api_keys="right") as client:
        answer = await client.get("/health/requests", headers={"authorization": f"Bearer {key}"})
        health = (await client.get("/health")).json()
    assert (answer.status_code, health["key_required"]) == (status, True)
    assert "right" not in str(health)
