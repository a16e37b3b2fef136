"""A model's tensors leave the device and come back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from seat.meter import MIB
from seat.recognizer import Waveform
from seat.resident import ResidentMeter
from tests.tiny import build, chirps

if TYPE_CHECKING:
    from seat.gpu.nemo import NemoRecognizer

pytestmark = pytest.mark.model


@pytest.mark.usefixtures("tidy")
def test_resident_memory_falls_by_the_weights_and_rises_again() -> None:
    """64 MiB of numbers in a layer, a recurrent layer beside it, and a tensor that another module shares."""
    import torch

    from seat.gpu.residence import Residence

    recurrent = torch.nn.LSTM(64, 64)
    model = torch.nn.ModuleList([torch.nn.Linear(4096, 4096), recurrent])
    shared = torch.nn.Linear(4096, 4096)
    shared.weight = model[0].weight
    model.requires_grad_(requires_grad=False)
    sound, sample = torch.ones(1, 4096), torch.ones(2, 1, 64)
    before = [model[0](sound), recurrent(sample)[0], shared(sound)]
    residence, meter = Residence(model, torch.device("cpu")), ResidentMeter()
    for _ in range(2):
        meter.release()
        full = meter.used()
        residence.leave()
        meter.release()
        empty = meter.used()
        residence.come_back()
        again = meter.used()
        assert full - empty == pytest.approx(64 * MIB, abs=12 * MIB)
        assert again - empty == pytest.approx(64 * MIB, abs=12 * MIB)
    after = [model[0](sound), recurrent(sample)[0], shared(sound)]
    assert shared.weight is model[0].weight
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))


def test_the_demo_model_hears_the_same_after_its_weights_have_come_back(
    demo: NemoRecognizer, clips: dict[str, tuple[Waveform, str]]
) -> None:
    """Every number of it, a second time too."""
    waveform = next(iter(clips.values()))[0]
    before = demo.recognize([waveform])
    for _ in range(2):
        demo.release()
        demo.restore()
        assert demo.recognize([waveform]) == before


def test_what_cannot_be_moved_leaves_all_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last tensor refuses; the others, moved by then, come back."""
    import torch

    from seat.gpu.residence import Residence

    model = torch.nn.Linear(8, 8).requires_grad_(requires_grad=False)
    sound = torch.ones(1, 8)
    before = model(sound)
    residence = Residence(model, torch.device("cpu"))
    away = [*residence._mapped([model.weight]), torch.zeros(1).to_sparse()]
    monkeypatch.setattr(residence, "_mapped", lambda _tensors: away)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="incompatible tensor type"):
            residence.leave()
        assert model.weight.data_ptr() != away[0].data_ptr()
        assert torch.equal(model(sound), before)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_number_types_stay(load_nemo: Callable[..., NemoRecognizer], tmp_path: Path, dtype: str) -> None:
    """Also of an encoder in another type than the rest, with both kinds of attention at hand."""
    recognizer = load_nemo(str(build(tmp_path, "tdt")), dtype=dtype, attention="auto", auto_attention_s=2)
    waveforms = [(chirps(seconds) * 32767).astype(np.int16) for seconds in (1, 5)]
    before = [recognizer.recognize([waveform]) for waveform in waveforms]
    recognizer.release()
    recognizer.restore()
    assert [recognizer.attention(len(waveform)) for waveform in waveforms] == ["full", "local"]
    assert [recognizer.recognize([waveform]) for waveform in waveforms] == before
    assert recognizer.info.dtype == dtype
