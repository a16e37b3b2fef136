"""Every file around a seat says only what its program reads, with nothing misspelt."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog import plugins
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard
from pydantic import ValidationError

from seat.telemetry import names
from tests.observability import schemas
from tests.observability.queries import CONTAINERS, DASHBOARD, ROOT

AUTOSCALING = ROOT / "containers" / "kubernetes" / "autoscaling"
FILES: dict[Path, type[schemas.Keys]] = {
    CONTAINERS / "collector.yaml": schemas.Collector,
    CONTAINERS / "tempo.yaml": schemas.Tempo,
    CONTAINERS / "grafana" / "datasources.yaml": schemas.DataSources,
    CONTAINERS / "grafana" / "dashboards.yaml": schemas.DashboardProviders,
    AUTOSCALING / "scaled-object.yaml": schemas.ScaledObject,
}

READ_BY_THE_SOURCE = ["annotations/list/0/textFormat", "annotations/list/0/titleFormat"]
"""Keys of an annotation that Grafana's Prometheus plugin reads, and the model shared by all sources does not have."""


def _mappings(node: Any) -> Iterator[dict[str, Any]]:
    """Every mapping in a file, itself included."""
    if isinstance(node, dict):
        yield node
    for each in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _mappings(each)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_file_says_what_its_program_reads(path: Path) -> None:
    """With values of the right kind."""
    FILES[path].model_validate(yaml.safe_load(path.read_text()))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_misspelt_key_is_found(path: Path) -> None:
    """Wherever it stands."""
    keys = [list(mapping) for mapping in _mappings(yaml.safe_load(path.read_text()))]
    for place, key in ((place, key) for place, own in enumerate(keys) for key in own):
        whole = yaml.safe_load(path.read_text())
        mapping = list(_mappings(whole))[place]
        mapping[key + "x"] = mapping.pop(key)
        with pytest.raises(ValidationError):
            FILES[path].model_validate(whole)


def _written_by_grafana(dashboard: dict[str, Any]) -> dict[str, Any]:
    """A dashboard as Grafana's model of it gives it back; what the model does not know is gone."""
    plugins.register_default_plugins()
    return dict(json.loads(JSONEncoder().encode(Dashboard.from_json(copy.deepcopy(dashboard)))))


def _lost(ours: Any, theirs: Any, place: str = "") -> Iterator[str]:
    """Places of ours that are missing in theirs, or say something else there; defaults may be added."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key, value in ours.items():
            yield from _lost(value, theirs.get(key, _lost), f"{place}{key}/")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for number, (value, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from _lost(value, other, f"{place}{number}/")
    elif ours != theirs:
        yield place.removesuffix("/")


def test_grafana_knows_every_key_of_the_dashboard() -> None:
    """And keeps its value: decoded and encoded by the model of 11.6, the newest that is published for Python."""
    assert READ_BY_THE_SOURCE == sorted(_lost(DASHBOARD, _written_by_grafana(DASHBOARD)))


@pytest.mark.parametrize(
    "place",
    [
        [],
        ["panels", 1],
        ["panels", 1, "fieldConfig", "defaults"],
        ["panels", 1, "gridPos"],
        ["panels", 1, "options"],
        ["panels", 1, "targets", 0],
        ["templating", "list", 2],
    ],
    ids=lambda place: "/".join(map(str, place)),
)
def test_a_misspelt_key_of_the_dashboard_is_found(place: list[str | int]) -> None:
    """Grafana itself would pass over it."""
    dashboard = copy.deepcopy(DASHBOARD)
    node: Any = dashboard
    for step in place:
        node = node[step]
    node["misspelt"] = 1
    found = set(_lost(dashboard, _written_by_grafana(dashboard)))
    assert "/".join(map(str, [*place, "misspelt"])) in found


@pytest.mark.parametrize("metric", names.METRICS, ids=lambda metric: metric.name)
def test_the_collector_calls_a_metric_as_the_seat_does(metric: names.Metric) -> None:
    """What is pushed stands on the dashboard beside what is scraped.

    The collector's exporter writes underscores for what is no letter or digit, appends the unit's word unless the name
    has it, and '_total' to sums that only grow; a unit in braces has no word, and that of a gauge in '1' is 'ratio'.
    """
    words = [word for part in metric.name.split(".") for word in part.split("_")]
    gauge = metric.kind in {"gauge", "observed"}
    unit = {"s": "seconds", "By": "bytes", "1": "ratio" if gauge else ""}.get(metric.unit, "")
    words += [unit] if unit and unit not in words else []
    words += ["total"] if metric.kind in {"counter", "counted"} else []
    assert metric.prometheus == "_".join(words)
