"""GET /openapi.json and /docs: the description of the API, for programs and for people. Knows no field by itself.

The page is written here, once, from the description: no script, nothing from elsewhere, so it works without a network.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import escape
from typing import Any, Final

from litestar import MediaType, Response, get

from seat.web.openapi import document

POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
"""What the page may load: nothing but the style within it."""

STYLE: Final = """
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
code { font-family: ui-monospace, monospace }
table { border-collapse: collapse; margin: 0.5rem 0 1.5rem }
td, th { border-bottom: 1px solid #8886; padding: 0.3rem 1rem 0.3rem 0; text-align: left; vertical-align: top }
"""


@get("/openapi.json", sync_to_thread=False)
def openapi_json() -> Response[bytes]:
    """Describe the API for programs."""
    return Response(json.dumps(document()).encode(), media_type=MediaType.JSON)


@get("/docs", sync_to_thread=False)
def docs() -> Response[str]:
    """Describe the API for people."""
    return Response(page(document()), media_type=MediaType.HTML, headers={"content-security-policy": POLICY})


def page(described: dict[str, Any]) -> str:
    """A page about an API: its paths, their fields, and what answers are made of."""
    info = described["info"]
    title = escape(f"{info['title']} {info['version']}")
    return "\n".join(
        [
            f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{STYLE}</style>',
            f"<h1>{title}</h1><p>{escape(info['description'])} For programs: <a href='/openapi.json'>openapi.json</a>.",
            *(
                part
                for path, operations in described["paths"].items()
                for method, operation in operations.items()
                for part in _operation(path, method, operation)
            ),
            "<h2>Objects</h2>",
            *(
                part
                for name, schema in described["components"]["schemas"].items()
                for part in (f"<h3><code>{escape(name)}</code></h3>", *_table(schema))
            ),
        ]
    )


def _operation(path: str, method: str, operation: dict[str, Any]) -> Iterator[str]:
    yield f"<h2><code>{method.upper()} {escape(path)}</code></h2><p>{escape(operation['summary'])}"
    if parameters := operation.get("parameters"):
        yield from _table(
            {
                "properties": {each["name"]: each["schema"] for each in parameters},
                "required": [each["name"] for each in parameters if each.get("required")],
            }
        )
    for body in operation.get("requestBody", {}).get("content", {}).values():
        yield from _table(body["schema"])
    statuses = ", ".join(operation["responses"])
    yield f"<p>Statuses: {statuses}."


def _table(schema: dict[str, Any]) -> Iterator[str]:
    yield "<table>"
    for name, field in schema["properties"].items():
        need = "required" if name in schema["required"] else ""
        told = escape(field.get("description", ""))
        yield f"<tr><th><code>{escape(name)}</code><td>{need}<td>{escape(_kind(field))}<td>{told}</tr>"
    yield "</table>"


def _kind(schema: dict[str, Any]) -> str:
    """What a value is, in a few words."""
    if "enum" in schema:
        return " or ".join(repr(value) for value in schema["enum"])
    if "oneOf" in schema:
        return " or ".join(map(_kind, schema["oneOf"]))
    kind = schema["type"]
    if kind == "array":
        return f"list of {_kind(schema['items'])}"
    return kind if isinstance(kind, str) else " or ".join(kind)
