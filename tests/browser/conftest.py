"""A real Chromium at real seats, as fixtures. Its microphone plays a clip in which the words are known."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
import soundfile
from playwright.sync_api import Browser, Page, expect, sync_playwright

from seat import demo
from tests.process.seats import MODEL_PATIENCE_S, ROOT, FakeSeat, Seat

CLIP = ROOT / "seat" / "demo" / "clips" / "call.flac"
"""What is dropped, chosen and said into the microphone."""

SAID = next(clip.text for clip in demo.clips() if clip.path.name == CLIP.name)
"""The words in it, as the bundled model hears them."""

SILENCE_S = 1.0
"""Seconds before and after it in the microphone: a person, too, begins to speak once the page listens."""

PATIENCE_MS = 30_000
"""How long the page may take for anything: the machine may be busy."""

expect.set_options(timeout=PATIENCE_MS)

Visit = Callable[..., AbstractContextManager[Page]]
"""Opens the page of a seat: its address, texts of complaints to be expected, and a browser context's own options."""

Start = Callable[..., FakeSeat]
"""Starts a fake seat, by settings under their environment names."""


@pytest.fixture(scope="session")
def seat(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seat]:
    """An ordinary seat with the bundled model, warm."""
    with Seat(tmp_path_factory.mktemp("seat"), ["-m", "seat", "serve"], {}) as seat:
        yield seat.wait_for("/health/ready", within_s=MODEL_PATIENCE_S)


@pytest.fixture
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Start fake seats of one's own, by settings; they end with the test."""
    with ExitStack() as stack:
        yield lambda **environment: stack.enter_context(
            FakeSeat(tmp_path_factory.mktemp("fake"), **environment)
        ).wait_for("/health/ready")


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """The system's Chromium, whose microphone plays the clip once each time it is opened."""
    microphone = tmp_path_factory.mktemp("microphone") / "clip.wav"
    samples, rate = soundfile.read(CLIP, dtype="int16")
    silence = np.zeros(round(SILENCE_S * rate), np.int16)
    soundfile.write(microphone, np.concatenate([silence, samples, silence]), rate, subtype="PCM_16")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"),
            args=["--use-fake-device-for-media-stream", f"--use-file-for-fake-audio-capture={microphone}%noloop"],
        )
        yield browser
        browser.close()


@pytest.fixture
def visit(browser: Browser) -> Visit:
    """Open pages; at the end of each, nobody but its seat was asked and the console holds what was expected."""

    @contextmanager
    def visit(url: str, *complaints: str, prepare: Callable[[Page], Any] = id, **options: Any) -> Iterator[Page]:
        page = browser.new_page(permissions=["microphone"], **options)
        page.set_default_timeout(PATIENCE_MS)
        prepare(page)
        complained: list[str] = []
        asked: set[str] = set()
        page.on("console", lambda told: complained.append(told.text) if told.type in {"error", "warning"} else None)
        page.on("pageerror", lambda fault: complained.append(str(fault)))
        page.on("request", lambda request: asked.add(request.url))
        page.on("websocket", lambda socket: asked.add(socket.url))
        with page:
            page.goto(url)
            yield page
        assert [told for told in complained if not any(text in told for text in complaints)] == []
        hosts = {urlsplit(address).netloc for address in asked if not address.startswith(("blob:", "data:"))}
        assert hosts == {urlsplit(url).netloc}

    return visit
