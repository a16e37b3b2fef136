"""The error tree."""

import inspect
import re

from seat import errors
from seat.telemetry import names
from seat.web.problems import STATUSES, status_of


def _classes() -> list[type[errors.SeatError]]:
    return [
        member
        for _, member in inspect.getmembers(errors, inspect.isclass)
        if issubclass(member, errors.SeatError) and member.__module__ == errors.__name__
    ]


def test_the_drawn_tree_is_the_tree() -> None:
    """The docstring of the module draws every class below the class it derives from."""
    drawn: dict[str, str] = {}
    path: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        if match := re.match(r"    ([│├└─ ]*)([A-Z]\w+)", line):
            depth = len(match[1]) // 4
            path = [*path[:depth], match[2]]
            drawn[match[2]] = path[-2] if depth else "Exception"
    assert {cls.__name__: cls.__bases__[0].__name__ for cls in _classes()} == drawn


def test_every_error_that_can_reach_a_client_has_a_status_of_its_own_kind() -> None:
    """Invalid requests are 4xx, so that clients do not send them again; the rest is 499 or 5xx."""
    for cls in _classes():
        if issubclass(cls, errors.CannotStart) or cls is errors.SeatError:
            continue
        status = next(STATUSES[base] for base in cls.__mro__ if base in STATUSES)
        assert (400 <= status < 499) == issubclass(cls, errors.InvalidRequest), cls


def test_what_is_a_fault_in_a_trace_is_what_is_a_5xx() -> None:
    """By its code, which a stream and a live session have where their status cannot tell any more."""
    codes = {cls.code for cls in _classes() if cls.code and status_of(cls.__new__(cls)) >= 500}
    assert codes | {errors.INTERNAL_ERROR} == set(names.FAULTS)


def test_a_class_without_a_row_has_the_row_of_its_base() -> None:
    """A full queue is unavailable."""
    assert status_of(errors.QueueFull(waiting="3 requests", retry_after_s=1)) == 503


def test_a_refused_key_is_never_repeated() -> None:
    """The sentence about a wrong key holds nothing that was sent."""
    assert str(errors.InvalidApiKey(given=True)) == "Incorrect API key provided."
