"""Work under a memory cap: exact on a card that is counted, and for real on this process's resident memory."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seat.caps import cap_nbytes, no_room_for_weights, recommended_mib
from seat.errors import CapTooSmall, ExceedsMemory, MemoryLimit
from seat.memory import (
    REMEASURED_EVERY,
    Costs,
    Footprint,
    Governor,
    Returns,
)
from seat.meter import MIB, Allocator, Meter, Outside
from seat.recognizer import SAMPLE_RATE, Recognition, Waveform
from seat.resident import ResidentMeter
from tests.fakes import FakeMeter, FakeRecognizer, Hunger, hear, padded_s, speech

if TYPE_CHECKING:
    from seat.gpu.nemo import NemoRecognizer

NOISE_MIB = 12
"""By how much two readings of a process at rest may differ: the kernel counts in batches, threads have arenas."""


def _governor(
    meter: Meter,
    *,
    cap_mib: int | None = None,
    mib_per_s: float = 2,
    longest_s: float = 16,
    returns: Returns = "always",
) -> Governor:
    """Warmed up on the longest window and settled; its costs are as told."""
    governor = Governor(meter, cap=None if cap_mib is None else cap_mib * MIB, returns=returns)
    _run(governor, FakeRecognizer(before=_hunger(meter, mib_per_s), meter=meter), [_silence(longest_s)])
    governor.settle(longest_s)
    return governor


def _hunger(meter: Meter, mib_per_s: float) -> Callable[[Sequence[Waveform]], None]:
    return meter.hunger(mib_per_s) if isinstance(meter, FakeMeter) else Hunger(mib_per_s)


def _silence(seconds: float) -> Waveform:
    return np.zeros(round(seconds * SAMPLE_RATE), np.int16)


def _run(governor: Governor, recognizer: FakeRecognizer, waveforms: Sequence[Waveform]) -> list[Recognition]:
    return governor.run(padded_s(waveforms), partial(recognizer.recognize, waveforms))


@pytest.mark.parametrize(
    "asked_mib, device, expected",
    [
        (None, "cuda:0", 3840 * MIB),
        (None, "cpu", None),
        (2000, "cuda:0", 2000 * MIB),
        (900, "cpu", 900 * MIB),
        (0, "cuda:0", None),
        (0, "cpu", None),
    ],
)
def test_the_cap_has_a_default_on_a_card_only(asked_mib: int | None, device: str, expected: int | None) -> None:
    """And zero is none."""
    assert cap_nbytes(asked_mib, device) == expected


def test_a_batch_has_a_footprint() -> None:
    """Rest before, peak, rest after, and what the allocator held; the unused part is given back."""
    meter = FakeMeter(reserved_mib=100, outside_mib=50)
    governor = _governor(meter)
    _run(governor, FakeRecognizer(before=meter.hunger(3)), [_silence(10)])
    held = Allocator(reserved=130 * MIB, allocated=130 * MIB)
    assert governor.last == Footprint(rest_before=150 * MIB, peak=180 * MIB, rest_after=150 * MIB, allocator=held)
    assert governor.statistics().peak == 182 * MIB
    assert governor.statistics().outside == Outside(nbytes=50 * MIB, source="nvml")


def test_nothing_is_given_back_where_that_is_forbidden() -> None:
    """A graph that was captured keeps its addresses."""
    meter = FakeMeter()
    governor = _governor(meter, returns="never")
    _run(governor, FakeRecognizer(before=meter.hunger(1)), [_silence(4)])
    assert meter.releases == 0
    assert governor.last.rest_after == (150 + 32) * MIB


@pytest.mark.parametrize("returns", ["never", "when short"])
def test_what_is_kept_serves_again(returns: Returns) -> None:
    """A batch that takes all the room there is does not keep out those that fit into what it leaves."""
    meter = FakeMeter()
    governor = _governor(meter, cap_mib=200, mib_per_s=2, longest_s=20, returns=returns)
    recognizer = FakeRecognizer(before=meter.hunger(2), meter=meter)
    assert governor.fits(25)
    for seconds in (25, *[20, 8, 1] * 10, 25):
        _run(governor, recognizer, [_silence(seconds)])
    assert governor.fits(25)
    assert not governor.fits(30)
    assert (meter.reserved, governor.statistics().refusals) == (150 * MIB, 0)


@pytest.mark.parametrize("returns, releases", [("never", 0), ("when short", 1)])
def test_what_is_kept_is_given_back_once_it_is_in_the_way(returns: Returns, releases: int) -> None:
    """Blocks of other sizes may be of no use to a call; a second try then finds them gone. A graph never loses any."""
    meter = FakeMeter()
    governor = _governor(meter, cap_mib=200, returns=returns)
    before = meter.releases
    with pytest.raises(MemoryLimit):
        governor.run(1, partial(meter.hunger(1000), [_silence(1)]))
    assert meter.releases - before == releases


def test_what_moved_is_given_back_however_seldom_that_is_done() -> None:
    """Weights that left the card are of no use to neighbours while the allocator keeps their blocks."""
    meter = FakeMeter()
    governor = _governor(meter, returns="when short")
    meter.allocated = 10 * MIB
    governor.recount()
    assert governor.statistics().rest == 60 * MIB


def test_a_failed_allocation_is_a_memory_limit_and_leaves_nothing_behind() -> None:
    """The tensors of the failed call hang on its frames; they are gone before unused memory is given back."""
    meter = FakeMeter()
    governor = _governor(meter, cap_mib=200)
    kept: list[object] = []

    class Tensor:
        def __del__(self) -> None:
            kept.append(meter.releases)

    def fail() -> None:
        tensor = Tensor()
        meter.hunger(1000)([_silence(1)])
        del tensor

    before = meter.releases
    with pytest.raises(MemoryLimit) as caught:
        governor.run(1, fail)
    assert kept == [before]
    assert meter.releases == before + 1
    assert "out of memory" in str(caught.value.__cause__)
    assert (governor.statistics().refusals, governor.last.rest_after) == (1, 150 * MIB)


def test_any_other_fault_passes_as_it_is() -> None:
    """It is not about memory."""
    governor = _governor(FakeMeter(), cap_mib=200)
    with pytest.raises(ZeroDivisionError):
        governor.run(1, lambda: 1 // 0)
    assert governor.statistics().refusals == 0


def test_after_a_fatal_fault_the_device_is_not_touched() -> None:
    """Giving back memory would raise again, over the first fault."""
    meter = FakeMeter()
    governor = _governor(meter)
    before = meter.releases

    def fail() -> None:
        message = "CUDA error: an illegal memory access was encountered"
        raise RuntimeError(message)

    with pytest.raises(RuntimeError, match="illegal"):
        governor.run(1, fail)
    assert meter.releases == before


def test_what_is_predicted_not_to_fit_does_not_run() -> None:
    """Rest 150 MiB, 2 MiB a second: under 190 MiB run 20 seconds, and no more."""
    recognizer = FakeRecognizer(meter=FakeMeter())
    governor = _governor(recognizer.meter, cap_mib=190)
    assert [governor.fits(seconds) for seconds in (1, 19.9, 20, 20.1, 100)] == [True, True, True, False, False]
    with pytest.raises(MemoryLimit):
        _run(governor, recognizer, [_silence(11), _silence(9)])
    assert recognizer.batches == []
    _run(governor, recognizer, [_silence(10), _silence(9)])
    assert len(recognizer.batches) == 1


def test_without_a_cap_everything_fits() -> None:
    """And is measured all the same."""
    governor = _governor(FakeMeter())
    assert governor.fits(1e9)
    governor.admit(1e9)


def test_what_can_never_fit_is_told_apart_from_what_does_not_fit_now() -> None:
    """What the warm-up ran is always let in; longer windows as far as the cap has room for them."""
    governor = _governor(FakeMeter(), cap_mib=190)
    for seconds in (1, 16, 20):
        governor.admit(seconds)
    with pytest.raises(ExceedsMemory) as caught:
        governor.admit(30)
    assert "30 seconds at once takes 60 MiB" in str(caught.value)
    assert "leaves 40 MiB" in str(caught.value)


def test_a_cap_below_need_is_refused_with_the_figure_that_would_do() -> None:
    """150 MiB at rest and 32 for the longest window; the next multiple of 64 above that, 2 % and 64 MiB is 256."""
    with pytest.raises(CapTooSmall) as caught:
        _governor(FakeMeter(), cap_mib=182 - 1)
    assert caught.value.need_mib == 256
    assert str(caught.value) == (
        "SEAT_MEM_CAP_MIB=181 cannot hold the model at work on 16 seconds of audio; 256 would do."
    )
    assert _governor(FakeMeter(), cap_mib=256).statistics().cap == 256 * MIB


def test_where_the_warm_up_itself_runs_out_the_need_is_estimated() -> None:
    """From what was measured on shorter lengths, and at least from what a large model takes."""
    meter = FakeMeter()
    governor = Governor(meter, cap=160 * MIB, returns="always")
    meter.bound(160 * MIB)
    with pytest.raises(MemoryLimit):
        _run(governor, FakeRecognizer(before=meter.hunger(20), meter=meter), [_silence(1)])
    assert governor.shortfall(45).need_mib == recommended_mib((150 + 8 * 45) * MIB)


def test_weights_that_do_not_fit_have_a_figure_too() -> None:
    """What they take, what lies outside the allocator, and a minute of audio."""
    fault = no_room_for_weights(FakeMeter(outside_mib=400), 1000 * MIB, 1200 * MIB)
    assert str(fault) == "SEAT_MEM_CAP_MIB=1000 cannot hold the model's weights; 2240 would do."


@pytest.mark.parametrize("cap_mib", [None, 3840])
def test_a_card_that_others_fill_is_told_from_a_cap_that_is_too_small(cap_mib: int | None) -> None:
    """The nearer bound is named: no larger cap would help."""
    meter = FakeMeter(reserved_mib=1200, outside_mib=400)
    meter.free_nbytes = 300 * MIB
    governor = Governor(meter, cap=cap_mib and cap_mib * MIB, returns="always")
    sentences = [str(governor.shortfall(45)), str(no_room_for_weights(meter, cap_mib and cap_mib * MIB, 2400 * MIB))]
    assert [sentence.split(":")[0].split(". ")[0] for sentence in sentences] == [
        "The card has 300 MiB free, and the model at work on 45 seconds of audio takes about 360 MiB more",
        "The card has 300 MiB free, and the model's weights takes about 1680 MiB more",
    ]


def test_what_lies_outside_is_measured_again_now_and_then() -> None:
    """Kernels are loaded when they are first used, and weights move."""
    meter = FakeMeter()
    governor = Governor(meter, cap=None, returns="always")
    for _ in range(REMEASURED_EVERY):
        governor.run(1, lambda: None)
    assert meter.remeasured == 1
    governor.recount()
    assert meter.remeasured == 2


@given(st.lists(st.tuples(st.floats(1, 500), st.integers(0, 2**32)), min_size=1, max_size=30))
def test_a_cost_that_was_seen_is_never_predicted_lower_at_once(seen: list[tuple[float, int]]) -> None:
    """Right after a batch, the same batch is predicted to take at least as much."""
    costs = Costs()
    assert costs.predict(10) == 0
    for seconds, nbytes in seen:
        costs.observe(seconds, nbytes)
        assert costs.predict(seconds) >= nbytes * (1 - 1e-9)


def test_costs_are_corrected_up_at_once_and_down_slowly() -> None:
    """A tenth of the way; lengths of another power of two keep their own figure."""
    costs = Costs()
    costs.observe(10, 100)
    costs.observe(40, 800)
    assert (costs.predict(10), costs.predict(40), costs.predict(400)) == (100, 800, 8000)
    costs.observe(10, 50)
    assert (costs.predict(10), costs.predict(40)) == (pytest.approx(95), 800)
    costs.observe(10, 120)
    assert costs.predict(10) == pytest.approx(120)


def test_one_odd_reading_does_not_refuse_for_ever() -> None:
    """A refusal measures nothing, so each brings the prediction half-way back to the warm-up's."""
    meter = FakeMeter()
    governor = _governor(meter, cap_mib=190)
    meter.bound(None)
    with pytest.raises(MemoryLimit):
        _run(governor, FakeRecognizer(before=meter.hunger(10)), [_silence(16)])
    meter.bound(190 * MIB)
    recognizer = FakeRecognizer(before=meter.hunger(2))
    refused = 0
    while not recognizer.batches:
        try:
            _run(governor, recognizer, [_silence(16)])
        except MemoryLimit:
            refused += 1
    assert 1 <= refused <= 5


@pytest.mark.usefixtures("tidy")
def test_the_peak_of_resident_memory_is_seen_and_the_rest_regained() -> None:
    """200 MiB that live for a moment are in the peak, and not in the rest."""
    meter = ResidentMeter()
    governor = _governor(meter)
    _run(governor, FakeRecognizer(before=Hunger(20)), [_silence(10)])
    last = governor.last
    assert last.peak - last.rest_before == pytest.approx(200 * MIB, abs=NOISE_MIB * MIB)
    assert last.rest_after == pytest.approx(last.rest_before, abs=NOISE_MIB * MIB)
    _run(governor, FakeRecognizer(before=Hunger(2)), [_silence(10)])
    assert governor.last.peak - governor.last.rest_before == pytest.approx(20 * MIB, abs=NOISE_MIB * MIB)


@pytest.mark.usefixtures("tidy")
def test_scattered_free_memory_is_given_back() -> None:
    """Every second of 4,000 small blocks is freed: the C library keeps their pages until it is told not to."""
    meter = ResidentMeter()
    blocks = [np.ones(60_000, np.uint8) for _ in range(4000)]
    full = meter.used()
    del blocks[1::2]
    meter.release()
    assert full - meter.used() == pytest.approx(2000 * 60_000, rel=0.2)
    assert len(blocks) == 2000


@pytest.mark.usefixtures("tidy")
def test_resident_memory_over_the_cap_is_refused_and_the_seat_lives() -> None:
    """A batch that takes more than it may is not answered; an earlier one is answered as before."""
    meter = ResidentMeter()
    clip = speech([4, 2])
    governor = _governor(meter, cap_mib=meter.used() // MIB + 150)
    calm, hungry = FakeRecognizer(before=Hunger(2)), FakeRecognizer(before=Hunger(20))
    (before,) = _run(governor, calm, [clip])
    for _ in range(2):
        with pytest.raises(MemoryLimit):
            _run(governor, hungry, [_silence(16)])
    assert len(hungry.batches) == 1, "the second time it was predicted"
    assert _run(governor, calm, [clip]) == [before] == [hear(clip)]
    assert governor.statistics().refusals == 2


@pytest.mark.usefixtures("tidy")
def test_what_hangs_in_circles_is_reclaimed_before_anything_is_refused() -> None:
    """A request that failed keeps its audio alive by its error's traceback until the collector comes by."""
    meter = ResidentMeter()
    recognizer = FakeRecognizer(before=Hunger(1))
    governor = _governor(meter, cap_mib=meter.used() // MIB + 90, mib_per_s=1)
    gc.disable()
    try:
        circle: list[object] = [np.ones(80 * MIB, np.uint8)]
        circle.append(circle)
        del circle
        _run(governor, recognizer, [_silence(16)])
    finally:
        gc.enable()
    assert governor.statistics().refusals == 0


@pytest.mark.model
@pytest.mark.usefixtures("tidy")
def test_the_demo_model_under_a_cap_below_need(demo: NemoRecognizer, clips: dict[str, tuple[Waveform, str]]) -> None:
    """Peak seen, rest regained; five minutes at once do not fit, and then a clip has the words it had before."""
    clip = next(iter(clips.values()))[0]
    demo.recognize([np.tile(clip, 4)])  # what is touched for the first time stays
    governor = Governor(demo.meter, cap=None, returns="always")
    (before,) = governor.run(len(clip) / SAMPLE_RATE, partial(demo.recognize, [clip]))
    long = np.resize(clip, 300 * SAMPLE_RATE)
    governor.run(300, partial(demo.recognize, [long]))
    peak = governor.last.peak - governor.last.rest_before
    assert peak > 40 * MIB
    assert governor.last.rest_after - governor.last.rest_before < max(NOISE_MIB * MIB, peak // 4)

    cap = governor.last.rest_after + peak // 3
    governor = Governor(demo.meter, cap=cap, returns="always")
    governor.run(len(clip) / SAMPLE_RATE, partial(demo.recognize, [clip]))
    governor.settle(len(clip) / SAMPLE_RATE)
    with pytest.raises(MemoryLimit):
        governor.run(300, partial(demo.recognize, [long]))
    (after,) = governor.run(len(clip) / SAMPLE_RATE, partial(demo.recognize, [clip]))
    assert after == before
