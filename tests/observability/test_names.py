"""Dashboards, rules and pages name what exists, and nothing that exists is left unnamed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from seat.telemetry import names
from tests.observability.queries import DASHBOARD, PAGES, RULES, panels, queries

METRICS = {metric.prometheus: metric for metric in names.METRICS}
LABELS = {label.replace(".", "_") for metric in names.METRICS for label in metric.attributes}
SERIES = {
    series: metric
    for name, metric in METRICS.items()
    for series in ([f"{name}_{part}" for part in ("bucket", "sum", "count")] if metric.kind == "histogram" else [name])
}
"""What can be asked for: a histogram only by its parts."""

NOT_OURS = {"up", "ALERTS"}
"""Series that Prometheus itself makes."""


def _words(text: str) -> set[str]:
    """What looks like one of our metrics or labels."""
    return set(re.findall(r"\b(?:asr|http|process)_[a-z0-9_]+", text))


def _selectors(query: str) -> Iterator[tuple[str, list[str]]]:
    """Series, and the labels that each is selected by."""
    for name, matchers in re.findall(r"\b([a-z_]+|ALERTS)\{([^}]*)\}", query):
        yield name, re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers)


def test_the_table_of_metrics_is_the_metrics() -> None:
    """Both names, unit, labels and meaning of each, in their order."""
    table = (PAGES / "README.md").read_text().split("## Metrics")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `([^`]+)`<br>`([^`]+)` \| ([^|]*) \| ([^|]*) \| ([^|]*) \|$", table, re.MULTILINE)
    assert rows == [
        (
            metric.name,
            metric.prometheus,
            f"`{metric.unit}`",
            ", ".join(f"`{label}`" for label in metric.attributes),
            metric.says,
        )
        for metric in names.METRICS
    ]


@pytest.mark.parametrize("path", sorted(path for path in PAGES.rglob("*.*")), ids=lambda path: path.name)
def test_nothing_is_named_that_does_not_exist(path: Path) -> None:
    """In no page, panel, rule or test of a rule."""
    assert _words(path.read_text()) <= SERIES.keys() | METRICS.keys() | LABELS


def test_every_metric_is_shown() -> None:
    """On the dashboard: what nobody looks at need not be measured."""
    shown = {name for query in queries() for name in _words(query)}
    assert set(METRICS.values()) == {SERIES[name] for name in shown & SERIES.keys()}


def test_labels_belong_to_their_metrics() -> None:
    """A matcher on a label that a metric does not have selects everything or nothing."""
    for query in [*queries(), *(rule["expr"] for rule in RULES)]:
        for series, labels in _selectors(query):
            if series not in NOT_OURS:
                own = {label.replace(".", "_") for label in SERIES[series].attributes}
                assert set(labels) <= own | {"instance", "job", "le"}, query


def test_every_alert_has_its_page() -> None:
    """And no page is left without an alert; each alert is tested with a fault, and with a seat that is fine."""
    pages = re.findall(r"^## (\w+)$", (PAGES / "runbooks.md").read_text(), re.MULTILINE)
    assert [rule["alert"] for rule in RULES] == pages
    for rule in RULES:
        assert rule["annotations"]["runbook"] == f"observability/runbooks.md#{rule['alert'].lower()}"
        assert rule["labels"]["severity"] in {"critical", "warning"}
    tests = yaml.safe_load((PAGES / "rules" / "seat.test.yaml").read_text())["tests"]
    fired = {case["alertname"] for test in tests for case in test["alert_rule_test"] if case["exp_alerts"]}
    assert {rule["alert"] for rule in RULES} == fired


def test_the_dashboard_can_be_drawn() -> None:
    """Panels have places of their own, titles, numbers and a data source that a variable chooses."""
    taken: set[tuple[int, int]] = set()
    sources = {"${prometheus}", "${tempo}"}
    variables = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    for panel in panels():
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in _rows(place)}
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
        if panel["type"] != "row":
            assert {
                panel["datasource"]["uid"],
                *(target["datasource"]["uid"] for target in panel["targets"]),
            } <= sources
            assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
    numbers = [panel["id"] for panel in panels()]
    assert len(set(numbers)) == len(numbers)
    asked = set(re.findall(r"\$\{?([a-z]\w*)", json.dumps(DASHBOARD)))
    assert asked <= variables
    rows = [panel["title"] for panel in panels() if panel["type"] == "row"]
    assert rows[1:] == ["Traffic", "Latency by stage", "Memory contract", "Queue and batches", "Errors and rejections"]


def _rows(place: dict[str, Any]) -> range:
    return range(place["y"], place["y"] + place["h"])
