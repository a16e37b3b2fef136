"""Imports point one way: down one list, with torch, litestar and structlog each in one place."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import seat

ROOT = Path(seat.__file__).parent
ORDER = [
    ["errors", "transcript", "faults", "meter"],
    ["caps"],
    ["memory", "resident", "room", "budget"],
    ["recognizer"],
    [
        "settings",
        "audio",
        "words",
        "cues",
        "languages",
        "telemetry",
        "executor",
        "pcm",
        "wav",
        "loudness",
        "hub",
        "inputs",
    ],
    ["windows", "batches", "weights", "vad", "voice"],
    ["formats", "queueing", "runner", "stitching", "tape"],
    ["scheduler", "utterance", "warmup"],
    ["hearing", "turn"],
    ["transcriber", "live"],
    ["streams"],
    ["works"],
    ["service"],
    ["gauges", "watch"],
    ["gpu"],
    ["web"],
    ["app"],
    ["serve"],
    ["client", "bars", "microphone", "sentences"],
    ["child", "outputs", "captions"],
    ["demo", "files"],
    ["order"],
    ["doctor", "ab"],
    ["cli"],
    ["__main__"],
]
"""Names at the top of the package; a module may import from earlier rows, and inside its own package."""

ONLY_IN = {
    "torch": {"gpu"},
    "nemo": {"gpu"},
    "omegaconf": {"gpu"},
    "litestar": {"web", "app"},
    "granian": {"serve"},
    "structlog": {"telemetry"},
    "opentelemetry": {"telemetry"},
    "prometheus_client": {"telemetry", "web"},
    "pynvml": {"gpu"},
    "av": {"audio", "microphone"},
    "soundfile": {"audio"},
    "matplotlib": {"ab"},
    "jiwer": {"ab"},
    "websockets": {"captions"},
    "whisper_normalizer": {"ab"},
}
"""Where a library may be imported."""


def _modules() -> list[Path]:
    return [path for path in sorted(ROOT.rglob("*.py")) if "demo" not in path.relative_to(ROOT).parts]


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
            if node.module == "seat":
                yield from (f"seat.{alias.name}" for alias in node.names)


def _top(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", _modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_down(path: Path) -> None:
    """A module imports only what stands above it in the order, and foreign libraries only where they belong."""
    rows = {name: row for row, names in enumerate(ORDER) for name in names}
    top = _top(path)
    if top == "__init__":
        return
    for name in _imports(path):
        library, _, inner = name.partition(".")
        if library == "seat" and inner:
            target = inner.split(".")[0]
            assert target in {top, "__version__"} or rows[target] < rows[top] or (top, target) == ("serve", "gpu"), name
        if library in ONLY_IN:
            assert top in ONLY_IN[library], name


def test_the_application_is_imported_without_torch() -> None:
    """HTTP answers before NeMo is imported, and nearly every test runs without it."""
    code = "import sys, seat.app, seat.serve, seat.cli; print('torch' in sys.modules, 'nemo' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert result.stdout.split() == ["False", "False"]


def test_the_environment_is_read_in_one_place() -> None:
    """Only the settings and the entry points look at the environment."""
    readers = {_top(path) for path in _modules() if "os.environ" in path.read_text()}
    assert readers <= {"settings", "serve", "child"}
