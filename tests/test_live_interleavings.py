"""Whatever a live client says, and whatever fails meanwhile: each turn is told in order, and ends once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import cycle

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from seat.errors import RecognitionFailed
from seat.live import LiveSession
from seat.recognizer import Chunk, Recognition, Waveform
from seat.turn import Event, Failed, Started, Stopped, Whole, Words
from seat.vad import Turns
from tests.fakes import VOCABULARY, FakeRecognizer, speech
from tests.test_live import WINDOW, hearing, quiet

WAYS = (None, Turns(), Turns(threshold=0.5, padding_s=0, silence_s=0), Turns(threshold=0.5, padding_s=3, silence_s=3))
"""How turns may be told apart."""

HUM = np.where(np.arange(32_000) % 2, 500, -500).astype(np.int16)
"""What the detector takes for speech, and the model does not."""

SAID = st.one_of(
    st.builds(
        lambda digits, gap_s: speech(digits, gap_s=gap_s),
        st.lists(st.integers(1, 9), min_size=1, max_size=5),
        st.sampled_from((0.1, 0.3, 0.6, 2.0)),
    ),
    st.floats(0.1, 3).map(quiet),
    st.just(HUM),
)
DONE = st.one_of(SAID, SAID, st.just("commit"), st.just("clear"), st.sampled_from(WAYS))
"""What a client may do: say something, or one of three events; the last sets turns up anew."""

PAUSES = st.lists(st.integers(0, 4), min_size=1, max_size=8)
"""How often somebody lets others run, in turn."""


class Client:
    """Does what it is told, and notes what it is told."""

    def __init__(self, fails: Sequence[bool], pauses: Sequence[int], turns: Turns | None) -> None:
        self._fails, self._pauses = cycle(fails), cycle(pauses)
        self._hear = hearing(FakeRecognizer())
        self.told: dict[int, list[type[Event]]] = {}
        self.committed: list[int] = []
        self.live = LiveSession(self._heard, VOCABULARY, WINDOW, self._note, turns=turns, most_waiting_s=30)

    async def _heard(self, chunk: Chunk, deadline_at: float) -> tuple[Recognition, object, object]:
        await self._pause()
        if next(self._fails):
            raise RecognitionFailed
        return await self._hear(chunk, deadline_at)

    async def _note(self, event: Event) -> None:
        if type(event) is not Words:
            self.told.setdefault(event.turn, []).append(type(event))
        await self._pause()

    async def _pause(self) -> None:
        for _ in range(next(self._pauses)):
            await asyncio.sleep(0)

    async def act(self, deeds: Sequence[Waveform | str | Turns | None]) -> None:
        """All of it, to the end of the session."""
        running = asyncio.create_task(self.live.run())
        async with asyncio.timeout(10):
            for deed in deeds:
                if isinstance(deed, np.ndarray):
                    await self.live.append(deed)
                elif deed == "commit":
                    self.committed.append(self.live.commit())
                elif deed == "clear":
                    self.live.clear()
                else:
                    self.live.detect(deed)
                await self._pause()
            await self.live.end()
            await running


@given(
    deeds=st.lists(DONE, min_size=1, max_size=25),
    fails=st.lists(st.booleans(), min_size=1, max_size=12),
    pauses=PAUSES,
    turns=st.sampled_from(WAYS),
)
@settings(max_examples=1000, deadline=None)
def test_every_turn_is_told_in_order_and_ends_once(
    deeds: list[Waveform | str | Turns | None], fails: list[bool], pauses: list[int], turns: Turns | None
) -> None:
    """What was committed has an answer, what stopped has ended, and nothing is left when the session is over."""
    client = Client(fails, pauses, turns)
    asyncio.run(client.act(deeds))
    order = [Started, Stopped, Whole, Failed]
    for kinds in client.told.values():
        assert kinds == sorted(set(kinds), key=order.index)
        assert (Whole in kinds) + (Failed in kinds) <= 1
        assert Stopped not in kinds or kinds[-1] in {Whole, Failed}
    assert all(client.told[turn][-1] in {Whole, Failed} for turn in client.committed)
    assert client.live.waiting_s == 0
