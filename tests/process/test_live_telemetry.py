"""What a collector and a scraper have of live sessions on a real process."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from pathlib import Path

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from seat.recognizer import SAMPLE_RATE
from seat.telemetry import names
from tests.process.callers import TALK, append, events_until, nothing_left, plain, realtime, rest, say, set_up
from tests.process.otlp import PROTOCOLS, facts, receiving
from tests.process.seats import FakeSeat, until

pytestmark = pytest.mark.process


async def test_a_session_is_one_trace_and_no_request(tmp_path: Path) -> None:
    """By each protocol a server span below its caller's, every batch under it; audio is counted, durations are not."""
    trace, parent = secrets.token_hex(16), secrets.token_hex(8)
    with receiving(PROTOCOLS[0]) as (receiver, environment), FakeSeat(tmp_path, **environment) as seat:
        seat.wait_for("/health/ready")
        async with plain(seat, additional_headers={"traceparent": f"00-{trace}-{parent}-01"}) as socket:
            await say(socket, TALK)
            during = await asyncio.to_thread(
                until, lambda: "asr_live_sessions 1.0" in (text := seat.get("/metrics").text) and text, what="the gauge"
            )
            await socket.send(json.dumps({"type": "close"}))
            await rest(socket)
        async with realtime(seat) as connection:
            await connection.session.update(session=set_up(turn_detection={"type": "server_vad"}))
            await append(connection, TALK.tobytes())
            await events_until(connection, "conversation.item.input_audio_transcription.completed", 2)
        await nothing_left(seat)
        after = seat.get("/metrics").text
        answered = until(lambda: seat.get("/health").json()["answered"], what="both are remembered")
        seat.stop()
        assert seat.exit_code() == 0
        lines = seat.log_lines(event="request")
    assert answered == 2
    assert "asr_live_waiting_seconds" in during
    assert "asr_live_sessions 0.0" in after
    assert "asr_live_waiting_seconds 0.0" in after
    counted = re.search(r'^asr_live_audio_seconds_total{asr_client="anonymous"} (\S+)$', after, re.MULTILINE)
    assert counted
    assert float(counted[1]) == pytest.approx(sum(line["audio_s"] for line in lines))
    assert lines[0]["audio_s"] == len(TALK) / SAMPLE_RATE
    for histogram in (names.REQUEST_DURATION, names.STAGE_DURATION, names.AUDIO_DURATION, names.REAL_TIME_FACTOR):
        assert f"{histogram.prometheus}_count" not in after

    servers = [span for span in receiver.spans if span.kind == Span.SPAN_KIND_SERVER]
    assert [span.name for span in servers] == ["GET /v1/audio/stream", "GET /v1/realtime"]
    assert (servers[0].trace_id.hex(), servers[0].parent_span_id.hex()) == (trace, parent)
    for span, line, ended in zip(servers, lines, ["client", "disconnected"], strict=True):
        about = facts(span.attributes)
        assert (about[names.STATUS], about[names.ENDED], about[names.SCHEME]) == (101, ended, "ws")
        assert about[names.AUDIO] == line["audio_s"]
        below = [other for other in receiver.spans if other.parent_span_id == span.span_id]
        assert [other.name for other in below] == [names.BATCH_SPAN] * line["windows"]
