"""The life of one seat, without HTTP and with a fake model."""

import asyncio
import gc
import io
import threading
import weakref
from collections.abc import Sequence
from contextlib import AsyncExitStack

import numpy as np
import pytest
from structlog.testing import capture_logs

from seat import settings
from seat.errors import (
    AudioTooLong,
    CapTooSmall,
    DeadlineExceeded,
    DeviceLost,
    ModelLoading,
    QueueFull,
    RecognitionFailed,
    ShuttingDown,
    Stalled,
    UndecodableAudio,
)
from seat.meter import MIB
from seat.recognizer import SAMPLE_RATE, Recognition, Recognizer, Waveform
from seat.service import Service, State
from seat.wav import wav
from tests.fakes import SPOKEN, FakeMeter, FakeRecognizer, Hunger, speech


def _wav(waveform: Waveform) -> io.BytesIO:
    return io.BytesIO(wav(waveform))


def _service(recognizer: Recognizer, failures: list[BaseException] | None = None, **values: object) -> Service:
    return Service(settings.read({}, **values), lambda: recognizer, (failures if failures is not None else []).append)


async def _ready(service: Service) -> None:
    async with asyncio.timeout(10):
        while service.state is State.LOADING:
            await asyncio.sleep(0.001)


async def test_a_seat_loads_warms_up_and_transcribes() -> None:
    """From loading to ready to words."""
    recognizer = FakeRecognizer()
    async with _service(recognizer) as service:
        assert service.state is State.LOADING
        with pytest.raises(ModelLoading):
            await service.transcribe(_wav(speech([1])))
        await _ready(service)
        assert service.state is State.READY
        transcript = await service.transcribe(_wav(speech([4, 2])))
    assert transcript.text == "four two"
    assert service.state is State.STOPPING


async def test_a_model_that_does_not_load_is_told_to_whoever_runs_the_process() -> None:
    """The seat is neither live nor ready then."""
    failures: list[BaseException] = []

    def refuse() -> Recognizer:
        message = "no weights"
        raise OSError(message)

    async with Service(settings.read({}), refuse, failures.append) as service:
        await _ready(service)
        assert (service.state, service.live) == (State.FAILED, False)
    assert [str(failure) for failure in failures] == ["no weights"]


@pytest.mark.parametrize("join", ["independent", "carried"])
async def test_a_long_file_is_cut_and_joined(join: str) -> None:
    """Ninety seconds of words through seven-second windows: every word, in order."""
    digits = [number % 10 for number in range(90)]
    recognizer = FakeRecognizer()
    async with _service(recognizer, window_s=7, window_context_s="2,2", window_join=join) as service:
        await _ready(service)
        transcript = await service.transcribe(_wav(speech(digits)))
        whole = FakeRecognizer()
    assert transcript.text == " ".join(whole.vocabulary.pieces[digit + 1].removeprefix("▁") for digit in digits)
    assert max(max(batch) for batch in recognizer.batches) <= 11 * SAMPLE_RATE


@pytest.mark.parametrize("join", ["independent", "carried"])
async def test_a_window_that_comes_back_empty_is_tried_again_without_its_silence(join: str) -> None:
    """A model that hears nothing where silence follows is asked once more; then silence is silence."""

    class Swallowing(FakeRecognizer):
        def recognize(self, waveforms: Sequence[Waveform], padded: object | None = None) -> list[Recognition]:
            heard = super().recognize(waveforms, padded)
            nothing = Recognition(tokens=(), frames=(), durations=(), confidences=())
            return [
                nothing if not waveform[-SAMPLE_RATE:].any() else recognition
                for waveform, recognition in zip(waveforms, heard, strict=True)
            ]

    recognizer = Swallowing()
    async with _service(recognizer, window_join=join, window_s=4, window_context_s=(1, 1)) as service:
        await _ready(service)
        pause = np.zeros(6 * SAMPLE_RATE, np.int16)
        long = np.concatenate([speech([1, 2, 3]), pause, speech([5]), pause, speech([6])])
        assert (await service.transcribe(_wav(long))).text == "one two three five six"
        silent_tail = np.concatenate([speech([4, 2]), np.zeros(2 * SAMPLE_RATE, np.int16)])
        assert (await service.transcribe(_wav(silent_tail))).text == "four two"
        tries = len(recognizer.batches)
        assert (await service.transcribe(_wav(np.zeros(2 * SAMPLE_RATE, np.int16)))).text == ""
        assert len(recognizer.batches) == tries + 1


@pytest.mark.parametrize("samples", [0, 1, 800, 1600])
async def test_next_to_no_audio_is_no_words(samples: int) -> None:
    """An empty file with a header, one sample, 50 and 100 ms: a right answer with its duration."""
    async with _service(FakeRecognizer()) as service:
        await _ready(service)
        transcript = await service.transcribe(_wav(np.zeros(samples, np.int16)))
    assert (transcript.text, transcript.duration_s) == ("", samples / SAMPLE_RATE)


async def test_too_much_audio_is_refused_before_the_model() -> None:
    """Found while decoding."""
    recognizer = FakeRecognizer()
    async with _service(recognizer, max_audio_s=5) as service:
        await _ready(service)
        warmed = len(recognizer.batches)
        with pytest.raises(AudioTooLong):
            await service.transcribe(_wav(np.zeros(6 * SAMPLE_RATE, np.int16)))
        assert len(recognizer.batches) == warmed


async def test_what_is_not_audio_is_refused() -> None:
    """And the seat goes on."""
    async with _service(FakeRecognizer()) as service:
        await _ready(service)
        with pytest.raises(UndecodableAudio):
            await service.transcribe(io.BytesIO(b"junk" * 100))
        assert (await service.transcribe(_wav(speech([7])))).text == "seven"


class _Held:
    """A recognizer that, once armed, waits inside a call until it is released."""

    def __init__(self) -> None:
        self.armed, self.begun, self.release = threading.Event(), threading.Event(), threading.Event()
        self.recognizer = FakeRecognizer(before=self._wait)

    def _wait(self, _waveforms: Sequence[Waveform]) -> None:
        if self.armed.is_set():
            self.begun.set()
            self.release.wait(10)


async def test_a_request_past_its_deadline_is_told_so() -> None:
    """It leaves the queue, and nothing waits for ever."""
    held = _Held()
    async with _service(held.recognizer, deadline_s=0.05) as service:
        await _ready(service)
        held.armed.set()
        with pytest.raises(DeadlineExceeded):
            await service.transcribe(_wav(speech([1])))
        held.release.set()


async def test_a_call_that_hangs_makes_the_seat_stalled_and_then_dead() -> None:
    """Ready fails first, live later, requests are refused meanwhile; when the call returns, all is well again."""
    held = _Held()
    async with _service(held.recognizer, deadline_s=30, stall_s=0.05) as service:
        await _ready(service)
        held.armed.set()
        hanging = asyncio.create_task(service.transcribe(_wav(speech([1]))))
        await asyncio.to_thread(held.begun.wait, 5)
        async with asyncio.timeout(5):
            while service.state is not State.STALLED:
                await asyncio.sleep(0.001)
            with pytest.raises(Stalled):
                await service.transcribe(_wav(speech([1])))
            while service.live:
                await asyncio.sleep(0.001)
        held.release.set()
        assert (await hanging).text == "one"
        assert (service.state, service.live) == (State.READY, True)


class _Clock:
    """Stands still, but for the test that moves it; in the place of the module `time`."""

    now_s = 0.0

    def monotonic(self) -> float:
        """Seconds since the test began."""
        return self.now_s


async def test_a_seat_that_does_not_respond_is_live_for_twice_as_long_as_it_is_ready(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever restarts it then must not do so because of one long call."""
    held, clock = _Held(), _Clock()
    monkeypatch.setattr("seat.executor.time", clock)
    async with _service(held.recognizer, stall_s=10) as service:
        await _ready(service)
        held.armed.set()
        hanging = asyncio.create_task(service.transcribe(_wav(speech([1]))))
        await asyncio.to_thread(held.begun.wait, 5)
        seen = []
        for clock.now_s in (9, 11, 19, 21):
            seen.append((service.state, service.live))
        held.release.set()
        await hanging
    stalled = State.STALLED
    assert seen == [(State.READY, True), (stalled, True), (stalled, True), (stalled, False)]


async def test_who_waits_for_a_call_that_hangs_is_told_that_by_their_deadline() -> None:
    """Not that the transcription took too long: the same file, sent again later, is heard."""
    held = _Held()
    async with _service(held.recognizer, deadline_s=0.5, stall_s=0.05) as service:
        await _ready(service)
        held.armed.set()
        with pytest.raises(Stalled) as told:
            await service.transcribe(_wav(speech([1])))
        assert isinstance(told.value.__cause__, DeadlineExceeded)
        held.release.set()


async def test_more_requests_than_may_be_inside_are_refused_at_once() -> None:
    """With a time to come back, and the next one is let in when a place is free."""
    held = _Held()
    async with _service(held.recognizer, max_requests=2) as service:
        await _ready(service)
        held.armed.set()
        inside = [asyncio.create_task(service.transcribe(_wav(speech([digit])))) for digit in (1, 2)]
        await asyncio.to_thread(held.begun.wait, 5)
        with pytest.raises(QueueFull):
            await service.transcribe(_wav(speech([3])))
        held.release.set()
        assert [transcript.text for transcript in await asyncio.gather(*inside)] == ["one", "two"]
        assert (await service.transcribe(_wav(speech([3])))).text == "three"


async def test_a_fault_of_the_model_fails_its_request_only() -> None:
    """The next one is answered."""
    faulty = len(speech([1, 1, 1]))

    def refuse(waveforms: Sequence[Waveform]) -> None:
        if any(len(waveform) == faulty for waveform in waveforms):
            raise FloatingPointError

    async with _service(FakeRecognizer(before=refuse)) as service:
        await _ready(service)
        with pytest.raises(RecognitionFailed):
            await service.transcribe(_wav(speech([1, 1, 1])))
        assert (await service.transcribe(_wav(speech([5])))).text == "five"


async def test_a_cancelled_request_leaves_nothing_behind() -> None:
    """Neither a place nor a window in the queue, wherever it was when it was cancelled."""
    held = _Held()
    async with _service(held.recognizer, max_requests=1) as service:
        await _ready(service)
        held.armed.set()
        doomed = asyncio.create_task(service.transcribe(_wav(speech([1]))))
        await asyncio.to_thread(held.begun.wait, 5)
        doomed.cancel()
        await asyncio.wait([doomed])
        held.release.set()
        assert (await service.transcribe(_wav(speech([6])))).text == "six"


async def test_a_request_cancelled_while_it_is_decoded_lets_go_of_its_file() -> None:
    """Only when the thread no longer reads may the file be closed."""

    class Slow(io.BytesIO):
        reading = threading.Event()
        release = threading.Event()
        after_close = False

        def read(self, size: int | None = -1) -> bytes:
            self.reading.set()
            self.release.wait(10)
            if self.closed:
                Slow.after_close = True
            return super().read(size)

    source = Slow(_wav(speech([1] * 30)).getvalue())
    async with _service(FakeRecognizer()) as service:
        await _ready(service)

        async def request() -> None:
            with source:
                await service.transcribe(source)

        doomed = asyncio.create_task(request())
        await asyncio.to_thread(source.reading.wait, 5)
        doomed.cancel()
        await asyncio.sleep(0.01)
        assert not source.closed
        source.release.set()
        await asyncio.wait([doomed])
    assert doomed.cancelled()
    assert not Slow.after_close


async def test_a_seat_that_stops_refuses_and_answers_those_inside() -> None:
    """No new request from the moment it is told; those that wait hear of it."""
    held = _Held()
    async with AsyncExitStack() as stack:
        service = await stack.enter_async_context(_service(held.recognizer))
        await _ready(service)
        held.armed.set()
        inside = asyncio.create_task(service.transcribe(_wav(speech([1]))))
        await asyncio.to_thread(held.begun.wait, 5)
        service.stop_admission()
        with pytest.raises(ShuttingDown):
            await service.transcribe(_wav(speech([1])))
        held.release.set()
        assert (await inside).text == "one"


@pytest.mark.usefixtures("tidy")
async def test_a_cap_that_cannot_hold_the_model_stops_the_start_and_names_one_that_can() -> None:
    """On resident memory, for real: weights of 100 MiB, and 5 MiB a second of the longest window of 10 seconds."""
    windows = {"window_s": 6, "window_context_s": "2,2", "warmup_seconds": "1"}
    failures: list[BaseException] = []
    recognizer = FakeRecognizer(before=Hunger(5), weights_mib=100)
    cap_mib = recognizer.meter.used() // MIB + 20
    async with _service(recognizer, failures, mem_cap_mib=cap_mib, **windows) as service:
        await _ready(service)
        assert service.state is State.FAILED
    (failure,) = failures
    assert isinstance(failure, CapTooSmall)
    assert str(failure).startswith(f"SEAT_MEM_CAP_MIB={cap_mib} cannot hold the model at work on 10 seconds of audio; ")
    async with _service(recognizer, mem_cap_mib=failure.need_mib, **windows) as service:
        await _ready(service)
        assert (await service.transcribe(_wav(speech([8])))).text == "eight"


async def test_a_seat_with_a_cap_tells_what_it_promises_and_took() -> None:
    """Cap, rest, the longest window's peak, and what a second costs."""
    meter = FakeMeter()
    async with _service(FakeRecognizer(before=meter.hunger(1), meter=meter), mem_cap_mib=400) as service:
        assert service.statistics().memory is None
        await _ready(service)
        memory = service.statistics().memory
    assert memory is not None
    assert (memory.cap, memory.rest, memory.peak) == (400 * MIB, 150 * MIB, (150 + 20) * MIB)
    assert memory.nbytes_per_s == MIB
    assert meter.bound_to == 400 * MIB


async def test_a_seat_tells_what_it_is_and_does_from_the_beginning() -> None:
    """What is not known before the model has warmed up is None; nothing raises on a collector's thread."""
    async with _service(FakeRecognizer()) as service:
        before = service.statistics()
        await _ready(service)
        after = await asyncio.to_thread(service.statistics)
    assert (before.state, before.memory, before.work, before.info) == (State.LOADING, None, None, None)
    assert (after.state, after.attention, after.graphs, after.thread.running_s) == (State.READY, "full", "off", 0.0)
    assert after.memory is not None
    assert after.work is not None
    assert after.work.queue.requests == 0


async def test_a_seat_whose_weights_have_left_says_so_and_answers() -> None:
    """The state is 'released' until the next request."""
    async with _service(FakeRecognizer(), idle_release_s=0.05) as service:
        await _ready(service)
        async with asyncio.timeout(5):
            while service.state is not State.RELEASED:
                await asyncio.sleep(0.001)
        assert service.live
        assert (await service.transcribe(_wav(speech([3])))).text == "three"
        weights = service.statistics().weights
        assert weights is not None
        assert weights.restore_s is not None


async def test_a_device_that_is_lost_ends_the_seat() -> None:
    """Everybody is answered, then whoever runs the process is told."""
    failures: list[BaseException] = []
    armed = threading.Event()

    def fail(_waveforms: Sequence[Waveform]) -> None:
        if armed.is_set():
            message = "CUDA error: device-side assert triggered"
            raise RuntimeError(message)

    async with _service(FakeRecognizer(before=fail), failures) as service:
        await _ready(service)
        armed.set()
        for _ in range(2):
            with pytest.raises(DeviceLost):
                await service.transcribe(_wav(speech([1])))
        assert (service.state, service.live) == (State.FAILED, False)
    assert [str(failure) for failure in failures] == ["CUDA error: device-side assert triggered"]


async def test_graphs_are_captured_for_the_largest_batch_and_no_batch_is_larger() -> None:
    """Before anything is recognized, for the longest window; then requests of one second go by fours, not by 120."""
    held = _Held()
    recognizer = held.recognizer
    recognizer.graphs = "full_graph"
    async with _service(recognizer, cuda_graphs=True, mem_return=False, cuda_graphs_batch=4) as service:
        await _ready(service)
        assert recognizer.captured == [(4, 20 * SAMPLE_RATE)]
        assert service.statistics().graphs == "full_graph"
        held.armed.set()
        first = asyncio.create_task(service.transcribe(_wav(speech([1]))))
        await asyncio.to_thread(held.begun.wait, 5)
        others = [asyncio.create_task(service.transcribe(_wav(speech([2])))) for _ in range(10)]
        async with asyncio.timeout(5):
            while (work := service.statistics().work) is None or work.queue.windows < len(others):
                await asyncio.sleep(0.001)
        held.armed.clear()
        held.release.set()
        assert [transcript.text for transcript in await asyncio.gather(first, *others)] == ["one", *["two"] * 10]
    assert sorted(len(batch) for batch in recognizer.batches[-3:]) == [2, 4, 4]


async def test_nothing_of_a_request_outlives_it() -> None:
    """Once it is answered, no thread, queue or frame holds its audio: three hours of it are 345 MB."""
    held: list[weakref.ref[Waveform]] = []

    def look(waveforms: Sequence[Waveform]) -> None:
        held.extend(weakref.ref(waveform.base if waveform.base is not None else waveform) for waveform in waveforms)

    recognizer = FakeRecognizer()
    async with _service(recognizer, window_s=7, window_context_s="2,2") as service:
        await _ready(service)
        recognizer._before = look
        await service.transcribe(_wav(speech([1] * 60)))
        recognizer._before = None
        await asyncio.sleep(0)
        gc.collect()
        assert held
        assert [reference() is None for reference in held] == [True] * len(held)


async def test_an_hour_passes_whole_or_is_refused_and_never_in_part() -> None:
    """Sixty-one minutes: 413 by default, every word where no limit is set."""
    digits = [number % 10 for number in range(3660)]
    file = _wav(speech(digits))
    async with _service(FakeRecognizer()) as service:
        await _ready(service)
        with pytest.raises(AudioTooLong):
            await service.transcribe(file)
    async with _service(FakeRecognizer(), max_audio_s=0) as service:
        await _ready(service)
        transcript = await service.transcribe(file)
    assert [word.text for word in transcript.words] == [SPOKEN[digit] for digit in digits]
    assert 3659 < transcript.duration_s < 3662


@pytest.mark.parametrize("device, warned", [("auto", True), ("cpu", False)])
async def test_falling_to_the_processor_is_a_warning(device: str, *, warned: bool) -> None:
    """Where it was not asked for by name."""
    with capture_logs() as lines:
        async with _service(FakeRecognizer(), device=device) as service:
            await _ready(service)
    assert any(line["event"] == "no_gpu" and line["log_level"] == "warning" for line in lines) == warned
