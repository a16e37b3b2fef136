"""Talking to the page: the clip in the microphone goes through the page's own handlers to a real seat and back."""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import soundfile
from playwright.sync_api import Browser, Page, WebSocketRoute, expect

from tests.browser.conftest import CLIP, SAID, SILENCE_S, Visit
from tests.process.seats import Seat

pytestmark = pytest.mark.browser

STREAM = "**/v1/audio/stream*"
RATE = 16_000

SPOKEN_S = SILENCE_S + soundfile.info(CLIP).duration
"""When the microphone has said everything, in seconds from its opening."""

SPOKEN = re.compile(rf"^({'|'.join(str(second) for second in range(math.ceil(SPOKEN_S), 60))})\.\d s$")
"""The page's clock from then on."""


def _speak(page: Page) -> None:
    """Wait until the microphone has said all of the clip: the page counts what it records."""
    expect(page.locator("#clock")).to_have_text(SPOKEN)


@contextmanager
def _held_by_mouse(page: Page) -> Iterator[None]:
    page.hover("#talk")
    page.mouse.down()
    yield
    page.mouse.up()


@contextmanager
def _held_by_keyboard(page: Page) -> Iterator[None]:
    page.focus("#talk")
    page.keyboard.down("Space")
    yield
    page.keyboard.up("Space")


@contextmanager
def _held_by_finger(page: Page) -> Iterator[None]:
    finger = {"pointerId": 1, "pointerType": "touch", "isPrimary": True, "button": 0}
    page.evaluate("Element.prototype.setPointerCapture = () => {}")  # there is no such finger to capture
    page.dispatch_event("#talk", "pointerdown", finger)
    yield
    page.dispatch_event("#talk", "pointerup", finger)


@contextmanager
def _clicked_by_a_screen_reader(page: Page) -> Iterator[None]:
    page.evaluate("document.getElementById('talk').click()")
    yield
    page.evaluate("document.getElementById('talk').click()")


@contextmanager
def _hands_free(page: Page) -> Iterator[None]:
    page.click("#hands-free")
    yield
    page.click("#hands-free")


def _no_stream(page: Page) -> None:
    page.route_web_socket(STREAM, lambda stream: stream.close())


@pytest.mark.parametrize(
    "held", [_held_by_mouse, _held_by_keyboard, _held_by_finger, _clicked_by_a_screen_reader, _hands_free]
)
def test_what_is_said_appears_on_release(seat: Seat, visit: Visit, held: Any) -> None:
    """Where no stream opens, the recording is sent as a file once it has ended."""
    with visit(seat.url, prepare=_no_stream) as page:
        with held(page):
            expect(page.locator("#status")).to_have_text("Listening; the text comes at the end")
            _speak(page)
        expect(page.locator("#words")).to_have_text(SAID)
        expect(page.locator("#status")).to_have_text("Done: 5 words.")
        expect(page.locator("#play")).to_be_enabled()
        assert [page.get_attribute(button, "aria-pressed") for button in ("#talk", "#hands-free")] == ["false", "false"]


class FakeStream:
    """The seat's end of a stream, spoken by the test: it says the clip's words as they come, the last ones late.

    What it is sent is kept, so that a real model can hear whether it was the clip.
    """

    def __init__(self, words: list[dict[str, Any]]) -> None:
        self.words = words
        self.sound = bytearray()
        self.told: list[dict[str, Any]] = []
        self.shown = 0

    def open(self, stream: WebSocketRoute) -> None:
        """Be ready at once."""
        stream.on_message(lambda message: self._hear(stream, message))
        self._say(stream, type="ready")

    def _hear(self, stream: WebSocketRoute, message: str | bytes) -> None:
        if isinstance(message, bytes):
            self.sound += message
            self._guess(stream)
            return
        self.told.append(json.loads(message))
        if self.told[-1]["type"] == "finalize":
            words = [word | {"stable": True} for word in self.words]
            text = " ".join(word["word"] for word in words)
            self._say(
                stream, type="final", segment=0, text=text, words=words, start=words[0]["start"], end=words[-1]["end"]
            )
        if self.told[-1]["type"] == "close":
            self._say(stream, type="closed", reason="client", audio_s=len(self.sound) / 2 / RATE)
            stream.close()

    def _guess(self, stream: WebSocketRoute) -> None:
        """Say the words so far, the newest of them unstable."""
        come = [word for word in self.words if word["end"] < len(self.sound) / 2 / RATE]
        if len(come) <= self.shown:
            return
        self.shown = len(come)
        stable = "".join(word["word"] + " " for word in come[:-1])
        words = [word | {"stable": word is not come[-1]} for word in come]
        self._say(
            stream,
            type="partial",
            text=stable + come[-1]["word"],
            stable=stable,
            words=words,
            start=0,
            end=come[-1]["end"],
        )

    def _say(self, stream: WebSocketRoute, **message: Any) -> None:
        stream.send(json.dumps(message))

    def heard_by(self, seat: Seat) -> str:
        """What a model hears in what was sent."""
        file = io.BytesIO()
        soundfile.write(file, np.frombuffer(self.sound, "<i2"), RATE, format="WAV", subtype="PCM_16")
        text: str = seat.post(file.getvalue()).json()["text"]
        return text


@pytest.fixture
def stream(seat: Seat) -> FakeStream:
    """One that knows what is in the clip, and when the microphone says it."""
    fields = {"response_format": "verbose_json", "timestamp_granularities[]": "word"}
    words = seat.post(CLIP.read_bytes(), **fields).json()["words"]
    return FakeStream([word | {at: word[at] + SILENCE_S for at in ("start", "end")} for word in words])


@pytest.mark.parametrize("held", [_held_by_mouse, _hands_free])
def test_words_appear_while_they_are_said(seat: Seat, visit: Visit, stream: FakeStream, held: Any) -> None:
    """Unstable ones lighter, with the delay of the newest; at the end they are what a file would have given."""
    with visit(seat.url, prepare=lambda page: page.route_web_socket(STREAM, stream.open)) as page:
        with held(page):
            expect(page.locator("#stable")).to_have_text("Seven three ")
            expect(page.locator("#unstable")).to_have_text("alpha.")
            expect(page.locator("#latency")).to_contain_text("Live: the last word stood here")
            tones = page.evaluate("['stable', 'unstable'].map((id) => getComputedStyle($(id)).color)")
            assert tones[0] != tones[1]
            _speak(page)
        expect(page.locator("#status")).to_have_text("Done: 5 words.")
        expect(page.locator("#words")).to_have_text(SAID)
        expect(page.locator("#stable")).to_have_text("")
        expect(page.locator("#unstable")).to_have_text("")
        expect(page.locator("#play")).to_be_enabled()
        page.locator("#text").press("End")
        expect(page.locator("[aria-current]")).to_have_text("please.")
    assert stream.told == [{"type": "finalize"}, {"type": "close"}]
    assert stream.heard_by(seat) == SAID


def test_a_key_is_told_to_the_stream_first(seat: Seat, visit: Visit, stream: FakeStream) -> None:
    """A browser cannot put it into a header there."""
    with visit(seat.url, prepare=lambda page: page.route_web_socket(STREAM, stream.open)) as page:
        page.evaluate("sessionStorage.setItem(KEY, 'right')")
        with _hands_free(page):
            expect(page.locator("#clock")).to_have_text(re.compile("^[1-9]"))
        expect(page.locator("#status")).to_have_text("Done: 5 words.")
    assert stream.told == [{"type": "start", "key": "right"}, {"type": "finalize"}, {"type": "close"}]


def test_a_stream_that_breaks_loses_nothing(seat: Seat, visit: Visit, stream: FakeStream) -> None:
    """The recording goes on, and is sent as a whole once it has ended."""

    def break_off(page: Page) -> None:
        def open_and_fail(route: WebSocketRoute) -> None:
            stream.open(route)
            route.send(json.dumps({"type": "error", "error": {"message": "", "type": "", "param": None, "code": None}}))

        page.route_web_socket(STREAM, open_and_fail)

    with visit(seat.url, prepare=break_off) as page:
        with _hands_free(page):
            expect(page.locator("#status")).to_have_text("Listening; the text comes at the end")
            _speak(page)
        expect(page.locator("#words")).to_have_text(SAID)


def test_who_talks_while_a_file_is_heard_sees_what_they_say(seat: Seat, visit: Visit, stream: FakeStream) -> None:
    """The file is given up, and nothing of it comes back; no other file is taken until the talk is over."""

    def prepare(page: Page) -> None:
        page.route_web_socket(STREAM, stream.open)
        page.route("**/v1/audio/transcriptions", lambda _route: None)  # never answered

    with visit(seat.url, prepare=prepare) as page:
        page.set_input_files("#file", CLIP)
        expect(page.locator("#status")).to_have_text("Transcribing")
        with _hands_free(page):
            expect(page.locator("#stable")).to_have_text("Seven three ")
            expect(page.locator("#result")).to_be_visible()
            expect(page.locator("#again")).to_be_hidden()
            expect(page.locator("#file")).to_be_disabled()
            page.evaluate("transcribe(new Blob(['dropped']))")
            _speak(page)
        expect(page.locator("#words")).to_have_text(SAID)
        expect(page.locator("#file")).to_be_enabled()


@pytest.mark.parametrize("held", [_held_by_mouse, _hands_free])
def test_the_seats_own_stream_hears_the_clip(seat: Seat, visit: Visit, held: Any) -> None:
    """Live, through the page, with the bundled model."""
    with visit(seat.url) as page:
        with held(page):
            expect(page.locator("#latency")).to_contain_text("Live: the last word stood here")
            _speak(page)
        expect(page.locator("#words")).to_have_text(SAID)
        expect(page.locator("#status")).to_have_text("Done: 5 words.")


def test_a_microphone_that_is_refused_is_said(seat: Seat, browser: Browser) -> None:
    """And the button can be pressed again."""
    with browser.new_context(permissions=[]) as context:
        page = context.new_page()
        page.goto(seat.url)
        page.click("#hands-free")
        expect(page.get_by_role("alert")).to_have_text("The browser was not allowed to open the microphone.")
        expect(page.locator("#hands-free")).to_have_attribute("aria-pressed", "false")


def test_a_tap_is_no_recording(seat: Seat, visit: Visit) -> None:
    """Whoever taps the button is told to hold it."""
    with visit(seat.url, "WebSocket") as page:
        page.click("#talk")
        expect(page.get_by_role("alert")).to_contain_text("too short")
        expect(page.locator("#talk")).to_have_text("Hold to talk")


def test_without_https_the_page_says_why_there_is_no_microphone(seat: Seat, visit: Visit) -> None:
    """A browser then has no `mediaDevices` at all; files are transcribed none the less."""

    def take_away(page: Page) -> None:
        page.add_init_script("Object.defineProperty(Navigator.prototype, 'mediaDevices', { get: () => undefined })")

    with visit(seat.url, prepare=take_away) as page:
        page.click("#hands-free")
        expect(page.get_by_role("alert")).to_contain_text("only on https")
        page.set_input_files("#file", CLIP)
        expect(page.locator("#words")).to_have_text(SAID)
