"""The commands that a page tells an operator to paste find what they say, in the log of a real process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from seat.recognizer import SAMPLE_RATE
from tests.fakes import speech
from tests.process.conftest import Start
from tests.process.seats import PATIENCE_S, ROOT, TRANSCRIPTIONS, said

pytestmark = pytest.mark.process

PAGES = [ROOT / "README.md", ROOT / "observability" / "README.md"]
EXAMPLES = [
    line
    for page in PAGES
    for block in re.findall(r"^```sh\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
    if "seat.log" in line
]


@pytest.fixture
def folder(start: Start, tmp_path: Path) -> Path:
    """One with a log of all that can become of a request, and a command jq."""
    seat = start(SEAT_API_KEYS="ann:a-key").wait_for("/health/ready")
    for number, file in enumerate((said(1), said(2, 3), said(*[4] * 12), said(7), b"no audio")):
        httpx.post(
            seat.url + TRANSCRIPTIONS,
            headers={"authorization": "Bearer a-key", "x-request-id": f"asked-{number}"},
            data={"model": "whisper-1"},
            files={"file": ("upload", file)},
            timeout=PATIENCE_S,
            trust_env=False,
        )
        seat.request_lines(f"asked-{number}")
    (tmp_path / "seat.log").write_text(seat.log_text())
    command = tmp_path / "jq"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m tests.jq "$@"\n')
    command.chmod(0o755)
    return tmp_path


def test_every_example_finds_what_was_asked(folder: Path) -> None:
    """Each runs without a word of complaint; together they tell who asked, what failed, and how much was heard."""
    assert len(EXAMPLES) >= 6
    environment = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    found = []
    for example in EXAMPLES:
        command = ["bash", "-o", "pipefail", "-c", example]
        ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert (ran.returncode, ran.stderr) == (0, ""), example
        assert ran.stdout.strip(" \n[]{}"), example
        found.append(ran.stdout)
    told = "".join(found)
    assert set(re.findall(r'"error": "(\w+)"', told)) == {"recognition_failed", "invalid_audio"}
    assert '"client": "ann"' in told
    heard_s = sum(len(speech(digits)) / SAMPLE_RATE for digits in ([1], [2, 3], [4] * 12))
    assert str(round(heard_s, 1)) in found[4]
    assert '"attention": "full"' in found[5]
