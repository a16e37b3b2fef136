"""The memory contract on a card: `just test-gpu`. Rehearsed on the processor: `just test-gpu --rehearse`."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pytest

from seat.errors import CapTooSmall, MemoryLimit
from seat.memory import Footprint, Governor
from seat.meter import MIB
from seat.recognizer import Recognition, Waveform
from tests.gpu.conftest import Stage
from tests.tiny import chirps

if TYPE_CHECKING:
    from seat.gpu.nemo import NemoRecognizer

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300)]

ATTEMPTS = 200
"""How often the cap is tried."""


def _load(stage: Stage, mem_cap_mib: int = 0) -> NemoRecognizer:
    from seat.gpu import nemo

    return nemo.load(
        model=str(stage.checkpoint),
        model_id="random",
        sha256=None,
        device_name=stage.device,
        dtype_name="auto",
        mem_cap_mib=mem_cap_mib,
    )


@pytest.fixture(scope="module")
def recognizer(stage: Stage) -> NemoRecognizer:
    """The model, without a cap, warm on every length."""
    loaded = _load(stage)
    for seconds in stage.lengths_s:
        loaded.recognize([_sound(seconds)])
    return loaded


def _sound(seconds: int) -> Waveform:
    return (chirps(seconds) * 32767).astype(np.int16)


def _heard(governor: Governor, recognizer: NemoRecognizer, seconds: int) -> list[Recognition]:
    return governor.run(seconds, partial(recognizer.recognize, [_sound(seconds)]))


def _measured(recognizer: NemoRecognizer, seconds: int) -> Footprint:
    governor = Governor(recognizer.meter, cap=None, returns=True)
    governor.recount()
    _heard(governor, recognizer, seconds)
    return governor.last


def test_rest_and_peak_of_every_length(
    stage: Stage, recognizer: NemoRecognizer, capsys: pytest.CaptureFixture[str]
) -> None:
    """The table for the README; what a batch took is given back."""
    rows = []
    for seconds in stage.lengths_s:
        last = _measured(recognizer, seconds)
        rows.append(f"{seconds:>5} s: rest {last.rest_after // MIB} MiB, peak {last.peak // MIB} MiB, {last.allocator}")
        assert last.rest_after - last.rest_before <= stage.noise_mib * MIB
    assert last.peak > last.rest_before
    with capsys.disabled():
        print(f"\n{recognizer.info.device_name}, {recognizer.meter.outside}", *rows, sep="\n")  # noqa: T201


def _capped(stage: Stage, recognizer: NemoRecognizer) -> tuple[Governor, int]:
    """A governor with room for the shortest length and a third of the longest, and its cap."""
    shortest, longest = stage.lengths_s[0], stage.lengths_s[-1]
    last = _measured(recognizer, longest)
    cap = last.rest_after + (last.peak - last.rest_after) // 3
    governor = Governor(recognizer.meter, cap=cap, returns=True)
    _heard(governor, recognizer, shortest)
    governor.settle(shortest)
    return governor, cap


def test_what_is_over_the_cap_is_refused_and_then_all_is_as_before(stage: Stage, recognizer: NemoRecognizer) -> None:
    """The longest length does not run; the shortest is heard as before, to the last digit."""
    shortest, longest = stage.lengths_s[0], stage.lengths_s[-1]
    governor, _ = _capped(stage, recognizer)
    before = _heard(governor, recognizer, shortest)
    with pytest.raises(MemoryLimit):
        _heard(governor, recognizer, longest)
    assert _heard(governor, recognizer, shortest) == before
    recognizer.meter.bound(None)


def test_the_allocator_itself_keeps_the_cap(stage: Stage, recognizer: NemoRecognizer) -> None:
    """Two hundred attempts without any prediction: not one MiB over, by NVML's figure where it sees us."""
    if stage.rehearsed:
        pytest.skip("resident memory has no allocator that could be bounded")
    import torch

    from seat.gpu.device import used_by_us

    _, cap = _capped(stage, recognizer)
    governor = Governor(recognizer.meter, cap=cap, returns=True)
    card = torch.device(recognizer.info.device)
    for _ in range(ATTEMPTS):
        with pytest.raises(MemoryLimit):
            _heard(governor, recognizer, stage.lengths_s[-1])
        assert governor.last.peak <= cap
        assert (used_by_us(card) or 0) <= cap
    torch.cuda.set_per_process_memory_fraction(1.0, card)


def test_our_figure_is_nvmls(stage: Stage, recognizer: NemoRecognizer) -> None:
    """Within what the driver rounds to, where NVML sees this process."""
    if stage.rehearsed:
        pytest.skip("there is no NVML on a processor")
    import torch

    from seat.gpu.device import used_by_us

    recognizer.meter.bound(None)
    reported = used_by_us(torch.device(recognizer.info.device))
    if reported is None:
        pytest.skip("NVML does not see this process: it is in a container with process numbers of its own")
    assert recognizer.meter.used() == pytest.approx(reported, abs=2 * MIB)
    block = torch.zeros(256 * MIB, dtype=torch.uint8, device=recognizer.info.device)
    assert recognizer.meter.used() == pytest.approx(used_by_us(torch.device(recognizer.info.device)) or 0, abs=4 * MIB)
    del block


def test_weights_leave_the_card_and_come_back(stage: Stage, recognizer: NemoRecognizer) -> None:
    """What stays is the context; what is heard is the same."""
    seconds = stage.lengths_s[0]
    governor = Governor(recognizer.meter, cap=None, returns=True)
    before = _heard(governor, recognizer, seconds)
    governor.recount()
    full = governor.statistics().rest
    recognizer.release()
    governor.recount()
    empty = governor.statistics().rest
    recognizer.restore()
    governor.recount()
    assert governor.statistics().rest == pytest.approx(full, abs=stage.noise_mib * MIB)
    assert _heard(governor, recognizer, seconds) == before
    if not stage.rehearsed:
        assert full - empty >= 1000 * MIB, "0.6 billion weights, most in two bytes"
        assert empty - recognizer.meter.outside.nbytes < 64 * MIB


def test_a_cap_below_the_weights_stops_the_load_and_names_one_that_would_do(stage: Stage) -> None:
    """In a process of its own: the fraction holds from before the first weight."""
    if stage.rehearsed:
        pytest.skip("resident memory has no allocator that could be bounded")
    with pytest.raises(CapTooSmall) as caught:
        _load(stage, mem_cap_mib=900)
    assert caught.value.need_mib > 1200
    import torch

    torch.cuda.set_per_process_memory_fraction(1.0)


def test_a_device_side_assert_is_known_as_fatal(stage: Stage) -> None:
    """In a process of its own, because nothing computes after it."""
    if stage.rehearsed:
        pytest.skip("a processor has no context that could break")
    code = """
import torch
from seat.faults import is_fatal, is_shortage
try:
    torch.zeros(1, device="cuda")[torch.tensor([5], device="cuda")].item()
except Exception as fault:
    print(type(fault).__name__, is_fatal(fault), is_shortage(fault))
"""
    result = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=120)
    assert result.stdout.split()[1:] == ["True", "False"]
