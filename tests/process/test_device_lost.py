"""A real process whose device breaks: everybody is answered, and the process ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.process.seats import Seat, read_all, said, until

pytestmark = pytest.mark.process

BREAKS = """
import sys, time
from pathlib import Path
from seat.serve import serve
from seat.settings import read
from tests.fakes import FakeRecognizer, hear

def breaks(waveforms):
    if any(9 in hear(waveform).tokens for waveform in waveforms):
        while not Path(sys.argv[1], "go").exists():
            time.sleep(0.005)
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

sys.exit(serve(read(), lambda settings: FakeRecognizer(before=breaks)))
"""
"""A seat whose device breaks at the word eight, once its folder holds a file 'go'."""


def test_after_a_fatal_fault_everybody_is_answered_and_the_process_ends(tmp_path: Path) -> None:
    """503 with a time to come back, then exit code 1, so that a supervisor starts another."""
    with Seat(tmp_path, ["-c", BREAKS, str(tmp_path)], {"SEAT_DECODERS": "1"}) as seat:
        seat.wait_for("/health/ready")
        assert seat.post(said(1)).json()["text"] == "one"
        pending = [seat.begin(said(8)) for _ in range(4)]
        assert [seat.post(b"no audio").status_code for _ in range(2)] == [400, 400], "all before are in the queue"
        (tmp_path / "go").touch()
        answers = [request.answer() for request in pending]
        assert seat.exit_code(within_s=20) == 1
        assert seat.log_lines(event="device_lost")
    assert {(answer.status_code, answer.json()["error"]["code"]) for answer in answers} == {(503, "gpu_lost")}
    assert all(0 < int(answer.headers["retry-after"]) < 120 for answer in answers)


@pytest.mark.parametrize("stopping", [False, True])
def test_after_a_fatal_fault_nobody_keeps_the_process(tmp_path: Path, *, stopping: bool) -> None:
    """Who stands still in mid-upload is cut off with 503 soon, whatever SEAT_DRAIN_S and a signal before say."""
    with Seat(tmp_path, ["-c", BREAKS, str(tmp_path)], {"SEAT_DRAIN_S": "600"}) as seat:
        seat.wait_for("/health/ready")
        with seat.begin_half(said(1)) as upload:
            pending = seat.begin(said(8))
            until(lambda: seat.get("/health").json()["thread"]["running_s"] > 0, what="the model is at work")
            if stopping:
                seat.stop()
                seat.wait_for("/health/ready", 503)
            (tmp_path / "go").touch()
            assert pending.answer().json()["error"]["code"] == "gpu_lost"
            assert b"HTTP/1.1 503 " in read_all(upload)
        assert seat.exit_code() == 1
