"""Say what happens, for people and programs: logs, traces, metrics. Knows names of facts; no model.

`names` lists everything; `line` and `requests` tell of a request, `traces` of its parts, `metrics` counts, `logs`
writes, and `providers`, which only the server imports, says where it all goes.
"""

from seat.telemetry.line import note, note_timings, open_request
from seat.telemetry.logs import configure_logging, log
from seat.telemetry.metrics import observe, record
from seat.telemetry.requests import count_live_audio, exchange
from seat.telemetry.traces import Origin, batch_span, here, recognizing, speaking, stage, tell_footprint

__all__ = [
    "Origin",
    "batch_span",
    "configure_logging",
    "count_live_audio",
    "exchange",
    "here",
    "log",
    "note",
    "note_timings",
    "observe",
    "open_request",
    "recognizing",
    "record",
    "speaking",
    "stage",
    "tell_footprint",
]
