"""Let collectors read what the parts publish. Knows records and the metrics they belong to; counts nothing itself.

All of it runs on a collector's thread, and reads frozen records only.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Generic, TypeVar

from seat.meter import Reported
from seat.resident import reading
from seat.service import Service, ServiceStatistics, State
from seat.telemetry import names, observe
from seat.telemetry.metrics import Reading
from seat.telemetry.names import Metric

Record = TypeVar("Record")

Wanted = Callable[[ServiceStatistics], int | float | None]
"""Picks a figure; None where there is none yet."""

FIGURES: dict[Metric, Wanted] = {
    names.MEMORY_CAP: lambda now: now.memory.cap if now.memory else None,
    names.MEMORY_REST: lambda now: now.memory.rest if now.memory else None,
    names.MEMORY_PEAK: lambda now: now.memory.peak if now.memory else None,
    names.OOM_REJECTIONS: lambda now: now.memory.refusals if now.memory else 0,
    names.QUEUE_LENGTH: lambda now: now.work.queue.requests if now.work else 0,
    names.QUEUE_WINDOWS: lambda now: now.work.queue.windows if now.work else 0,
    names.QUEUE_AUDIO: lambda now: now.work.queue.audio_s if now.work else 0,
    names.LIVE_SESSIONS: lambda now: now.streams.open if now.streams else 0,
    names.LIVE_WAITING: lambda now: now.streams.waiting_s if now.streams else 0,
    names.CALL_RUNNING: lambda now: now.thread.running_s,
}
"""What is one number of a seat."""

Told = Callable[[Reported], int | None]
"""Picks a reading; None where nobody tells."""

TOLD: dict[Metric, Told] = {
    names.MEMORY_REPORTED: lambda reported: reported.process,
    names.DEVICE_USAGE: lambda reported: reported.taken,
    names.DEVICE_LIMIT: lambda reported: reported.total,
}
"""What the driver or the kernel tells."""


class Shared(Generic[Record]):
    """One record for all metrics of a collection, so that they agree: whoever asks again begins the next.

    OpenTelemetry has no callback for several metrics at once; it makes one collection after the other.
    """

    def __init__(self, read: Callable[[], Record]) -> None:
        self._read = read
        self._record: tuple[Record] | None = None
        self._told: set[Metric] = set()

    def record_for(self, metric: Metric) -> Record:
        """The record of the collection that reads this metric now."""
        if metric in self._told:
            self._told.clear()
            self._record = None
        self._told.add(metric)
        self._record = self._record or (self._read(),)
        return self._record[0]


def publish(service: Service, asked_device: str) -> None:
    """Let whoever collects read this seat, from now on.

    Args:
        service: Read, never changed.
        asked_device: The setting, to be seen beside the device in force.
    """
    now, reported = Shared(service.statistics), Shared(service.reported)
    for metric, wanted in FIGURES.items():
        observe(metric, partial(_figure, now, metric, wanted))
    for metric, told in TOLD.items():
        observe(metric, partial(_reported, reported, metric, told))
    observe(names.MEMORY_OUTSIDE, lambda: outside(now.record_for(names.MEMORY_OUTSIDE)))
    observe(names.SEAT_STATE, lambda: states(now.record_for(names.SEAT_STATE).state))
    observe(names.MODEL_INFO, lambda: model(now.record_for(names.MODEL_INFO), asked_device))
    observe(names.PROCESS_MEMORY, lambda: _plain(reading("VmRSS")))
    observe(names.PROCESS_UPTIME, lambda: _plain(time.time() - service.started_at))


def _figure(now: Shared[ServiceStatistics], metric: Metric, wanted: Wanted) -> Iterable[Reading]:
    return _plain(wanted(now.record_for(metric)))


def _reported(reported: Shared[Reported | None], metric: Metric, told: Told) -> Iterable[Reading]:
    record = reported.record_for(metric)
    return _plain(told(record) if record else None)


def _plain(value: float | None) -> Iterable[Reading]:
    return () if value is None else ((value, {}),)


def outside(now: ServiceStatistics) -> Iterable[Reading]:
    """What lies outside the allocator, and how that is known."""
    if now.memory:
        yield now.memory.outside.nbytes, {names.SOURCE: now.memory.outside.source}


def states(now: State) -> Iterable[Reading]:
    """Every state, so that one that is left goes to 0 and does not linger."""
    return [(float(state is now), {names.STATE: state.value}) for state in State]


def model(now: ServiceStatistics, asked_device: str) -> Iterable[Reading]:
    """What is in force."""
    if (info := now.info) is not None:
        told = (
            *(info.id, info.revision, info.dtype, now.attention, now.graphs),
            *(info.device, info.device_name, asked_device),
        )
        yield 1, {name: value or "" for name, value in zip(names.ABOUT_MODEL, told, strict=True)}
