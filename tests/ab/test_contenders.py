"""What a side answers is taken for what it is."""

from __future__ import annotations

import httpx

from seat.ab.contenders import _contender
from seat.client import Client


def test_an_answer_that_is_no_transcript_is_told() -> None:
    """As a refusal is; the run goes on with the next clip."""
    answers = [httpx.Response(200, text="<html>"), httpx.Response(200, json={"text": "one two"})]
    with Client("http://side", transport=httpx.MockTransport(lambda _: answers.pop(0))) as client:
        side = _contender("side", client, "model")
        first, second = side.hear(b"RIFF"), side.hear(b"RIFF")
    assert first.text == ""
    assert first.error is not None
    assert "it does not answer in JSON" in first.error
    assert (second.text, second.error) == ("one two", None)


def test_a_side_that_is_no_seat_tells_no_memory() -> None:
    """Whatever it says under /health."""
    with Client(
        "http://side", transport=httpx.MockTransport(lambda _: httpx.Response(200, json={"status": "ok"}))
    ) as client:
        assert _contender("side", client, "model").health() is None
