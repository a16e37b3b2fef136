"""What `seat ab` prints and writes, whatever came back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import soundfile
from typer.testing import CliRunner

from seat.ab.contenders import Contender, Heard
from seat.cli import app
from seat.recognizer import SAMPLE_RATE
from tests.fakes import speech


@contextmanager
def refusing(named: str, _api_key: str | None, _model: str | None) -> Iterator[Contender]:
    """A side that is there, and hears nobody."""
    yield Contender(name=named, hear=lambda _wav: Heard(seconds=0.1, text="", error="no"), health=lambda: None)


@pytest.fixture(autouse=True)
def _everybody_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seat.ab.contenders.opened", refusing)


def run(folder: Path, out: Path) -> tuple[int, str]:
    """Compare with one clip, once: exit code and standard output."""
    soundfile.write(folder / "a.wav", speech((1,)), SAMPLE_RATE)
    (folder / "a.txt").write_text("one")
    arguments = ["ab", "x", "y", "--clips", str(folder), "--rounds", "1", "--out", str(out)]
    result = CliRunner().invoke(app, arguments)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout


def test_a_run_in_which_all_was_refused_has_a_report(tmp_path: Path) -> None:
    """Printed and written, with a plot of what there is."""
    exit_code, told = run(tmp_path, tmp_path / "report")
    assert exit_code == 0
    assert "- A refused 2 requests, such as a.wav: no" in told
    assert "- Words: of no clip that both sides heard is it known what is said." in told
    assert told == (tmp_path / "report.md").read_text()
    assert (tmp_path / "report.png").read_bytes().startswith(b"\x89PNG")


def test_a_name_with_a_dot_keeps_it(tmp_path: Path) -> None:
    """Endings are added: the reports of two versions do not overwrite each other."""
    (tmp_path / "v0.md").write_text("of another version")
    assert run(tmp_path, tmp_path / "v0.1")[0] == 0
    assert {path.name for path in tmp_path.glob("v0*")} == {"v0.md", "v0.1.md", "v0.1.json", "v0.1.png"}
    assert (tmp_path / "v0.md").read_text() == "of another version"


def test_a_report_that_cannot_be_written_is_printed(tmp_path: Path) -> None:
    """A run takes minutes, and where it goes is asked at its end."""
    exit_code, told = run(tmp_path, tmp_path / "a.txt" / "report")
    assert exit_code == 1
    assert "- B refused 2 requests" in told
