"""The description of the API, for programs and for people."""

import re
from dataclasses import fields

from seat.web.docs import page
from seat.web.openapi import FORM, SCHEMAS, document
from seat.web.recent import Answered


def test_the_page_needs_nothing_from_elsewhere() -> None:
    """No script, no image, no address but its own: it works without a network."""
    written = page(document())
    assert "://" not in written
    assert not re.search(r"<(script|img|link|iframe)|url[(]|@import", written)


def test_the_page_tells_every_field_path_and_object() -> None:
    """All that the description holds."""
    written = page(document())
    for name in (*FORM, *document()["paths"], *SCHEMAS):
        assert f"{name}</code>" in written, name


def test_what_is_remembered_of_a_request_is_described() -> None:
    """Every field, and what programs read beside it."""
    described = SCHEMAS["Requests"]["properties"]["requests"]["items"]["properties"]
    assert [field.name for field in fields(Answered)] == list(described)
    assert {"/health/requests", "/metrics"} <= document()["paths"].keys()
