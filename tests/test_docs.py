"""The description of the API, for programs and for people."""

import re

from seat.web.docs import page
from seat.web.openapi import FORM, SCHEMAS, document


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
