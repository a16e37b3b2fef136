"""What may be written."""

import logging

from seat.telemetry.logs import Sparing


def _record(name: str) -> logging.LogRecord:
    return logging.LogRecord(name, logging.ERROR, "", 0, "unreachable", None, None)


def test_exporters_that_fail_for_hours_say_so_once_in_a_while() -> None:
    """Each of them; everybody else's lines pass."""
    sparing = Sparing(quiet_s=1e9)
    names = ["opentelemetry.a", "opentelemetry.a", "opentelemetry.b", "seat", "seat"]
    assert [True, False, True, True, True] == [sparing.filter(_record(name)) for name in names]
    assert Sparing(quiet_s=0).filter(_record("opentelemetry.a"))
