"""A doctor passes the bundled model, and fails a seat with a fault by the line it belongs to: as a user runs it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.process.conftest import Start
from tests.process.seats import Seat
from tests.process.test_cli import ENVIRONMENT, run

pytestmark = pytest.mark.process


def examined(*arguments: str, monkeypatch: pytest.MonkeyPatch, **settings: str) -> tuple[int, dict[str, Any]]:
    """Run `seat doctor --json`: exit code, and findings by check."""
    monkeypatch.setattr("tests.process.test_cli.ENVIRONMENT", ENVIRONMENT | settings)
    result = run("doctor", "--json", *arguments)
    told = json.loads(result.stdout)
    assert "Traceback" not in result.stderr
    return result.returncode, {finding["check"]: finding for finding in told["findings"]}


def failed(found: dict[str, Any]) -> list[str]:
    """The checks that fail."""
    return [check for check, finding in found.items() if finding["level"] == "fail"]


@pytest.mark.timeout(120)
def test_the_bundled_model_is_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """From inside and outside: every check is made, and none fails."""
    exit_code, found = examined(monkeypatch=monkeypatch, SEAT_DEVICE="cpu")
    assert (exit_code, failed(found)) == (0, [])
    assert found["words"]["said"] == "'Seven three alpha. Stop please.'"
    assert {"environment", "address", "status_line", "device", "process", "room", "silence", "clock", "rate"} <= set(
        found
    )


@pytest.mark.timeout(120)
def test_a_running_seat_is_well(seat: Seat, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked over HTTP."""
    exit_code, found = examined("--url", seat.url, monkeypatch=monkeypatch)
    assert (exit_code, failed(found)) == (0, [])


@pytest.mark.timeout(120)
def test_a_cap_that_holds_no_model_fails_by_the_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the bundled model, and the cap that would do."""
    exit_code, found = examined(monkeypatch=monkeypatch, SEAT_DEVICE="cpu", SEAT_MEM_CAP_MIB="200")
    assert (exit_code, failed(found)) == (1, ["room"])
    assert found["room"]["next_step"].startswith("Set SEAT_MEM_CAP_MIB=")


def test_a_model_with_wrong_words_fails_by_them(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fake hears digits in anything that is loud; it waits in a nine and fails in a seven, so signs are given."""
    fake = start()
    fake.sign("nine")
    exit_code, found = examined("--url", fake.wait_for("/health/ready").url, monkeypatch=monkeypatch)
    assert (exit_code, failed(found)[:1]) == (1, ["words"])


def test_a_seat_that_loads_fails_by_its_state(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """It answers, and would not transcribe."""
    loading = start("--slow-load").wait_for("/health/live")
    exit_code, found = examined("--url", loading.url, monkeypatch=monkeypatch)
    assert (exit_code, failed(found)) == (1, ["state"])


def test_a_doctor_without_a_key_asks_for_it(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """A seat with keys shows its state to everybody, and hears nothing for who has none."""
    closed = start(SEAT_API_KEYS="right-key").wait_for("/health/ready")
    exit_code, found = examined("--url", closed.url, monkeypatch=monkeypatch)
    assert (exit_code, failed(found)) == (1, ["words"])
    assert found["words"]["next_step"] == "Give the key with --api-key, or in SEAT_API_KEY."


def test_a_deprecated_name_is_told_in_the_log(start: Start) -> None:
    """It works, and the line says what to write instead."""
    seat = start(PARAKEET_MAX_FILE_DURATION="60").wait_for("/health/ready")
    (line,) = seat.log_lines(event="deprecated_name")
    assert (line["level"], line["name"], line["instead"]) == (
        "warning",
        "PARAKEET_MAX_FILE_DURATION",
        "SEAT_MAX_AUDIO_S",
    )
