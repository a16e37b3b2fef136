"""A file on the page: its words appear on their times and follow the sound, and the text can be taken along."""

from __future__ import annotations

import base64
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import CLIP, SAID, Start, Visit
from tests.process.seats import Seat, said

pytestmark = pytest.mark.browser

DROP = """content => {
    const bytes = Uint8Array.from(atob(content), (letter) => letter.charCodeAt());
    const dropped = new DataTransfer();
    dropped.items.add(new File([bytes], "call.flac", { type: "audio/flac" }));
    return dropped;
}"""
"""Makes what a browser hands over when a file is dropped."""

WATCH = """() => {
    window.marked = [];
    new MutationObserver((changes) => {
        for (const { target } of changes)
            if (target.ariaCurrent) window.marked.push([Number(target.dataset.place), player.currentTime]);
    }).observe(document.getElementById("words"), { subtree: true, attributeFilter: ["aria-current"] });
}"""
"""Notes which word is marked, and where the sound is then."""


def _drop(page: Page) -> None:
    dropped = page.evaluate_handle(DROP, base64.b64encode(CLIP.read_bytes()).decode())
    page.dispatch_event("#drop", "dragover", {"dataTransfer": dropped})
    page.dispatch_event("#drop", "drop", {"dataTransfer": dropped})


def _choose(page: Page) -> None:
    page.set_input_files("#file", CLIP)


@pytest.mark.parametrize("give", [_drop, _choose])
def test_the_words_of_a_file_appear(seat: Seat, visit: Visit, give: Callable[[Page], None]) -> None:
    """Dropped, or chosen in the box."""
    with visit(seat.url) as page:
        give(page)
        expect(page.locator("#words")).to_have_text(SAID)
        expect(page.locator("#status")).to_have_text("Done: 5 words.")
        expect(page.locator("#latency")).to_contain_text("4.66 s of audio, text after")


def test_the_marked_word_follows_the_sound(seat: Seat, visit: Visit) -> None:
    """Each word is marked once it has begun, in order, until the last one; then the sound ends."""
    with visit(seat.url) as page:
        _drop(page)
        expect(page.locator("#play")).to_be_enabled()
        page.evaluate(WATCH)
        page.get_by_role("button", name="Play").click()
        expect(page.locator("#play")).to_have_text("Pause")
        expect(page.locator("[aria-current]")).to_have_text("please.")
        expect(page.locator("#play")).to_have_text("Play")
        marked = page.evaluate("window.marked")
        begins = page.evaluate("said.words.map((word) => word.start)")
        places = [place for place, _ in marked]
        assert places == sorted(places)
        assert (len(begins) - 1, len(set(places))) == (places[-1], len(places))
        assert all(at >= begins[place] for place, at in marked)


def test_a_place_in_the_sound_is_a_word(seat: Seat, visit: Visit) -> None:
    """The slider marks the word that is said there; a click on a word goes to its beginning."""
    with visit(seat.url) as page:
        _choose(page)
        expect(page.locator("#play")).to_be_enabled()
        page.get_by_role("slider").fill("3.2")
        expect(page.locator("[aria-current]")).to_have_text("Stop")
        page.get_by_text("three").click()
        expect(page.locator("[aria-current]")).to_have_text("three")
        assert page.evaluate("player.currentTime") == pytest.approx(page.evaluate("said.words[1].start"), abs=0.01)


def test_all_of_it_works_with_the_keyboard_alone(seat: Seat, visit: Visit) -> None:
    """Tab reaches the controls in their order, arrow keys go from word to word, space plays."""
    with visit(seat.url) as page:
        expect(page.locator("#state")).to_have_text("ready")
        _choose(page)
        expect(page.locator("#play")).to_be_enabled()
        page.evaluate("document.activeElement.blur()")
        reached = []
        for _ in range(8):
            page.keyboard.press("Tab")
            reached.append(page.evaluate("document.activeElement.id"))
        assert reached == ["talk", "hands-free", "file", "play", "seek", "text", "copy", "srt"]
        page.locator("#text").focus()
        for key, word in [("ArrowRight", "Seven"), ("ArrowRight", "three"), ("End", "please."), ("ArrowLeft", "Stop")]:
            page.keyboard.press(key)
            expect(page.locator("[aria-current]")).to_have_text(word)
        page.keyboard.press("Space")
        expect(page.locator("#play")).to_have_text("Pause")


def test_the_text_can_be_taken_along(seat: Seat, visit: Visit) -> None:
    """To the clipboard as it reads, and as the subtitles that the seat itself writes."""
    with visit(seat.url) as page:
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        _choose(page)
        page.get_by_role("button", name="Copy text").click()
        expect(page.locator("#taken")).to_have_text("Copied.")
        assert page.evaluate("navigator.clipboard.readText()") == SAID
        with page.expect_download() as download:
            page.get_by_role("button", name="Download SRT").click()
        assert download.value.suggested_filename == "transcript.srt"
        srt = seat.post(CLIP.read_bytes(), response_format="srt").text
        assert download.value.path().read_text() == srt


def test_what_is_no_audio_is_said_in_the_seats_own_words(seat: Seat, visit: Visit) -> None:
    """And it can be tried again."""
    with visit(seat.url, "status of 400") as page:
        page.set_input_files("#file", {"name": "a.wav", "mimeType": "audio/wav", "buffer": b"text, not sound"})
        expect(page.get_by_role("alert")).to_have_text(seat.post(b"text, not sound").json()["error"]["message"])
        expect(page.get_by_role("button", name="Try again")).to_be_visible()
        expect(page.locator("#result")).to_be_hidden()


def test_a_transcription_can_be_cancelled(visit: Visit, start: Start) -> None:
    """The seat hears of it: the request ends as one that nobody waits for."""
    fake = start()
    with visit(fake.url) as page:
        page.set_input_files("#file", {"name": "a.flac", "mimeType": "audio/flac", "buffer": said(9)})
        fake.wait_for_words("nine")
        page.get_by_role("button", name="Cancel").click()
        expect(page.locator("#status")).to_have_text("Cancelled.")
        fake.sign("nine")
        expect(page.locator("#requests")).to_contain_text("499 client disconnected")
