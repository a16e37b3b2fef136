"""The command line as a user runs it: real processes, the bundled model, the bundled clips."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from seat import demo
from seat.child import free_port

pytestmark = pytest.mark.process

CLIPS = Path(demo.__file__).parent / "clips"
SPOKEN = {clip.path.name: clip.text for clip in demo.clips()}
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("SEAT_")}


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, without the settings of whoever runs the tests."""
    command = [sys.executable, "-m", "seat", *map(str, arguments)]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=100, env=ENVIRONMENT)


@pytest.fixture(scope="module")
def server_url() -> Iterator[str]:
    """A seat with the bundled model that is ready."""
    port = free_port()
    command = [sys.executable, "-m", "seat", "serve", "--port", str(port)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT) as process:
        try:
            assert process.stderr is not None
            assert any('"event": "ready"' in line for line in process.stderr)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.communicate(timeout=30)


@pytest.mark.timeout(120)
def test_the_demonstration_shows_the_right_words() -> None:
    """`seat demo` says what the clip says, how to ask for it with curl, and leaves no seat behind."""
    result = run("demo")
    assert (0, "Traceback" in result.stderr) == (result.returncode, False), result.stderr
    clip = re.search(
        r"^curl http://127\.0\.0\.1:(\d+)/v1/audio/transcriptions .* -F file=@\S*?([\w.]+)$",
        result.stdout,
        re.MULTILINE,
    )
    assert clip is not None
    assert SPOKEN[clip[2]] in result.stdout.splitlines()
    assert "times real time" in result.stdout
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", int(clip[1]))) != 0


@pytest.mark.timeout(120)
def test_here_and_by_a_server_are_one(server_url: str) -> None:
    """A model in this process and a seat write the same bytes to standard output, and the words are right."""
    clips = sorted(CLIPS.glob("*.flac"))
    here = run("transcribe", *clips, "--format", "verbose_json")
    there = run("transcribe", *clips, "--format", "verbose_json", "--url", server_url)
    assert (0, 0) == (here.returncode, there.returncode), here.stderr + there.stderr
    assert here.stdout == there.stdout
    assert [SPOKEN[path.name] for path in clips] == [json.loads(line)["text"] for line in here.stdout.splitlines()]


@pytest.mark.timeout(120)
def test_a_seat_writes_subtitles_into_a_folder(server_url: str, tmp_path: Path) -> None:
    """`--output-dir` with `--format srt` leaves one numbered file for each clip, and standard output empty."""
    result = run("transcribe", CLIPS / "call.flac", "--url", server_url, "--format", "srt", "--output-dir", tmp_path)
    assert (0, "") == (result.returncode, result.stdout), result.stderr
    assert (tmp_path / "call.srt").read_text().startswith("1\n00:00:0")


@pytest.mark.timeout(120)
def test_a_seat_refuses_in_sentences(server_url: str, tmp_path: Path) -> None:
    """What is no audio, and a model that is not there, end in a next step."""
    noise = tmp_path / "noise.wav"
    noise.write_bytes(b"no audio at all")
    result = run("transcribe", noise, "--url", server_url)
    assert (1, "") == (result.returncode, result.stdout)
    assert "could not be decoded" in result.stderr
    result = run("transcribe", CLIPS / "call.flac", "--url", server_url, "--model-name", "large")
    assert (1, "") == (result.returncode, result.stdout)
    assert "'large' does not exist on this server. It serves 'demo'" in result.stderr
