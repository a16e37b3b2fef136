"""What README.md shows is run as it stands, against the real server."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tests.process.seats import MODEL_PATIENCE_S, ROOT, Seat

pytestmark = [pytest.mark.process, pytest.mark.model]

README = (ROOT / "README.md").read_text()
CURLS = [
    line
    for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    for line in block.splitlines()
    if line.startswith("curl ")
]
PYTHONS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
SAYS = "Seven three alpha. Stop please."


def _run(command: list[str], seat: Seat) -> str:
    here = [part.replace("http://127.0.0.1:8300", seat.url) for part in command]
    answer = subprocess.run(
        here,
        cwd=ROOT,
        env=os.environ | {"NO_PROXY": "127.0.0.1"},
        check=True,
        capture_output=True,
        text=True,
        timeout=MODEL_PATIENCE_S,
    )
    return answer.stdout


@pytest.mark.parametrize("line", CURLS)
def test_a_command_of_curl_says_what_is_said_in_the_clip(seat: Seat, line: str) -> None:
    """Each in the form that it asks for; `-f` makes curl fail where the seat refuses."""
    assert " ".join(SAYS.split()) in " ".join(_run(["bash", "-c", f"{line} --silent --fail-with-body"], seat).split())


@pytest.mark.parametrize("program", PYTHONS)
def test_a_program_says_what_is_said_in_the_clip(seat: Seat, program: str) -> None:
    """With the openai SDK."""
    assert SAYS in _run([sys.executable, "-c", program], seat)


def test_there_is_something_to_run() -> None:
    """A table of nothing would pass as well."""
    assert len(CURLS) >= 5
    assert PYTHONS
