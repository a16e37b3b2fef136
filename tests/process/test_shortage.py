"""A real process whose model runs out of memory: what is freed, what is tried again, and who is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.process.seats import Seat, said, until

pytestmark = pytest.mark.process

SHORT = """
import sys, time
from pathlib import Path
from seat.serve import serve
from seat.settings import read
from tests.fakes import FakeMeter, FakeRecognizer, OutOfMemoryError, hear

folder = Path(sys.argv[1])

def note(what):
    with (folder / "journal").open("a") as journal:
        journal.write(f"{what}\\n")

class Meter(FakeMeter):
    def release(self):
        super().release()
        note("release")

def runs_out(waveforms):
    heard = [hear(waveform).tokens for waveform in waveforms]
    note(len(heard))
    while (10,) in heard and not (folder / "go").exists():
        time.sleep(0.005)
    if (8,) in heard or len(heard) > 2:
        raise OutOfMemoryError("CUDA out of memory.")

sys.exit(serve(read(), lambda settings: FakeRecognizer(before=runs_out, meter=Meter())))
"""
"""A seat whose model waits in a nine until its folder holds a file 'go', and whose memory is too small for a seven or
for three windows at once. The file 'journal' has the sizes of its batches, and when it gave memory back."""


def test_a_shortage_is_survived(tmp_path: Path) -> None:
    """What is unused is given back, and less is tried; what is too much by itself is 503, and the next is heard."""
    journal = tmp_path / "journal"
    with Seat(tmp_path, ["-c", SHORT, str(tmp_path)], {"SEAT_DECODERS": "1", "SEAT_MEM_RETURN": "0"}) as seat:
        seat.wait_for("/health/ready")
        journal.unlink()
        first = seat.begin(said(9))
        until(journal.exists, what="the model is at work")
        together = [seat.begin(said(digit)) for digit in (1, 2, 3, 4)]
        assert [seat.post(b"no audio").status_code for _ in range(2)] == [400, 400], "all before are in the queue"
        (tmp_path / "go").touch()
        answers = [request.answer() for request in (first, *together)]
        refused, after = seat.post(said(7)), seat.post(said(5))
        assert seat.get("/health/ready").status_code == 200
    assert [answer.json()["text"] for answer in answers] == ["nine", "one", "two", "three", "four"]
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "gpu_memory_limit")
    assert 0 < int(refused.headers["retry-after"]) < 120
    assert after.json()["text"] == "five"
    assert journal.read_text().split() == ["1", *["4", "release", "2", "2"], *["1", "release"] * 2, "1"]
