"""Name all that a seat measures: spans, attributes, metrics with units and limits. Knows names; measures nothing.

What OpenTelemetry has a name for is called by it (semantic conventions 1.44); the rest is ``asr.*``, in units of UCUM,
with attributes from closed sets. The one table is `METRICS`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from seat.errors import (
    INTERNAL_ERROR,
    ClientDisconnected,
    DeadlineExceeded,
    ExceedsMemory,
    InvalidApiKey,
    InvalidEvent,
    ModelNotFound,
    RecognitionFailed,
    SlowReader,
    Unavailable,
    UnsupportedValue,
)

DECODE_SPAN: Final = "asr decode"
"""From compressed bytes to samples, waiting for a decoding thread included."""
QUEUE_SPAN: Final = "asr queue"
"""From submission until the first batch that serves the request begins."""
BATCH_SPAN: Final = "asr batch"
"""One batch of windows on the GPU thread, run once; a batch that is cut for want of memory has a span for each try."""
REMAINDER_SPAN: Final = "asr batches"
"""All batches of a request beyond `SPANS_PER_REQUEST` in one."""
ASSEMBLE_SPAN: Final = "asr assemble"
"""Joining windows into one transcript."""
RENDER_SPAN: Final = "asr render"
"""Writing the transcript in the format asked for."""

STAGE_SPANS: Final = {"decode": DECODE_SPAN, "assemble": ASSEMBLE_SPAN, "render": RENDER_SPAN}
"""By the stage's name in the line."""

SPANS_PER_REQUEST: Final = 64
"""Batches of one request that have spans of their own: an hour's file has up to 180, and a trace must stay readable."""

AUDIO: Final = "asr.audio.duration"
"""Seconds of audio: of a batch without padding, of a request as decoded."""
WINDOWS: Final = "asr.windows"
"""Windows that a request was cut into."""
BATCHES: Final = "asr.batches"
"""Batches that are told of in one span."""
SIZE: Final = "asr.batch.size"
"""Windows in the batch."""
PADDING: Final = "asr.batch.padding"
"""The share of a batch that is padding, 0 to 1."""
ATTENTION: Final = "asr.attention"
"""'full' or 'local'."""
REST_BEFORE: Final = "asr.memory.rest_before"
"""Bytes that the process took before the batch: of the card, or resident where there is none."""
PEAK: Final = "asr.memory.peak"
"""Bytes that the process took at most during the batch."""
REST_AFTER: Final = "asr.memory.rest_after"
"""Bytes that the process took after it, once unused memory was given back."""
RESERVED: Final = "asr.memory.reserved"
"""Bytes that torch's allocator had taken from the driver at most; absent on a CPU."""
ALLOCATED: Final = "asr.memory.allocated"
"""Bytes of them that tensors took at most; absent on a CPU."""
FOOTPRINT: Final = {
    "rest_before": REST_BEFORE,
    "peak": PEAK,
    "rest_after": REST_AFTER,
    "reserved": RESERVED,
    "allocated": ALLOCATED,
}
"""What a batch took, by the kind of memory that metrics call it."""
CANCELLED: Final = "asr.cancelled"
"""True where the client hung up before its answer."""
CLIENT: Final = "asr.client"
"""The name of the key that a client showed, 'anonymous' where the seat asks for none."""
ENDED: Final = "asr.live.ended"
"""How a live session ended, as in its canonical line."""
STAGE: Final = "asr.stage"
"""One of `STAGES`."""
KIND: Final = "asr.memory.kind"
"""Which of a batch's readings: 'rest_before', 'peak', 'rest_after', 'reserved', 'allocated'."""
SOURCE: Final = "asr.memory.source"
"""How a figure is known; see `seat.meter.Outside`."""
STATE: Final = "asr.state"
"""One of `seat.service.State`."""
ERROR_TYPE: Final = "error.type"
"""OpenTelemetry's own name: one of our codes, the class of an error (in spans only), or '_OTHER'."""
METHOD: Final = "http.request.method"
"""As sent where it is a known one, else '_OTHER'."""
ROUTE: Final = "http.route"
"""The template of the path; absent where no route matched."""
STATUS: Final = "http.response.status_code"
"""As answered; 499 where nobody read it."""
SCHEME: Final = "url.scheme"
"""'http' or 'https'; 'ws' or 'wss' of a websocket."""
PATH: Final = "url.path"
"""As in the canonical line."""
REQUEST_ID: Final = "asr.request.id"
"""The ``x-request-id`` of the answer."""

ABOUT_MODEL: Final = (
    "asr.model.id",
    "asr.model.revision",
    "asr.model.dtype",
    "asr.model.attention",
    "asr.model.graphs",
    "asr.device",
    "asr.device.name",
    "asr.device.asked",
)
"""What is in force, as read; 'asked' is the setting."""

STAGES: Final = ("decode", "queue", "inference", "assemble", "render")
"""Parts of a request's time, in order; each is a field of its canonical line with '_s' behind it."""

_UNAVAILABLE: Final = tuple(str(kind.code) for kind in Unavailable.__subclasses__())

REJECTIONS: Final = (*_UNAVAILABLE, ExceedsMemory.code)
"""Codes with which a request is turned away that asked for nothing wrong in itself."""

FAULTS: Final = (*_UNAVAILABLE, DeadlineExceeded.code, RecognitionFailed.code, INTERNAL_ERROR)
"""Codes of a 5xx. A stream and a live session have them behind a status that was sent before."""

LIVE_REFUSALS: Final = (
    InvalidApiKey.code,
    InvalidEvent.code,
    ModelNotFound.code,
    SlowReader.code,
    UnsupportedValue.code,
)
"""Codes of what is wrong with a live client, and ends its session."""

HUNG_UP: Final = ClientDisconnected.code
"""The code of a request whose client has gone."""

Kind = Literal["counter", "histogram", "gauge", "observed", "counted"]
"""What is recorded as it happens, and, from 'observed' on, what is read when somebody collects."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Metric:
    """One metric, as OpenTelemetry and Prometheus know it."""

    name: str
    """OpenTelemetry's."""
    kind: Kind
    """'counted' is a sum that only grows, kept elsewhere and read."""
    unit: str
    """UCUM; in braces what is counted."""
    says: str
    """One sentence."""
    attributes: tuple[str, ...] = ()
    """Its labels; all from closed sets."""
    bounds: tuple[float, ...] | None = None
    """Upper limits of a histogram's buckets."""

    @property
    def prometheus(self) -> str:
        """The name on ``/metrics``: what `opentelemetry.exporter.prometheus` makes of it."""
        unit = {"s": "_seconds", "By": "_bytes"}.get(self.unit, "")
        name = self.name.replace(".", "_") + unit
        return f"{name}_total" if self.kind in {"counter", "counted"} else name


SECONDS: Final = (0.01, 0.02, 0.04, 0.07, 0.1, 0.2, 0.4, 0.7, 1.0, 2.0, 4.0, 7.0, 10.0, 20.0, 40.0, 60.0)
"""From a clip on a card, some 10 ms, to what a person no longer waits for: about three buckets a factor of four."""
LAGS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""A healthy loop lags a millisecond; 100 ms are felt."""
AUDIO_SECONDS: Final = (1.0, 2.0, 5.0, 10.0, 20.0, 45.0, 120.0, 300.0, 900.0, 3600.0, 10800.0)
"""From a word to three hours."""
FACTORS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
"""From a busy card to a processor that falls behind speech, which is 1."""
SIZES: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
"""Windows; 60 s of clips are some 60."""
SHARES: Final = (0.05, 0.1, 0.2, 0.3, 0.5)
"""A batch's shortest window is at least half its longest (`seat.batches.PADDING_LIMIT`), so half is the end."""

REQUEST_DURATION: Final = Metric(
    name="http.server.request.duration",
    kind="histogram",
    unit="s",
    says="From the first byte of a request to the last of its answer; probes, /metrics and live sessions do not count.",
    attributes=(METHOD, ROUTE, STATUS, SCHEME, ERROR_TYPE),
    bounds=SECONDS,
)
STAGE_DURATION: Final = Metric(
    name="asr.stage.duration",
    kind="histogram",
    unit="s",
    says="One stage of one request.",
    attributes=(STAGE,),
    bounds=SECONDS,
)
AUDIO_DURATION: Final = Metric(
    name="asr.audio.duration",
    kind="histogram",
    unit="s",
    says="Audio of the requests that were transcribed, from decoded samples; live sessions do not count.",
    attributes=(CLIENT,),
    bounds=AUDIO_SECONDS,
)
REAL_TIME_FACTOR: Final = Metric(
    name="asr.request.real_time_factor",
    kind="histogram",
    unit="1",
    says="Inference of a request for each second of its audio, what ran between its batches included.",
    bounds=FACTORS,
)
ADMISSION_REJECTIONS: Final = Metric(
    name="asr.admission.rejections",
    kind="counter",
    unit="{request}",
    says="Requests turned away that asked for nothing wrong, by the code of the answer.",
    attributes=(ERROR_TYPE,),
)
CANCELLATIONS: Final = Metric(
    name="asr.cancellations",
    kind="counter",
    unit="{request}",
    says="Requests whose client hung up before the answer.",
)
BATCH_DURATION: Final = Metric(
    name="asr.batch.duration",
    kind="histogram",
    unit="s",
    says="One batch on the GPU thread, from its first reading of memory to its last.",
    attributes=(ATTENTION, ERROR_TYPE),
    bounds=SECONDS,
)
BATCH_SIZE: Final = Metric(
    name="asr.batch.size", kind="histogram", unit="{window}", says="Windows in one batch.", bounds=SIZES
)
BATCH_PADDING: Final = Metric(
    name="asr.batch.padding",
    kind="histogram",
    unit="1",
    says="The share of one batch that is padding.",
    bounds=SHARES,
)
BATCH_MEMORY: Final = Metric(
    name="asr.batch.memory.usage",
    kind="gauge",
    unit="By",
    says="What the last batch took: before it, at most, after it; and the allocator's own peaks, on a card.",
    attributes=(KIND,),
)
LIVE_AUDIO: Final = Metric(
    name="asr.live.audio",
    kind="counter",
    unit="s",
    says="Audio of live sessions, counted as it comes.",
    attributes=(CLIENT,),
)
LIVE_ERRORS: Final = Metric(
    name="asr.live.errors",
    kind="counter",
    unit="{session}",
    says="Live sessions that an error refused or ended, by its code.",
    attributes=(ERROR_TYPE,),
)
LOOP_LAG: Final = Metric(
    name="asr.event_loop.lag",
    kind="histogram",
    unit="s",
    says="How much later than asked for the event loop woke up.",
    bounds=LAGS,
)
STALLS: Final = Metric(
    name="asr.stalls", kind="counter", unit="{stall}", says="Calls of the model that took longer than SEAT_STALL_S."
)
MEMORY_CAP: Final = Metric(
    name="asr.memory.cap", kind="observed", unit="By", says="What the process may take; absent where there is no limit."
)
MEMORY_REST: Final = Metric(
    name="asr.memory.rest", kind="observed", unit="By", says="What the process took after the last batch."
)
MEMORY_PEAK: Final = Metric(
    name="asr.memory.peak", kind="observed", unit="By", says="What the process took at most since it was ready."
)
MEMORY_OUTSIDE: Final = Metric(
    name="asr.memory.outside",
    kind="observed",
    unit="By",
    says="What lies outside torch's allocator; 0 on a CPU, which has none.",
    attributes=(SOURCE,),
)
MEMORY_REPORTED: Final = Metric(
    name="asr.memory.reported",
    kind="observed",
    unit="By",
    says="What others are told the process takes: by NVML on a card, absent where it is blind; else by the kernel.",
)
OOM_REJECTIONS: Final = Metric(
    name="asr.oom.rejections",
    kind="counted",
    unit="{batch}",
    says="Batches that were not run, or not to their end, for want of memory under the cap.",
)
DEVICE_LIMIT: Final = Metric(
    name="asr.device.memory.limit", kind="observed", unit="By", says="The card's memory, or the machine's without one."
)
DEVICE_USAGE: Final = Metric(
    name="asr.device.memory.usage", kind="observed", unit="By", says="What all processes together take of it."
)
QUEUE_LENGTH: Final = Metric(
    name="asr.queue.length", kind="observed", unit="{request}", says="Requests with a window that has not begun."
)
QUEUE_WINDOWS: Final = Metric(
    name="asr.queue.windows", kind="observed", unit="{window}", says="Windows that have not begun."
)
QUEUE_AUDIO: Final = Metric(name="asr.queue.audio", kind="observed", unit="s", says="Audio that has not begun.")
LIVE_SESSIONS: Final = Metric(
    name="asr.live.sessions", kind="observed", unit="{session}", says="Live sessions that are open."
)
LIVE_WAITING: Final = Metric(
    name="asr.live.waiting",
    kind="observed",
    unit="s",
    says="Audio of all live sessions that has come and is not heard; a chunk and its right context each are usual.",
)
CALL_RUNNING: Final = Metric(
    name="asr.call.running",
    kind="observed",
    unit="s",
    says="How long the model's running call has taken so far; 0 where none runs.",
)
SEAT_STATE: Final = Metric(
    name="asr.seat.state",
    kind="observed",
    unit="{state}",
    says="1 for the state the seat is in, 0 for the others.",
    attributes=(STATE,),
)
MODEL_INFO: Final = Metric(
    name="asr.model.info",
    kind="observed",
    unit="{model}",
    says="1; what is in force stands in the attributes.",
    attributes=ABOUT_MODEL,
)
PROCESS_MEMORY: Final = Metric(
    name="process.memory.usage",
    kind="observed",
    unit="By",
    says="What is resident of the process in the machine's memory.",
)
PROCESS_UPTIME: Final = Metric(
    name="process.uptime", kind="observed", unit="s", says="Seconds since the seat was started."
)

METRICS: Final = tuple(value for value in vars().values() if isinstance(value, Metric))
"""Every metric of a seat, in the order above."""
