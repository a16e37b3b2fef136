"""Seats to talk to, as fixtures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from seat import demo
from tests.process.seats import MODEL_PATIENCE_S, ROOT, FakeSeat, Seat

CLIPS = ROOT / "seat" / "demo" / "clips"
"""Speech that comes with the bundled model."""

Start = Callable[..., FakeSeat]
"""Starts a fake seat: command-line arguments, and settings by their environment names."""


@pytest.fixture(scope="session")
def seat(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seat]:
    """An ordinary seat with the bundled model, warm."""
    with Seat(tmp_path_factory.mktemp("seat"), ["-m", "seat", "serve"], {}) as seat:
        yield seat.wait_for("/health/ready", within_s=MODEL_PATIENCE_S)


@pytest.fixture(scope="session")
def clips() -> dict[Path, str]:
    """The bundled clips and what is said in them."""
    return {clip.path: clip.text for clip in demo.clips()}


@pytest.fixture(scope="session")
def fake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeSeat]:
    """An ordinary seat with a fake model, for tests that leave no trace in it."""
    with FakeSeat(tmp_path_factory.mktemp("fake")) as fake:
        yield fake.wait_for("/health/ready")


@pytest.fixture
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Start fake seats of one's own; they end with the test."""
    with ExitStack() as stack:

        def start(*arguments: str, **environment: str) -> FakeSeat:
            return stack.enter_context(FakeSeat(tmp_path_factory.mktemp("fake"), *arguments, **environment))

        yield start
