"""The state of a seat on the page, its key, and whether everybody can read and use it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.browser.conftest import CLIP, Start, Visit
from tests.process.seats import FakeSeat, said

pytestmark = pytest.mark.browser

GUIDELINES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}


def _choose(page: Page, *digits: int) -> None:
    page.set_input_files("#file", {"name": "a.flac", "mimeType": "audio/flac", "buffer": said(*digits)})


def test_the_state_of_the_seat_is_shown_and_follows_it(visit: Visit, start: Start) -> None:
    """Device, memory under its cap, what waits and runs, and requests as they end."""
    fake = start(SEAT_MEM_CAP_MIB="4000")
    fake.post(said(3, 1, 4))
    fake.post(b"junk")
    with visit(fake.url) as page:
        expect(page.locator("#state")).to_have_text("ready")
        expect(page.locator("#model")).to_have_text("fake on cpu")
        expect(page.locator("#cap")).to_have_text("4,000 MiB")
        expect(page.locator("#rest")).to_contain_text(" MiB")
        expect(page.get_by_role("img", name="cap 4,000 MiB")).to_be_visible()
        expect(page.locator("#requests tr")).to_have_count(2)
        expect(page.locator("#requests tr").first).to_contain_text("400 invalid audio")
        running, waiting = fake.begin(said(9)), None
        fake.wait_for_words("nine")
        waiting = fake.begin(said(2))
        expect(page.locator("#waiting")).to_have_text("1")
        expect(page.locator("#running")).not_to_have_text("idle")
        fake.sign("nine")
        assert [pending.answer().status_code for pending in (running, waiting)] == [200, 200]
        expect(page.locator("#running")).to_have_text("idle")
        expect(page.locator("#requests tr")).to_have_count(4)


def test_a_seat_that_is_gone_is_said(visit: Visit, start: Start) -> None:
    """And nothing else is claimed; a file is refused with a sentence."""
    fake = start()
    with visit(fake.url, "net::ERR") as page:
        expect(page.locator("#state")).to_have_text("ready")
        fake.stop()
        assert fake.exit_code() == 0
        expect(page.locator("#state")).to_have_text("unreachable")
        _choose(page, 1)
        expect(page.get_by_role("alert")).to_have_text("The seat cannot be reached.")


def test_nothing_is_asked_while_nobody_looks(visit: Visit, start: Start) -> None:
    """Once a second while the page is seen; not at all while it is hidden."""
    fake = start()
    asked: list[str] = []

    def count(page: Page) -> None:
        page.clock.install()
        page.on("request", lambda request: asked.append(request.url))

    with visit(fake.url, prepare=count) as page:
        expect(page.locator("#state")).to_have_text("ready")
        with page.expect_response("**/health"):
            page.clock.run_for(1000)
        _hide(page, hidden=True)
        before = len(asked)
        page.clock.run_for(60_000)
        assert len(asked) == before
        with page.expect_response("**/health"):
            _hide(page, hidden=False)


def _hide(page: Page, *, hidden: bool) -> None:
    """As where another tab comes to the front."""
    page.evaluate(
        """hidden => {
            Object.defineProperty(document, "hidden", { get: () => hidden, configurable: true });
            document.dispatchEvent(new Event("visibilitychange"));
        }""",
        hidden,
    )


def test_a_seat_with_keys_is_used_with_one(visit: Visit, start: Start) -> None:
    """The page opens and shows the state; it asks for the key, keeps it in this tab, and forgets one that is wrong."""
    fake = start(SEAT_API_KEYS="right")
    with visit(fake.url, "status of 401") as page:
        expect(page.locator("#recent-note")).to_have_text("Shown to who has a key.")
        _choose(page, 3, 1)
        expect(page.get_by_role("alert")).to_contain_text("key")
        for key in ("wrong", "right"):
            page.locator("#key-value").fill(key)
            page.get_by_role("button", name="Use it").click()
            expect(page.locator("#key-value")).to_be_visible(visible=key == "wrong")
        page.get_by_role("button", name="Try again").click()
        expect(page.locator("#words")).to_have_text("three one")
        expect(page.locator("#requests tr")).to_have_count(1)
        assert page.evaluate("[Object.values(sessionStorage), localStorage.length, document.cookie]") == [
            ["right"],
            0,
            "",
        ]


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeSeat]:
    """A seat that has something to show."""
    with FakeSeat(tmp_path_factory.mktemp("fake"), SEAT_MEM_CAP_MIB="4000", SEAT_API_KEYS="right") as fake:
        fake.wait_for("/health/ready")
        fake.sign("nine")  # which the fake model hears in a clip
        fake.send("POST", "/v1/audio/transcriptions", headers={"authorization": "Bearer right"})
        yield fake


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("color_scheme", ["light", "dark"])
def test_everybody_can_read_and_use_it(visit: Visit, busy: FakeSeat, width: int, color_scheme: str) -> None:
    """No violation that axe finds, and nothing wider than the screen: at first, with a transcript, while listening."""
    size = {"width": width, "height": 844}
    with visit(busy.url, "status of 401", "WebSocket", viewport=size, color_scheme=color_scheme) as page:
        expect(page.locator("#state")).to_have_text("ready")
        page.get_by_role("button", name="API key").click()
        _check(page)
        page.locator("#key-value").fill("right")
        page.keyboard.press("Enter")
        expect(page.locator("#requests tr").first).to_be_visible()
        _choose(page, 3, 1, 4)
        expect(page.locator("#play")).to_be_enabled()
        page.locator("#text").press("End")
        expect(page.locator("[aria-current]")).to_have_text("four")
        _check(page)
        page.click("#hands-free")
        expect(page.locator("#clock")).to_have_text(re.compile(r"^[1-9]"))
        _check(page)
        page.click("#hands-free")


def _check(page: Page) -> None:
    found = Axe().run(page, options=GUIDELINES).response["violations"]
    assert [(rule["id"], [node["html"] for node in rule["nodes"]]) for rule in found] == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_page_is_whole_without_a_network(visit: Visit, start: Start) -> None:
    """Everything it needs came with it: what is asked of the seat afterwards is data."""
    asked: list[tuple[str, str]] = []
    fake = start()

    def note(page: Page) -> None:
        page.on("request", lambda request: asked.append((request.resource_type, request.url)))

    with visit(fake.url, prepare=note) as page:
        page.set_input_files("#file", CLIP)
        expect(page.locator("#status")).to_contain_text("Done")
        from_seat = {kind for kind, address in asked if address.startswith("http")}
        assert from_seat == {"document", "fetch"}
