"""Uploads that stand still: who is answered without a word of the rest, and who is given up."""

from __future__ import annotations

import json
import socket

import pytest

from tests.process.conftest import Start
from tests.process.seats import FakeSeat, Pending, said

pytestmark = pytest.mark.process


def _told(upload: socket.socket) -> tuple[int, str]:
    """Status and code of the answer to an upload that is not over."""
    with upload, upload.makefile("rb") as answer:
        status = int(answer.readline().split()[1])
        headers = dict(line.lower().split(b": ", 1) for line in iter(answer.readline, b"\r\n"))
        return status, json.loads(answer.read(int(headers[b"content-length"])))["error"]["code"]


def _running(seat: FakeSeat) -> Pending:
    """A request in which the model stands still."""
    running = seat.wait_for("/health/ready").begin(said(9))
    seat.wait_for_words("nine")
    return running


def test_who_finds_no_place_is_told_before_the_upload_is_read(start: Start) -> None:
    """The bytes would be sent in vain, and once more with each try."""
    seat = start(SEAT_MAX_REQUESTS="1")
    running = _running(seat)
    assert _told(seat.begin_half(said(1))) == (503, "queue_full")
    seat.sign("nine")
    assert running.answer().status_code == 200


def test_who_would_be_answered_too_late_is_told_before_the_upload_is_read(start: Start) -> None:
    """By what the client says that it waits for an answer."""
    seat = start(SEAT_DECODERS="1")
    running = _running(seat)
    waiting = seat.begin(said(1))
    assert [seat.post(b"no audio").status_code for _ in range(2)] == [400, 400], "the one before is in the queue"
    hurried = seat.begin_half(said(1), **{"x-stainless-read-timeout": "0.000001"})
    assert _told(hurried) == (503, "queue_full")
    seat.sign("nine")
    assert [pending.answer().status_code for pending in (running, waiting)] == [200, 200]


def test_an_upload_that_does_not_go_on_is_given_up(start: Start) -> None:
    """When it has taken as long as a request may: its place is for others."""
    seat = start(SEAT_DEADLINE_S="0.5").wait_for("/health/ready")
    assert _told(seat.begin_half(said(1))) == (400, "invalid_form")
