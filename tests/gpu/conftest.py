"""A model on the card; or, with `--rehearse`, a tiny one on the processor, so that the first run is not the first."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from seat.gpu import logs
from tests.tiny import LARGE, build


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
        return Stage(device="cuda", checkpoint=large, lengths_s=(30, 60, 120, 360), noise_mib=2)
    if not request.config.getoption("--rehearse"):
        pytest.skip("no CUDA card is here")
    return Stage(device="cpu", checkpoint=build(folder, "rnnt"), lengths_s=(2, 8, 30, 120), noise_mib=24)


@pytest.fixture(autouse=True)
def _hush() -> None:
    logs.hush()
