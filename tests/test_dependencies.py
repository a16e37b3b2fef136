"""Every package that is imported is declared, and every one that is declared is imported."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

from seat.ab.command import NEEDED

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())

NOT_IMPORTED = {"mypy", "pytest-asyncio", "pytest-timeout", "ruff", "rust-just"}
"""Tools, and plugins of pytest."""


SHARED = {
    "opentelemetry.sdk": "opentelemetry-sdk",
    "opentelemetry.proto": "opentelemetry-proto",
    "opentelemetry.exporter.prometheus": "opentelemetry-exporter-prometheus",
    "opentelemetry.exporter.otlp.proto.grpc": "opentelemetry-exporter-otlp-proto-grpc",
    "opentelemetry.exporter.otlp.proto.http": "opentelemetry-exporter-otlp-proto-http",
    "opentelemetry": "opentelemetry-api",
}
"""One name space of many distributions: the first prefix that fits."""

KNOWN = packages_distributions()
OUR_OWN = {"seat", "tests"} | sys.stdlib_module_names


def _names(requirements: list[str]) -> set[str]:
    return {re.split(r"[\[<>=!~ ]", requirement)[0].lower().replace("_", "-") for requirement in requirements}


def _imported(paths: list[Path]) -> set[str]:
    """Distributions whose packages are imported, at the top or late."""
    modules: set[str] = set()
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                modules |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                modules.add(node.module)
    return {_distribution(module) for module in modules if module.split(".")[0] not in OUR_OWN}


def _distribution(module: str) -> str:
    for prefix, distribution in SHARED.items():
        if module.startswith(prefix):
            return distribution
    return KNOWN[module.split(".", maxsplit=1)[0]][0].lower().replace("_", "-")


RECIPE = sorted((ROOT / "seat" / "demo" / "recipe").rglob("*.py"))
SEAT = [path for path in sorted((ROOT / "seat").rglob("*.py")) if path not in RECIPE]
TESTS = sorted((ROOT / "tests").rglob("*.py"))
AB = sorted((ROOT / "seat" / "ab").rglob("*.py"))
DECLARED = _names(PROJECT["project"]["dependencies"])
OPTIONAL = _names(PROJECT["project"]["optional-dependencies"]["ab"])
DEVELOPMENT = _names(PROJECT["dependency-groups"]["dev"])


def test_what_the_seat_imports_is_declared() -> None:
    """And nothing else is installed on a user's machine."""
    assert _imported([path for path in SEAT if path not in AB]) == DECLARED


def test_what_the_comparison_needs_beside_that_is_optional() -> None:
    """A seat that serves installs no plots; 'seat ab' says what to install."""
    assert _imported(AB) - DECLARED == OPTIONAL
    assert {_distribution(module) for module in NEEDED} == OPTIONAL


def test_what_tests_and_recipe_import_is_declared() -> None:
    """Beside what the seat itself needs, in the group 'dev'."""
    assert (_imported(RECIPE + TESTS) - DECLARED) | OPTIONAL == DEVELOPMENT - NOT_IMPORTED
