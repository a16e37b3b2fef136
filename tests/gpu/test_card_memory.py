"""The memory contract and latency on a card: `just test-gpu`; rehearsed on a processor: `just test-gpu --rehearse`."""

from __future__ import annotations

import asyncio
import functools
import gc
import json
import statistics
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from seat import settings
from seat.errors import CapTooSmall, InvalidSettings, MemoryLimit
from seat.memory import Footprint, Governor
from seat.meter import MIB
from seat.recognizer import SAMPLE_RATE, Chunk, Recognition, Waveform
from seat.service import State
from tests.gpu.alone import CUT, OPTIONS, clip
from tests.gpu.conftest import Stage
from tests.gpu.report import Report
from tests.tiny import chirps

if TYPE_CHECKING:
    from seat.gpu.attention import Attention
    from seat.gpu.nemo import NemoRecognizer

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.timeout(240),
    pytest.mark.filterwarnings("default"),  # of a machine whose torch is not the one that the seat asks for
]

ROOT = Path(__file__).parent.parent.parent

ATTEMPTS = 200
"""How often the cap is tried."""

CLIENTS = 8
"""Requests that are sent at once while there is no room."""

CLIP_S = 10
"""Seconds that a client sends: one window."""

WINDOWS = {"window_s": 10, "window_context_s": "4,2", "warmup_seconds": "1,8"}
"""Windows of a seat under a cap that leaves 0.6 billion weights little."""

LEFT_MIB = 8
"""MiB that are left of the cap when there is to be no room for a window of `CLIP_S`."""

REPEATS = 5
"""How often decoding is timed; the median counts."""

WATCH_S = 0.005
"""Seconds between two readings of NVML while attempts run."""


def _load(stage: Stage, mem_cap_mib: int = 0, **options: Any) -> NemoRecognizer:
    from seat.gpu import nemo

    return nemo.load(
        model=str(stage.checkpoint),
        model_id="random",
        sha256=None,
        device_name=stage.device,
        dtype_name="auto",
        mem_cap_mib=mem_cap_mib,
        options=nemo.Options(**options),
    )


def _unbound(stage: Stage) -> None:
    """Let the allocator have the whole card again, and nothing in it that nobody uses."""
    gc.collect()
    if not stage.rehearsed:
        import torch

        torch.cuda.empty_cache()
        torch.cuda.set_per_process_memory_fraction(1.0)


@contextmanager
def _watched(stage: Stage) -> Iterator[list[int]]:
    """NVML's bytes for this process, read all the time by another thread; none where it does not see it."""
    seen: list[int] = []
    done = threading.Event()

    def watch() -> None:
        while not done.wait(WATCH_S):
            if reading := _by_nvml(stage):
                seen.append(reading)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        done.set()
        thread.join()


def _by_nvml(stage: Stage) -> int | None:
    """NVML's bytes for this process; None where it does not see it, or there is no card."""
    if stage.rehearsed:
        return None
    import torch

    from seat.gpu.device import used_by_us

    return used_by_us(torch.device("cuda", torch.cuda.current_device()))


@asynccontextmanager
async def _served(stage: Stage, cap_mib: int) -> AsyncIterator[tuple[Any, Any]]:
    """A whole seat, but for the socket: a client and the service."""
    from litestar.testing import AsyncTestClient

    from seat.app import build_app
    from seat.serve import load_nemo

    failures: list[BaseException] = []
    chosen = settings.read({}, model=str(stage.checkpoint), device=stage.device, mem_cap_mib=cap_mib, **WINDOWS)
    app, service = build_app(chosen, functools.partial(load_nemo, chosen), failures.append)
    async with AsyncTestClient(app) as client:
        while service.state is State.LOADING:  # on the client's own loop, so that its end cannot be waited for
            await asyncio.sleep(0.05)
        if failures:
            raise failures[0]
        yield client, service


async def _sent(client: Any) -> tuple[int, dict[str, Any], Any]:
    answer = await client.post(
        "/v1/audio/transcriptions",
        data={
            "model": "whisper-1",
            "response_format": "verbose_json",
            "timestamp_granularities[]": ["word", "segment"],
        },
        files={"file": ("clip.wav", clip(CLIP_S))},
    )
    return answer.status_code, answer.json(), answer.headers.get("retry-after")


def _ballast(stage: Stage, room: int) -> Any:
    """Something that takes nearly all the room there is; all of it and more where nothing bounds a process."""
    if stage.rehearsed:
        return np.ones(room + 64 * MIB, np.uint8)
    import torch

    return torch.ones(max(0, room - LEFT_MIB * MIB), dtype=torch.uint8, device=stage.device)


async def _cap_that_holds(stage: Stage) -> int:
    """The cap to keep to: the stage's, or what a seat without one took at most, and some more."""
    if stage.cap_mib is not None:
        return stage.cap_mib
    async with _served(stage, 0) as (client, service):
        await _sent(client)
        return int(service.statistics().memory.peak // MIB) + 64


async def test_a_seat_without_room_answers_503_and_then_as_before(stage: Stage, report: Report) -> None:
    """Every client is told when to come back, the process stays under its cap, and no word or time has changed."""
    async with _held_to(stage, await _cap_that_holds(stage)) as (client, service, cap_mib, refusal):
        status, before, _ = await _sent(client)
        assert (status, bool(before["words"])) == (200, True)
        room = service.statistics().memory
        ballast = _ballast(stage, room.cap - room.rest)
        answers = await asyncio.gather(*(_sent(client) for _ in range(CLIENTS)))
        used = _by_nvml(stage)
        del ballast
        again = await _sent(client)
        memory = service.statistics().memory
    report.record(
        "cap",
        {
            "cap_mib": cap_mib,
            "refused_at_start": refusal,
            "statuses": [status for status, _, _ in answers],
            "nvml_mib_then": used and round(used / MIB),
            "peak_mib": memory.peak // MIB,
            "same_transcript": again[:2] == (200, before),
        },
    )
    assert [(status, body["error"]["code"]) for status, body, _ in answers] == [(503, "gpu_memory_limit")] * CLIENTS
    assert all(int(retry_after) > 0 for _, _, retry_after in answers)
    assert again[:2] == (200, before)
    if not stage.rehearsed:
        assert memory.peak <= memory.cap
        assert (used or 0) <= memory.cap


@asynccontextmanager
async def _held_to(stage: Stage, cap_mib: int) -> AsyncIterator[tuple[Any, Any, int, str | None]]:
    """A seat under the cap, or, where it refuses to start, under the one that it asks for."""
    refusal = None
    try:
        for _ in range(2):
            try:
                async with _served(stage, cap_mib) as (client, service):
                    yield client, service, cap_mib, refusal
                    return
            except CapTooSmall as fault:
                cap_mib, refusal = fault.need_mib, str(fault)
                _unbound(stage)
    finally:
        _unbound(stage)


@pytest.fixture(scope="module")
def recognizer(stage: Stage) -> Iterator[NemoRecognizer]:
    """The model, without a cap, warm on every length, out of the collector's sight as in a server."""
    loaded = _load(stage)
    for seconds in stage.lengths_s:
        loaded.recognize([_sound(seconds)])
    gc.collect()
    gc.freeze()
    yield loaded
    gc.unfreeze()


@functools.cache
def _sound(seconds: int) -> Waveform:
    return (chirps(seconds) * 32767).astype(np.int16)


def _heard(governor: Governor, recognizer: NemoRecognizer, seconds: int) -> list[Recognition]:
    return governor.run(seconds, functools.partial(recognizer.recognize, [_sound(seconds)]))


def _measured(recognizer: NemoRecognizer, seconds: int) -> Footprint:
    governor = Governor(recognizer.meter, cap=None, returns="always")
    governor.recount()
    _heard(governor, recognizer, seconds)
    return governor.last


def test_rest_and_peak_of_every_length(stage: Stage, recognizer: NemoRecognizer, report: Report) -> None:
    """What a batch took is given back."""
    recognizer.meter.bound(None)
    report.record(
        "where",
        {
            "device": recognizer.info.device_name,
            "dtype": recognizer.info.dtype,
            "parameters": recognizer.info.parameters,
            "versions": recognizer.info.versions,
            "outside_mib": recognizer.meter.outside.nbytes // MIB,
            "outside_source": recognizer.meter.outside.source,
        },
    )
    rows, kept = [], []
    for seconds in stage.lengths_s:
        last = _measured(recognizer, seconds)
        kept.append(last.rest_after - last.rest_before)
        rows.append(
            {
                "window_s": seconds,
                "rest_mib": round(last.rest_after / MIB),
                "peak_mib": round(last.peak / MIB),
                "reserved_mib": last.allocator and round(last.allocator.reserved / MIB),
                "allocated_mib": last.allocator and round(last.allocator.allocated / MIB),
            }
        )
    report.record("memory", rows)
    assert max(kept) <= stage.noise_mib * MIB
    assert last.peak > last.rest_before


def _capped(stage: Stage, recognizer: NemoRecognizer) -> tuple[Governor, int]:
    """A governor with room for the shortest length and a third of the longest, and its cap."""
    shortest, longest = stage.lengths_s[0], stage.lengths_s[-1]
    last = _measured(recognizer, longest)
    cap = last.rest_after + (last.peak - last.rest_after) // 3
    governor = Governor(recognizer.meter, cap=cap, returns="always")
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
    _unbound(stage)


def test_two_hundred_attempts_do_not_pass_the_cap(stage: Stage, recognizer: NemoRecognizer, report: Report) -> None:
    """Not one MiB over, by NVML's figure where it sees us, and what is heard then is what was heard before.

    On a card nothing is predicted, so the allocator itself must refuse. Nothing but prediction bounds a processor's
    memory: there the attempts are refused before they begin.
    """
    settled, cap = _capped(stage, recognizer)
    governor = settled if stage.rehearsed else Governor(recognizer.meter, cap=cap, returns="always")
    before = _heard(settled, recognizer, stage.lengths_s[0])
    highest, refused = 0, 0
    with _watched(stage) as by_nvml:
        for _ in range(ATTEMPTS):
            try:
                _heard(governor, recognizer, stage.lengths_s[-1])
            except MemoryLimit:
                refused += 1
            highest = max(highest, governor.last.peak)
    again = _heard(settled, recognizer, stage.lengths_s[0])
    _unbound(stage)
    over_mib = max(0, highest - cap, *(reading - cap for reading in by_nvml)) / MIB
    facts = {"attempts": ATTEMPTS, "refused": refused, "over_mib": round(over_mib, 3), "nvml_readings": len(by_nvml)}
    report.record("attempts", facts | {"cap_mib": round(cap / MIB), "same_again": again == before})
    if not stage.rehearsed:
        assert (refused, over_mib) == (ATTEMPTS, 0)
    else:
        assert refused > 0
    assert again == before


def test_our_figure_is_nvmls(stage: Stage, recognizer: NemoRecognizer, report: Report) -> None:
    """Within what the driver rounds to, where NVML sees this process."""
    recognizer.meter.bound(None)
    reported = _by_nvml(stage)
    ours = recognizer.meter.used()
    report.record("nvml", {"nvml_mib": reported and round(reported / MIB), "ours_mib": round(ours / MIB)})
    if reported is None:
        pytest.skip("NVML does not see this process: no card, or a container with process numbers of its own")
    import torch

    assert ours == pytest.approx(reported, abs=2 * MIB)
    block = torch.zeros(256 * MIB, dtype=torch.uint8, device=recognizer.info.device)
    assert recognizer.meter.used() == pytest.approx(_by_nvml(stage) or 0, abs=4 * MIB)
    del block


def test_plans_of_fourier_transforms_do_not_pile_up(stage: Stage, recognizer: NemoRecognizer, report: Report) -> None:
    """Every width of a batch needs a plan, and what plans take lies outside the allocator, where no fraction holds."""
    import torch

    from seat.gpu.device import MOST_FFT_PLANS

    before = _by_nvml(stage)
    sound = _sound(20)
    widths = range(SAMPLE_RATE, len(sound), SAMPLE_RATE // 2)
    for width in widths:
        recognizer.recognize([sound[:width]])
    if not stage.rehearsed:
        plans = torch.backends.cuda.cufft_plan_cache[torch.device(recognizer.info.device).index]
        grown = (_by_nvml(stage) or 0) - (before or 0) if before else None
        report.record(
            "fourier_plans", {"widths": len(widths), "plans": plans.size, "grown_mib": grown and grown // MIB}
        )
        assert plans.size <= MOST_FFT_PLANS < len(widths)


def test_a_card_is_waited_for_twice_a_batch(stage: Stage, recognizer: NemoRecognizer, report: Report) -> None:
    """Once with a step of the decoder in line behind, once for what was heard; also where chunks are heard ahead.

    And no token differs from those of NeMo's own decoder.
    """
    import torch

    sound = _sound(stage.lengths_s[0])
    chunks = [Chunk(waveform=sound, first=0, stop=CUT, ahead=True)] * 2
    recognizer.recognize([sound, sound])
    recognizer.proceed(chunks)
    with _waits(stage) as waits:
        heard, _ = recognizer.recognize([sound, sound])
    with _waits(stage) as waits_of_chunks:
        recognizer.proceed(chunks)
    with torch.inference_mode():
        encoded, lengths = recognizer._encode([sound])
        ours_ms = _took_ms(stage, lambda: recognizer._decode(encoded, lengths, [None]))
        nemos_ms = _took_ms(stage, lambda: recognizer._computer(x=encoded, out_len=lengths, prev_batched_state=None))
        found, _ = recognizer._computer(x=encoded, out_len=lengths, prev_batched_state=None)
        steps = recognizer._decode(encoded, lengths, [None])[0].shape[1]
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(torch.cuda.Event, "query", lambda event: event.synchronize() is None)
            needed = recognizer._decode(encoded, lengths, [None])[0].shape[1]
    tokens = found.transcript[0, : found.current_lengths[0]].tolist()
    report.record(
        "decoding",
        {
            "waits": waits,
            "waits_of_chunks": waits_of_chunks,
            "steps": steps,
            "steps_in_vain": steps - needed,
            "ours_ms": ours_ms,
            "nemos_ms": nemos_ms,
            "tokens": len(tokens),
        },
    )
    assert list(heard.tokens) == tokens
    assert len(waits) <= 2
    assert len(waits_of_chunks) <= 2


@contextmanager
def _waits(stage: Stage) -> Iterator[list[str]]:
    """Note what the host waits for a card with: what torch warns of, and its events, of which it does not."""
    import torch

    waits: list[str] = []
    synchronize = torch.cuda.Event.synchronize

    def note(event: torch.cuda.Event) -> None:
        waits.append("event")
        synchronize(event)

    with warnings.catch_warnings(record=True) as said, pytest.MonkeyPatch.context() as patched:
        warnings.simplefilter("always")
        patched.setattr(torch.cuda.Event, "synchronize", note)
        if not stage.rehearsed:
            torch.cuda.set_sync_debug_mode("warn")
        try:
            yield waits
        finally:
            if not stage.rehearsed:
                torch.cuda.set_sync_debug_mode("default")
    waits += [str(warning.message) for warning in said if "synchroniz" in str(warning.message)]


def _took_ms(stage: Stage, call: Callable[[], object]) -> float:
    """The median of a few, to the end of what it gave the device to do."""
    took: list[float] = []
    for _ in range(REPEATS):
        began_at = time.perf_counter()
        call()
        if not stage.rehearsed:
            import torch

            torch.cuda.synchronize()
        took.append((time.perf_counter() - began_at) * 1e3)
    return round(statistics.median(took), 2)


def test_weights_leave_the_card_and_come_back(stage: Stage, recognizer: NemoRecognizer, report: Report) -> None:
    """What stays is the context; what is heard is the same."""
    seconds = stage.lengths_s[0]
    governor = Governor(recognizer.meter, cap=None, returns="always")
    before = _heard(governor, recognizer, seconds)
    rests = {}
    for state, move in (("full", governor.recount), ("away", recognizer.release), ("back", recognizer.restore)):
        move()
        governor.recount()
        rests[state] = governor.statistics().rest
    report.record("weights", {state: round(rest / MIB) for state, rest in rests.items()})
    assert rests["back"] == pytest.approx(rests["full"], abs=stage.noise_mib * MIB)
    assert _heard(governor, recognizer, seconds) == before
    if not stage.rehearsed:
        assert rests["full"] - rests["away"] >= 1000 * MIB, "0.6 billion weights, most in two bytes"
        assert rests["away"] - recognizer.meter.outside.nbytes < 64 * MIB


def test_the_switch_of_attention_leaves_bfloat16_as_it_was(stage: Stage, report: Report) -> None:
    """NeMo's own leaves float32 modules, in training mode. Full, local, full again: the same to the last digit."""
    import torch

    mode: Attention = "auto"
    switching = _load(stage, attention=mode, auto_attention_s=stage.lengths_s[0])
    dtype = torch.float32 if stage.rehearsed else torch.bfloat16
    before = switching.recognize([_sound(stage.lengths_s[0])])
    local = switching.recognize([_sound(stage.lengths_s[1])])
    encoder = switching._model.encoder
    kinds = {encoder.self_attention_model, type(encoder.layers[0].self_attn).__name__}
    dtypes = {str(tensor.dtype) for tensor in (*encoder.parameters(), encoder.pos_enc.pe)}
    training = any(module.training for module in switching._model.modules())
    report.record("attention", {"dtypes": sorted(dtypes), "kinds": sorted(kinds), "training": training})
    assert (dtypes, training) == ({str(dtype)}, False)
    assert "rel_pos_local_attn" in kinds
    assert local == switching.recognize([_sound(stage.lengths_s[1])])
    assert switching.recognize([_sound(stage.lengths_s[0])]) == before
    assert encoder.self_attention_model == "rel_pos"
    del switching
    _unbound(stage)


def test_a_cap_below_the_weights_stops_the_load_and_names_one_that_would_do(stage: Stage) -> None:
    """The fraction holds from before the first weight."""
    if stage.rehearsed:
        pytest.skip("resident memory has no allocator that could be bounded")
    with pytest.raises(CapTooSmall) as caught:
        _load(stage, mem_cap_mib=900)
    assert caught.value.need_mib > 1200
    _unbound(stage)


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
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120, cwd=ROOT)
    assert result.stdout.split()[1:] == ["True", "False"]


def test_graphs_beside_the_return_of_memory_are_refused() -> None:
    """Before anything is loaded."""
    with pytest.raises(InvalidSettings, match="SEAT_CUDA_GRAPHS=1 needs SEAT_MEM_RETURN=0"):
        settings.read({"SEAT_CUDA_GRAPHS": "1"})


@pytest.mark.parametrize("variant", OPTIONS)
def test_latency_of_a_seat_of_its_own(stage: Stage, report: Report, variant: str) -> None:
    """One, five and twenty seconds, and a crowd; what was asked for is in force, and the words are those of eager."""
    command = [sys.executable, "-m", "tests.gpu.alone", str(stage.checkpoint)]
    command += ["--device", stage.device, "--variant", variant]
    result = subprocess.run(command, check=False, capture_output=True, text=True, timeout=150, cwd=ROOT)
    if result.returncode:
        report.record(variant, {"failed": result.stderr[-2000:]})
    assert result.returncode == 0, result.stderr[-2000:]
    facts = json.loads(result.stdout.splitlines()[-1])
    eager = report.facts.get("eager", facts)
    report.record(variant, facts | {"same_texts": facts.get("texts") == eager.get("texts")})
    if variant == "graphs" and facts.get("failed", "").startswith("GraphsUnavailable"):
        assert stage.rehearsed or "no_while_loops" in facts["failed"], facts
        return
    assert "failed" not in facts, facts
    assert (facts["refusals"], len(facts["latency_ms"]), facts["same_in_chunks"]) == (0, 3, True)
    assert facts["compiled"] == (variant == "compiled")
    assert facts["graphs"] == ("full_graph" if variant == "graphs" else "off")


def test_a_card_tells_what_is_taken_of_it(stage: Stage) -> None:
    """By all, and by this process where NVML sees it: what a dashboard shows as the neighbours' room."""
    from seat.gpu.device import choose

    _, meter = choose(stage.device)
    told = meter.reported()
    assert told.taken is not None
    assert told.total is not None
    assert 0 < told.taken < told.total
    assert told.process is None or 0 < told.process <= told.taken
