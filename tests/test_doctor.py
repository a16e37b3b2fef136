"""A doctor passes what is well, and names what is not: by tables of readings, and on real seats with a fault each."""

from __future__ import annotations

import asyncio
import json
import socketserver
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from typer.testing import CliRunner

from seat.cli import app
from seat.doctor import findings, visit
from seat.doctor.findings import Finding, Level
from seat.meter import MIB
from seat.recognizer import Examination, Recognition, Waveform
from seat.settings import Settings
from tests.fakes import INFO, FakeRecognizer

SETTINGS = Settings(device="cpu", warmup_seconds=())
CUDA = {"id": "m", "device": "cuda:0", "device_name": "L4", "dtype": "bfloat16", "parameters": 600_000_000}
CPU = CUDA | {"device": "cpu", "device_name": "x86_64", "dtype": "float32"}
ON_CARD = Examination(
    weights={"cuda:0": 1200 * MIB}, process_nbytes=1900 * MIB, driver="580.65", matrix_flop_per_s=3e13
)


def memory(**facts: Any) -> dict[str, Any]:
    """The memory of a seat on a card, as /health tells it; figures in MiB."""
    told = {"cap": 3840, "rest": 1900, "peak": 2600} | facts
    source = told.pop("source", "nvml")
    refusals = told.pop("refusals", 0)
    nbytes = {name: mib and mib * MIB for name, mib in told.items()}
    return nbytes | {"outside": {"source": source}, "refusals": refusals}


def judged(finding: Finding) -> tuple[str, str]:
    """What was looked at, and how bad it is."""
    return finding.check, str(finding.level)


@pytest.mark.parametrize(
    "finding, expected",
    [
        (findings.environment({}), "ok"),
        (findings.environment({"PARAKEET_MODEL": "SEAT_MODEL"}), "warn"),
        (findings.state({"state": "released", "version": "1"}), "ok"),
        (findings.state({"state": "loading", "version": "1"}), "fail"),
        (findings.state({"state": "stalled", "version": "1"}), "fail"),
        (findings.device("cuda", CUDA, ON_CARD), "ok"),
        (findings.device("auto", CPU, replace(ON_CARD, weights={"cpu": 1})), "warn"),
        (findings.device("cpu", CPU, replace(ON_CARD, weights={"cpu": 1})), "ok"),
        (findings.device("cuda", CPU, None), "fail"),
        (findings.device("cuda", CUDA, replace(ON_CARD, weights={"cpu": 1})), "fail"),
        (findings.device("cuda", CUDA, replace(ON_CARD, weights={"cpu": 1, "cuda:0": 9})), "fail"),
        (findings.number_type(CUDA), "ok"),
        (findings.number_type(CUDA | {"dtype": "float32"}), "warn"),
        (findings.number_type(CPU), "ok"),
        (findings.process(CUDA, memory(), ON_CARD), "ok"),
        (findings.process(CUDA, memory(), None), "ok"),
        (findings.process(CUDA, memory(source="unknown: assumed"), replace(ON_CARD, process_nbytes=None)), "warn"),
        (findings.process(CPU, memory(source="none"), None), "ok"),
        (findings.room(memory(), 3000 * MIB), "ok"),
        (findings.room(memory(), None), "ok"),
        (findings.room(memory(), 1000 * MIB), "fail"),
        (findings.room(memory(peak=3900), 3000 * MIB), "fail"),
        (findings.room(memory(refusals=2), 3000 * MIB), "warn"),
        (findings.room(memory(cap=None), 3000 * MIB), "warn"),
        (findings.room(memory(cap=None, source="none"), 3000 * MIB), "ok"),
        (findings.words("demo", "Stop please.", "Stop please."), "ok"),
        (findings.words("demo", "Stop please.", "stop please"), "fail"),
        (findings.words("large", "Seven three alpha.", "7, three alpha"), "ok"),
        (findings.words("large", "Seven three alpha.", "Seventy"), "fail"),
        (findings.words("large", "Seven three alpha.", ""), "fail"),
        (findings.silence(""), "ok"),
        (findings.silence("Thank you."), "fail"),
        (findings.clock(0.9, 0.05), "warn"),
        (findings.clock(0.4, 0.05), "ok"),
        (findings.clock(0.9, 0.5), "ok"),
        (findings.rate(CPU, 0.05, 1e11, "cpu"), "ok"),
        (findings.rate(CUDA, 0.001, 5e11, "cpu"), "ok"),
        (findings.rate(CUDA, 0.1, 5e11, "cpu"), "fail"),
        (findings.rate(CUDA, 0.001, 5e13, "cuda:0"), "ok"),
        (findings.rate(CUDA, 0.1, 5e13, "cuda:0"), "fail"),
        (findings.rate(CUDA | {"parameters": 1_000_000}, 0.1, 5e13, "cuda:0"), "ok"),
        (findings.status_lines({"GET /": b"HTTP/1.1 404 Not Found\r\nserver: x"}), "ok"),
        (findings.status_lines({"GET /": b"HTTP/1.1 200\r\n"}), "ok"),
        (findings.status_lines({"GET /": b"HTTP/1.1 200 O\x00K\r\n"}), "fail"),
        (findings.status_lines({"GET /": b""}), "fail"),
    ],
    ids=lambda value: f"{value.check}: {value.said[:40]}" if isinstance(value, Finding) else value,
)
def test_a_reading_has_a_verdict(finding: Finding, expected: str) -> None:
    """Well is 'ok', what may not be meant is 'warn', a broken promise is 'fail'; what is not well has a next step."""
    assert expected == str(finding.level)
    assert bool(finding.next_step) == (finding.level is not Level.OK)


def test_the_worst_decides() -> None:
    """One failure is a failure, whatever else is well."""
    well, ill, worse = findings.ok("a", ""), findings.warn("b", "", "x"), findings.fail("c", "", "x")
    assert [findings.worst(seen) for seen in ([well], [well, ill], [well, worse, ill])] == ["ok", "warn", "fail"]


class Deaf(FakeRecognizer):
    """Hears a word in everything, silence included."""

    def recognize(self, waveforms: Sequence[Waveform], padded: object | None = None) -> list[Recognition]:  # noqa: ARG002  as declared
        """Say the same of each."""
        return [Recognition(tokens=(1,), frames=(1,), durations=(5,), confidences=(0.9,)) for _ in waveforms]


def here(recognizer: FakeRecognizer, settings: Settings = SETTINGS) -> dict[str, Finding]:
    """What is found at a seat that is really served, with a model that is not."""
    return {finding.check: finding for finding in asyncio.run(visit.here(settings, lambda: recognizer))}


def failed(found: dict[str, Finding]) -> list[str]:
    """The checks that fail."""
    return [check for check, finding in found.items() if finding.level is Level.FAIL]


def test_a_model_with_wrong_words_fails_by_its_words() -> None:
    """And by nothing else: the server, its memory and its clock are well."""
    found = here(FakeRecognizer())
    assert failed(found) == ["words"]
    assert "where the clip says 'Seven three alpha. Stop please.'" in found["words"].said


def test_a_doctor_shows_the_key_and_not_its_name() -> None:
    """Of 'NAME:KEY' the seat knows the part behind the colon."""
    found = here(FakeRecognizer(), Settings(**dict(SETTINGS) | {"api_keys": "ann:hush"}))
    assert "where the clip says" in found["words"].said


def test_a_model_that_hears_words_in_silence_fails_there() -> None:
    """A null control, beside the positive one."""
    assert failed(here(Deaf())) == ["words", "silence"]


def test_weights_that_lie_elsewhere_fail_by_the_device() -> None:
    """What a seat says of itself counts for nothing against where each of its weights lies."""
    recognizer = FakeRecognizer(weights_mib=1)
    recognizer.info = replace(INFO, device="cuda:0", parameters=600_000_000)
    found = here(recognizer, Settings(device="cuda", mem_cap_mib=0, warmup_seconds=()))
    assert "device" in failed(found)
    assert found["device"].said == "the seat says cuda:0, its weights lie elsewhere: 1 MiB on cpu"


def test_a_cap_without_room_fails_by_the_room() -> None:
    """The seat refuses to start; the finding names the cap that would do."""
    found = here(FakeRecognizer(), Settings(device="cpu", mem_cap_mib=8, warmup_seconds=()))
    assert failed(found) == ["room"] == list(found)
    assert "SEAT_MEM_CAP_MIB=8 cannot hold" in found["room"].said
    assert "or more" in found["room"].next_step


def test_a_model_that_does_not_load_fails_by_the_model() -> None:
    """Whatever it raised is told."""

    def load() -> FakeRecognizer:
        message = "the disk is gone"
        raise OSError(message)

    found = asyncio.run(visit.here(SETTINGS, load))
    assert [judged(finding) for finding in found] == [("model", "fail")]
    assert "the disk is gone (OSError)" in found[0].said


class Dirty(socketserver.StreamRequestHandler):
    """Answers everything with a NUL in the reason."""

    def handle(self) -> None:
        """Read the head, and answer."""
        while self.rfile.readline().strip():
            pass
        self.wfile.write(b"HTTP/1.1 200 O\x00K\r\ncontent-length: 2\r\n\r\n{}")


@pytest.fixture
def dirty_url() -> Iterator[str]:
    """Where `Dirty` answers."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Dirty) as server:
        thread = threading.Thread(target=partial(server.serve_forever, 0.01))
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def run(*arguments: str, **environment: str) -> tuple[int, dict[str, Finding]]:
    """Run the command: exit code, and what it found."""
    result = CliRunner().invoke(app, ["doctor", "--json", *arguments], env=environment)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    told = json.loads(result.stdout)["findings"]
    return result.exit_code, {each["check"]: Finding(**each | {"level": Level(each["level"])}) for each in told}


def test_a_dirty_status_line_fails_by_it(dirty_url: str) -> None:
    """As bytes on a socket: clients hide such a line behind errors of their own."""
    exit_code, found = run("--url", dirty_url)
    assert exit_code == 1
    assert failed(found)[0] == "status_line"
    assert "O\\x00K" in found["status_line"].said


def test_nobody_at_the_address_fails_by_the_address() -> None:
    """Nothing after it can be looked at."""
    exit_code, found = run("--url", "http://127.0.0.1:1")
    assert (exit_code, failed(found), list(found)) == (1, ["address"], ["environment", "address"])


def test_what_is_no_address_fails_by_the_address() -> None:
    """As programs read it."""
    exit_code, found = run("--url", "http://[::1")
    assert (exit_code, failed(found), list(found)) == (1, ["address"], ["environment", "address"])
    assert found["address"].said.startswith("'http://[::1' is no address: ")


def test_an_unknown_variable_fails_by_the_environment() -> None:
    """With the name that was meant; no seat is started that would not start either."""
    exit_code, found = run(SEAT_HSOT="0.0.0.0")  # noqa: S104  nothing is served
    assert (exit_code, failed(found), list(found)) == (1, ["environment"], ["environment"])
    assert found["environment"].said == "SEAT_HSOT is not a setting; did you mean SEAT_HOST?"
