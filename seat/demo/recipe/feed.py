"""Draw training batches in a process of their own. Knows what to mix and where tokens may be emitted; no torch."""

import dataclasses
import multiprocessing
import queue
from collections.abc import Sequence
from multiprocessing.context import ForkProcess

import numpy as np
from numpy.typing import NDArray

from seat.demo.recipe.augment import augment, not_speech, padded
from seat.demo.recipe.bank import ESPEAK
from seat.demo.recipe.mix import Utterance, Voice, Voices, compose
from seat.demo.recipe.speech import SAMPLE_RATE
from seat.demo.recipe.vocabulary import FULL_STOP, pieces

FRAME_SECONDS = 0.08
TIGHT_SECONDS = 0.08
"""A head is emitted at a frame this near to its word's start, a tail so that the next frame is this near to its end."""
LATE_FRAMES = 3
"""How much later words may be emitted where the encoder does not see all that follows."""
LATE_STOP_FRAMES = 10
"""The same for full stops, which need the pause that follows."""
BATCH_SECONDS = 36.0
"""Audio of a batch, padding included."""
NOT_SPEECH = 0.06
"""Share of utterances without words."""
LENGTHS = ((0.5, 2.2), (2.0, 7.0), (7.0, 20.0), (20.0, 42.0))
"""Seconds of utterances, by class."""
NATURAL = 6
"""How much more often another voice is drawn than one of eSpeak's many, which sound alike; Piper's twice as often."""
POOL = 64
"""Utterances drawn ahead, so that those of a batch are about equally long."""


def shares(done: float) -> NDArray[np.float64]:
    """Give the share of audio of each class of lengths: at first all short, long ones mostly in the second half."""
    if done < 0.03:
        return np.array([1.0, 0.0, 0.0, 0.0])
    if done < 0.2:
        return np.array([0.35, 0.45, 0.2, 0.0])
    return np.array([0.3, 0.4, 0.25, 0.05] if done < 0.5 else [0.25, 0.38, 0.25, 0.12])


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """What one training step needs."""

    samples: NDArray[np.int16]
    """(B, n), zero-padded on the right."""
    lengths: NDArray[np.int64]
    """(B,) samples of each."""
    tokens: NDArray[np.int64]
    """(B, U)."""
    counts: NDArray[np.int64]
    """(B,) tokens of each."""
    spans: NDArray[np.int64]
    """(B, U, 2) first and last frame of each token, not yet limited to the frames there are."""
    context: tuple[int, int, int]
    """Left, chunk and right attention context in frames."""
    tempo: float
    """Factor by which the features are to be stretched in time; the spans are those after it."""


def spans(
    said: Utterance, numbers: dict[str, int], *, late: bool, tempo: float = 1.0
) -> tuple[list[int], list[tuple[int, int]]]:
    """Give the tokens of an utterance and the frames at which each may be emitted.

    Args:
        said: The utterance.
        numbers: The number of each piece.
        late: Emission may come later, as little of the future is seen.
        tempo: Factor on all times.
    """
    tokens: list[int] = []
    first: list[int] = []
    last: list[int] = []

    def add(piece: str, seconds: float, delay: int) -> None:
        tokens.append(numbers[piece])
        first.append(max(0, int(np.ceil((seconds - TIGHT_SECONDS) / FRAME_SECONDS - 1e-6))))
        last.append(max(0, int(np.floor((seconds + TIGHT_SECONDS) / FRAME_SECONDS + 1e-6))) + delay * late)

    for word in said.words:
        head, tail = pieces(word.text.rstrip(FULL_STOP))
        add(head, word.start * tempo, LATE_FRAMES)
        add(tail, word.end * tempo - FRAME_SECONDS, LATE_FRAMES)
        if word.text.endswith(FULL_STOP):
            add(FULL_STOP, word.end * tempo - FRAME_SECONDS, LATE_STOP_FRAMES)
    first = np.maximum.accumulate(np.array(first, np.int64)).tolist() if first else []
    last = np.minimum.accumulate(np.array(last, np.int64)[::-1])[::-1].tolist() if last else []
    return tokens, [(a, max(a, b)) for a, b in zip(first, last, strict=True)]


class Drawer:
    """Draws batches from people and synthetic voices."""

    def __init__(self, synthetic: Voices, people: Voices, numbers: dict[str, int], seed: int, human: float) -> None:
        """Keep what to draw from; `human` is the share of utterances with a person's digits in them."""
        self._synthetic = [
            voice for name, voice in synthetic.items() for _ in range(NATURAL if name not in ESPEAK else 1)
        ]
        self._people = list(people.values())
        self._numbers = numbers
        self._human = human
        self._rng = np.random.default_rng(seed)
        self._pool: list[Utterance] = []

    def _speakers(self) -> tuple[Sequence[Voice], float]:
        rng = self._rng
        some = [self._synthetic[i] for i in rng.integers(len(self._synthetic), size=rng.integers(1, 4))]
        if rng.random() >= self._human:
            return some, 0.35
        person = self._people[rng.integers(len(self._people))]
        if rng.random() < 0.7:
            return [person], 0.7
        return [person, *some], 0.8

    def _utterance(self, seconds: float, words: int) -> Utterance:
        rng = self._rng
        if rng.random() < NOT_SPEECH:
            return padded(not_speech(rng, seconds), 0.0, 0.0)
        speakers, telephone = self._speakers()
        return augment(rng, compose(rng, speakers, seconds, words=words), telephone)

    def _similar(self, done: float) -> list[Utterance]:
        """Fill the pool and take utterances of about one length from it."""
        rng = self._rng
        by_count = shares(done) / np.mean(LENGTHS, axis=1)
        while len(self._pool) < POOL:
            shortest, longest = LENGTHS[rng.choice(len(LENGTHS), p=by_count / by_count.sum())]
            self._pool.append(self._utterance(rng.uniform(shortest, longest), 3 if done < 0.03 else 15))
        self._pool.sort(key=lambda each: each.seconds)
        first = stop = int(rng.integers(len(self._pool)))
        while stop < len(self._pool) and (
            stop == first or (stop + 1 - first) * self._pool[stop].seconds <= BATCH_SECONDS
        ):
            stop += 1
        while first > 0 and (stop + 1 - first) * self._pool[stop - 1].seconds <= BATCH_SECONDS:
            first -= 1
        taken = self._pool[first:stop]
        del self._pool[first:stop]
        return taken

    def draw(self, done: float) -> Batch:
        """Draw a batch.

        Args:
            done: How much of the training is done, 0 to 1.
        """
        rng = self._rng
        made = self._similar(done)
        full = rng.random() < 0.6
        context = (-1, -1, -1) if full else (70, int(rng.choice([2, 7, 13])), int(rng.choice([0, 1, 2, 3, 4, 7, 13])))
        tempo = float(rng.uniform(0.85, 1.35)) if rng.random() < 0.35 else 1.0
        rows = [spans(each, self._numbers, late=not full, tempo=tempo) for each in made]
        counts = np.array([len(tokens) for tokens, _ in rows], np.int64)
        lengths = np.array([len(each.samples) for each in made], np.int64)
        samples = np.zeros((len(made), lengths.max()), np.int16)
        tokens = np.zeros((len(made), max(1, counts.max())), np.int64)
        frames = np.zeros((*tokens.shape, 2), np.int64)
        for i, (each, (numbers, where)) in enumerate(zip(made, rows, strict=True)):
            samples[i, : len(each.samples)] = np.round(each.samples * 32_767)
            tokens[i, : len(numbers)] = numbers
            frames[i, : len(where)] = np.array(where, np.int64).reshape(-1, 2)
        return Batch(
            samples=samples,
            lengths=lengths,
            tokens=tokens,
            counts=counts,
            spans=frames,
            context=context,
            tempo=tempo,
        )


class Feed:
    """A process that draws ahead."""

    def __init__(self, drawer: Drawer) -> None:
        """Start drawing."""
        context = multiprocessing.get_context("fork")
        self._queue: multiprocessing.Queue[Batch] = context.Queue(8)
        self._done = context.Value("d", 0.0)
        self._process: ForkProcess = context.Process(target=self._work, args=(drawer,), daemon=True)
        self._process.start()

    def _work(self, drawer: Drawer) -> None:
        while True:
            self._queue.put(drawer.draw(self._done.value))

    def next(self, done: float) -> Batch:
        """Take the next batch and say how much of the training is done.

        Raises:
            RuntimeError: The drawing process died.
        """
        self._done.value = done
        while True:
            try:
                return self._queue.get(timeout=20)
            except queue.Empty:
                if not self._process.is_alive():
                    message = "the process that draws batches died"
                    raise RuntimeError(message) from None

    def close(self) -> None:
        """Stop drawing."""
        self._process.terminate()
        self._process.join()


__all__ = ["SAMPLE_RATE", "Batch", "Drawer", "Feed", "spans"]
