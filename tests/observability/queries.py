"""What observability/ asks Prometheus, as written. Knows where it stands; asks nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "observability"
CONTAINERS = ROOT / "containers" / "observability"
DASHBOARD: dict[str, Any] = json.loads((PAGES / "dashboards" / "seat.json").read_text())
RULES: list[dict[str, Any]] = [
    rule for group in yaml.safe_load((PAGES / "rules" / "seat.yaml").read_text())["groups"] for rule in group["rules"]
]


def panels() -> list[dict[str, Any]]:
    """Everything on the dashboard, headings included."""
    return list(DASHBOARD["panels"])


def queries() -> Iterator[str]:
    """Every expression of PromQL on the dashboard."""
    for panel in panels():
        yield from (target["expr"] for target in panel.get("targets", ()) if "expr" in target)
    yield from (annotation["expr"] for annotation in DASHBOARD["annotations"]["list"])
