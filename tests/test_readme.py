"""What README.md and observability/README.md say is so."""

import ast
import re
from pathlib import Path

from seat import errors
from seat.settings import ALIASES, PREFIX, Settings
from seat.web.openapi import FORM
from seat.web.problems import ROUTING_CODES, status_of

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def written(default: object) -> str:
    """A default as one writes it into the environment."""
    if isinstance(default, tuple):
        return ",".join(written(part) for part in default)
    if isinstance(default, bool):
        return str(int(default))
    return "" if default is None else f"{default:g}" if isinstance(default, float) else str(default)


def test_the_table_of_settings_is_the_settings() -> None:
    """Every setting with its older name and its default, no more and no less, in their order."""
    aliases = {field: alias for alias, field in ALIASES.items()}
    expected = [
        (PREFIX + name.upper(), aliases.get(name, ""), written(field.default))
        for name, field in Settings.model_fields.items()
    ]
    rows = re.findall(r"^\| `(SEAT_\w+)`(?: \(`(\w+)`\))? \| `?([^|`]*?)`? \|", README, re.MULTILINE)
    assert expected == rows


def test_the_first_two_lines_are_those_to_paste() -> None:
    """One installs and serves, one installs and tests; `.ci/run` runs the second."""
    block = README.split("```sh\n", 1)[1].split("```", 1)[0].splitlines()
    assert [line.rsplit("&& ", 1)[1] for line in block] == [".venv/bin/seat serve", ".venv/bin/python -m pytest"]


def test_the_canonical_line_is_the_one_described() -> None:
    """Every field that a request's line can have stands in the table, and no other."""
    table = (ROOT / "observability" / "README.md").read_text().split("## The canonical line")[1].split("```")[0]
    described = {
        name for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)
    }
    written = {"trace_id"}  # the one that may be missing from the beginning
    for path in (ROOT / "seat").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func) + "".join(ast.unparse(argument) for argument in node.args[:1])
                if called in {"note", "open_request", "log.info'request'"}:
                    written |= {keyword.arg for keyword in node.keywords if keyword.arg}
                if called.startswith("stage'"):
                    written.add(called.split("'")[1] + "_s")
    assert described == written


def test_every_event_is_described() -> None:
    """What the log can say stands in the table of events, and nothing else does."""
    table = (ROOT / "observability" / "README.md").read_text().split("## The canonical line")[0]
    described = set(re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (`.*?) \|", table, re.MULTILINE))))
    logged = set()
    for path in (ROOT / "seat").rglob("*.py"):
        logged |= set(re.findall(r"\blog\.(?:info|warning|error)\(\s*\"(\w+)\"", path.read_text()))
    assert described == logged


def test_every_code_of_an_error_is_told() -> None:
    """With the status it comes with; 499 is for the log, and on the wire 400."""
    told = {
        (int(status), code)
        for statuses, codes in re.findall(r"^\| (\d[\d, ]*\d)[^|]*\| (`[^|]+) \|$", README, re.MULTILINE)
        for status in statuses.split(",")
        for code in re.findall(r"`(\w+)`", codes)
    }
    classes = [value for value in vars(errors).values() if isinstance(value, type) and getattr(value, "code", None)]
    statuses = {cls: status_of(cls.__new__(cls)) for cls in classes} | {errors.ClientDisconnected: 400}
    expected = {(status, cls.code) for cls, status in statuses.items()}
    assert expected <= told
    assert {code for _, code in told} == {code for _, code in expected} | {*ROUTING_CODES.values(), "internal_error"}


def test_every_field_of_the_api_is_told() -> None:
    """The table and the description that the server gives agree on what there is, and on what has an effect."""
    table = README.split("What becomes of each field of a request:")[1].split("\n\n", 2)[1]
    told = {
        name: effect
        for names, effect in re.findall(r"^\| (`[^|]+`) \| ([\w ]+) \|", table, re.MULTILINE)
        for name in re.findall(r"`([^`]+)`", names)
    }
    assert told.keys() == FORM.keys()
    for name, effect in told.items():
        assert FORM[name]["description"].casefold().startswith(effect), name


def test_links_lead_somewhere() -> None:
    """No file that the README names is missing."""
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert "://" in target or (ROOT / target).exists(), target
