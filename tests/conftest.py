"""Fixtures that several files share."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import soundfile

from seat.demo import clips as bundled
from seat.gpu import logs
from seat.recognizer import Waveform
from seat.resident import ResidentMeter

if TYPE_CHECKING:
    from seat.gpu.nemo import NemoRecognizer


@pytest.fixture(autouse=True)
def _hush(request: pytest.FixtureRequest) -> None:
    """Keep others' deprecation notices from failing tests of the model: pytest resets the filters for every test."""
    if request.node.get_closest_marker("model"):
        logs.hush()


@pytest.fixture
def tidy() -> None:
    """Give back what earlier tests left, so that resident memory moves only by what this one does."""
    gc.collect()
    ResidentMeter().release()


@pytest.fixture(scope="session")
def clips() -> dict[str, tuple[Waveform, str]]:
    """The bundled clips by file name: samples and what is said in them."""
    return {clip.path.name: (soundfile.read(clip.path, dtype="int16")[0], clip.text) for clip in bundled()}


@pytest.fixture(scope="session")
def load_nemo() -> Callable[..., NemoRecognizer]:
    """Load a checkpoint as the server does, on the CPU unless told otherwise; NeMo is imported once."""
    logs.hush()
    from seat.gpu import nemo

    def load(model: str = "demo", *, dtype: str = "auto", device: str = "cpu", **options: Any) -> NemoRecognizer:
        return nemo.load(
            model=model,
            model_id="test",
            sha256=None,
            device_name=device,
            dtype_name=dtype,
            options=nemo.Options(**options),
        )

    return load


@pytest.fixture(scope="session")
def demo(load_nemo: Callable[..., NemoRecognizer]) -> NemoRecognizer:
    """The bundled model."""
    return load_nemo()


@pytest.fixture(scope="session")
def noise() -> Waveform:
    """Three seconds of white noise, quieter than speech."""
    return np.random.default_rng(3).normal(0, 600, 48_000).astype(np.int16)
