"""Two real servers are compared as a user would, through the command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import soundfile
from typer.testing import CliRunner

from seat.cli import app
from seat.recognizer import SAMPLE_RATE
from tests.fakes import SPOKEN, speech
from tests.process.conftest import Start
from tests.process.seats import FakeSeat

pytestmark = pytest.mark.process


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Three clips in the fake model's language, and their words."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    for name, digits in {"a": (1, 2), "b": (3, 4, 5), "c": (1,) * 8}.items():
        soundfile.write(folder / f"{name}.wav", speech(digits), SAMPLE_RATE)
        (folder / f"{name}.txt").write_text(" ".join(SPOKEN[digit] for digit in digits))
    return folder


def run(*arguments: str | Path) -> tuple[int, str, str]:
    """Run the command: exit code, standard output, standard error."""
    result = CliRunner().invoke(app, ["ab", *map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


def test_two_seats_are_compared(fake: FakeSeat, start: Start, corpus: Path, tmp_path: Path) -> None:
    """Every clip reaches both sides as often, warm-up and hard ones included; the report is printed and written."""
    other = start().wait_for("/health/ready")
    out = tmp_path / "out" / "report"
    exit_code, told, _ = run(fake.url, other.url, "--clips", corpus, "--rounds", "6", "--out", out)
    assert exit_code == 0
    assert told == out.with_suffix(".md").read_text()
    assert "- Words: A and B do not differ at this sample size" in told
    assert "they say the same in 3 of 3 clips." in told
    assert f"| A: {fake.url} |" in told
    facts = json.loads(out.with_suffix(".json").read_text())
    assert {name: len(pairs) for name, pairs in facts["pairs"].items()} == dict.fromkeys(("a.wav", "b.wav", "c.wav"), 6)
    assert [probe["name"] for probe in facts["probes"]] == ["long file", "pause of 6 s", "silence", "noise"]
    assert [probe["a"] for probe in facts["probes"]] == [probe["b"] for probe in facts["probes"]]
    assert out.with_suffix(".png").read_bytes().startswith(b"\x89PNG")


def test_a_side_that_refuses_is_told(fake: FakeSeat, start: Start, corpus: Path, tmp_path: Path) -> None:
    """What one side does not answer counts for neither."""
    strict = start(SEAT_MAX_AUDIO_S="5").wait_for("/health/ready")
    exit_code, told, _ = run(fake.url, strict.url, "--clips", corpus, "--rounds", "2", "--out", tmp_path / "report")
    assert exit_code == 0
    assert "- B refused 3 requests, such as c.wav: The audio is longer than the 5 seconds" in told
    assert "too few pairs to tell; 6 rounds are the fewest" in told


@pytest.mark.parametrize(
    "side, expected",
    [
        ("http://127.0.0.1:1", "No server answers at http://127.0.0.1:1/v1"),
        ("nonsense", "'nonsense' is neither an address"),
        ("SEAT_WINDOW_S=0", "The seat ended with exit code 1. "),
    ],
)
def test_a_side_that_is_not_there_is_a_sentence(side: str, expected: str, fake: FakeSeat, tmp_path: Path) -> None:
    """Before anything is measured."""
    exit_code, out, err = run(fake.url, side, "--out", tmp_path / "report")
    assert (exit_code, out) == (1, "")
    assert expected in err
