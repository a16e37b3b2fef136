"""A model is fetched as a user would, through huggingface_hub, from a hub of our own."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from seat.gpu.checkpoint import DEMO, locate
from tests.process.hub import COMMIT, hub
from tests.process.test_cli import ENVIRONMENT

pytestmark = pytest.mark.process

CONTENT = DEMO.read_bytes()
DIGEST = hashlib.sha256(CONTENT).hexdigest()


def fetch(url: str, home: Path, model: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `seat fetch` against a hub."""
    bar = {"TQDM_POSITION": "-1"}  # shows the hub's bar off a terminal, too
    where = {"HF_ENDPOINT": url, "HF_HOME": str(home), "NO_PROXY": "127.0.0.1", **bar, **environment}
    command = [sys.executable, "-m", "seat", "fetch", model]
    return subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=60, env={**ENVIRONMENT, **where}
    )


def test_a_model_is_fetched_pinned_and_its_licence_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard output is an environment file; a bar and the licence go to standard error; then no hub is needed."""
    with hub(CONTENT) as url:
        result = fetch(url, tmp_path, "owner/model")
    assert result.returncode == 0, result.stderr
    assert result.stdout == f"SEAT_MODEL=owner/model@{COMMIT}\nSEAT_MODEL_SHA256={DIGEST}\n"
    assert "model.nemo: 100%" in result.stderr
    assert "Licence: cc-by-4.0. Use it for anything" in result.stderr
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    found = locate(f"owner/model@{COMMIT}")
    assert (found.revision, found.path.read_bytes()) == (COMMIT, CONTENT)


def test_what_is_there_needs_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk is no reason not to pin what is on it."""
    with hub(CONTENT) as url:
        assert fetch(url, tmp_path, "owner/model").returncode == 0
        monkeypatch.setenv("HF_HOME", str(tmp_path))
        script = (
            "import shutil, sys\nfrom collections import namedtuple\n"
            "shutil.disk_usage = lambda _: namedtuple('Usage', 'total used free')(1, 1, 0)\n"
            "from seat.hub import fetch\nprint(fetch('owner/model').pins)"
        )
        where = {"HF_ENDPOINT": url, "HF_HOME": str(tmp_path), "NO_PROXY": "127.0.0.1"}
        again = subprocess.run(
            [sys.executable, "-c", script],
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
            env=ENVIRONMENT | where,
        )
    assert DIGEST in again.stdout, again.stderr


def test_a_pinned_revision_is_fetched(tmp_path: Path) -> None:
    """And what is there is not fetched again: the second hub has nothing to give but the model's facts."""
    for _ in range(2):
        with hub(CONTENT) as url:
            result = fetch(url, tmp_path, f"owner/model@{COMMIT}")
        assert result.stdout.startswith(f"SEAT_MODEL=owner/model@{COMMIT}\n"), result.stderr
    assert "100%" not in result.stderr


@pytest.mark.parametrize(
    "model, expected",
    [
        ("owner/nothing", "'owner/nothing' was not fetched: "),
        ("model", "'model' was not fetched: it is not 'owner/name'"),
    ],
)
def test_what_is_not_there_is_a_sentence(model: str, expected: str, tmp_path: Path) -> None:
    """And the exit code says so; standard output stays empty, so that no file is pinned to nothing."""
    with hub(CONTENT) as url:
        result = fetch(url, tmp_path, model)
    assert (result.returncode, result.stdout) == (1, "")
    assert expected in result.stderr
    assert "Traceback" not in result.stderr


def test_a_file_that_is_not_the_hubs_is_refused(tmp_path: Path) -> None:
    """Whatever happened to it on the way."""
    with hub(CONTENT, promised="f" * 64) as url:
        result = fetch(url, tmp_path, "owner/model")
    assert (result.returncode, result.stdout) == (1, "")
    assert f"has the SHA-256 {DIGEST}" in result.stderr


def test_a_hub_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    """Whatever its client makes of that."""
    result = fetch("http://127.0.0.1:1", tmp_path, "owner/model")
    assert (result.returncode, result.stdout) == (1, "")
    assert "Check the name and the network" in result.stderr
    assert "Traceback" not in result.stderr


def test_offline_is_offline(tmp_path: Path) -> None:
    """The variable that a container sets keeps this from asking."""
    with hub(CONTENT) as url:
        result = fetch(url, tmp_path, "owner/model", HF_HUB_OFFLINE="1")
    assert (result.returncode, result.stdout) == (1, "")
    assert "HF_HUB_OFFLINE is set" in result.stderr
