"""A model on the card, or a tiny one on the processor with `--rehearse`, so that the first run is not the first."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from seat.gpu import logs
from tests.gpu.report import Report, markdown
from tests.tiny import LARGE, REHEARSAL, build

CAP_MIB = 2000
"""MiB that a seat with 0.6 billion weights is to keep to."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the rehearsal."""
    parser.addoption("--rehearse", action="store_true", help="run what is possible on the processor, tiny")


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """Where the tests play."""

    device: str
    """'cuda' or 'cpu'."""
    checkpoint: Path
    """A model with random weights."""
    lengths_s: tuple[int, ...]
    """Windows to measure, ascending."""
    noise_mib: int
    """By how much two readings at rest may differ."""
    cap_mib: int | None
    """The cap of a seat; None where it follows from what the seat takes without one."""

    @property
    def rehearsed(self) -> bool:
        """Whether there is no card in it."""
        return self.device == "cpu"


@pytest.fixture(scope="session")
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Stage:
    """A card with a model of 0.6 billion weights, or the rehearsal."""
    import torch

    logs.hush()
    folder = tmp_path_factory.mktemp("model")
    if torch.cuda.is_available():
        large = build(folder, "rnnt", dimensions=LARGE)
        return Stage(device="cuda", checkpoint=large, lengths_s=(30, 60, 120, 360), noise_mib=2, cap_mib=CAP_MIB)
    if not request.config.getoption("--rehearse"):
        pytest.skip("no CUDA card is here")
    tiny = build(folder, "rnnt", dimensions=REHEARSAL)
    return Stage(device="cpu", checkpoint=tiny, lengths_s=(2, 8, 30, 120), noise_mib=24, cap_mib=None)


@pytest.fixture(scope="session")
def report(stage: Stage, request: pytest.FixtureRequest) -> Iterator[Report]:
    """What was measured: `gpu.json` and `gpu.md` in the folder that $OUT names, after every test; else printed."""
    folder = os.environ.get("OUT")
    report = Report(Path(folder) / "gpu.json" if folder else None, rehearsed=stage.rehearsed)
    yield report
    if folder:
        (Path(folder) / "gpu.md").write_text(markdown(report.facts))
        return
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        print("", report.text(), markdown(report.facts), sep="\n")  # noqa: T201  what a measurement is for


@pytest.fixture(autouse=True)
def _hush() -> None:
    logs.hush()
