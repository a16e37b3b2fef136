"""The description of the API is true: schemathesis asks what it allows, and compares what comes back."""

from __future__ import annotations

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.process.seats import FakeSeat, said

pytestmark = [pytest.mark.process, pytest.mark.filterwarnings("ignore")]

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


@pytest.fixture
def described(fake: FakeSeat) -> schemathesis.BaseSchema:
    """As the server tells it."""
    return schemathesis.openapi.from_url(f"{fake.url}/openapi.json")


schema = schemathesis.pytest.from_fixture("described")


@schema.parametrize()
@settings(max_examples=25, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
def test_answers_are_as_described(case: schemathesis.Case) -> None:
    """Whatever is asked within the description: a status, a type and a body that it names, and never a 5xx."""
    case.call_and_validate(checks=CHECKS)


@schema.include(path_regex="^/v1/audio/").parametrize()
@settings(max_examples=25, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
def test_speech_is_answered_as_described(case: schemathesis.Case) -> None:
    """The same with a file in which something is said, and a model that is there."""
    case.body = {**case.body, "file": said(1, 2), "model": "whisper-1"} if isinstance(case.body, dict) else case.body
    case.call_and_validate(checks=CHECKS)
