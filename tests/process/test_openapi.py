"""The description of the API is true: schemathesis asks what it allows, and compares what comes back."""

from __future__ import annotations

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from seat.web.openapi import document
from tests.process.seats import FakeSeat, said

pytestmark = [pytest.mark.process, pytest.mark.filterwarnings("ignore")]

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
OPERATIONS = [result.ok() for result in schemathesis.openapi.from_dict(document()).get_all_operations()]
FEW = settings(max_examples=30, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))


def _ask(fake: FakeSeat, operation: Any, **parts: Any) -> set[int]:
    """Ask some thirty times, and return the statuses that came back."""
    statuses = set()

    @FEW
    @given(case=operation.as_strategy())
    def ask(case: schemathesis.Case) -> None:
        if parts:
            case.body = {**case.body, **parts}
        statuses.add(case.call_and_validate(base_url=fake.url, checks=CHECKS).status_code)

    ask()
    return statuses


def test_what_is_described_is_what_is_served(fake: FakeSeat) -> None:
    """The server tells the same description."""
    assert fake.get("/openapi.json").json() == document()


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.label)
def test_answers_are_as_described(fake: FakeSeat, operation: Any) -> None:
    """Whatever is asked within the description: a status, a type and a body that it names, and never a 5xx."""
    assert _ask(fake, operation)


@pytest.mark.parametrize(
    "operation", [each for each in OPERATIONS if "POST" in each.label], ids=lambda each: each.label
)
def test_speech_is_answered_as_described(fake: FakeSeat, operation: Any) -> None:
    """The same with a model that is there, and a file in which something is said."""
    assert 200 in _ask(fake, operation, file=said(1, 2), model="whisper-1")
