"""The border to a model: waveforms in, token numbers out. Knows samples, frames and tokens; no torch, no NeMo.

Fakes in tests and `seat.gpu.nemo` implement the same protocol, so everything above this line runs without a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from seat.meter import Meter

SAMPLE_RATE = 16_000
"""Samples per second of every waveform inside the seat; what Parakeet models are trained on."""

Waveform = NDArray[np.int16]
"""Mono samples at `SAMPLE_RATE`, shape (samples,). Sixteen bits: 32 kB a second, never a NaN, exact in float32."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Recognition:
    """What the model heard in one waveform, in plain numbers: no tensor outlives the GPU thread."""

    tokens: tuple[int, ...]
    """Vocabulary numbers, in order of time."""
    frames: tuple[int, ...]
    """Encoder frame at which each token was emitted, from 0."""
    durations: tuple[int, ...]
    """Frames each token covers: predicted by TDT models, 1 for RNN-T."""
    confidences: tuple[float, ...]
    """Probability of each token, 0 to 1."""


NOTHING = Recognition(tokens=(), frames=(), durations=(), confidences=())
"""What is heard where nothing is said."""


def joined(one: Recognition, other: Recognition) -> Recognition:
    """The tokens of one, then those of another."""
    return Recognition(
        tokens=one.tokens + other.tokens,
        frames=one.frames + other.frames,
        durations=one.durations + other.durations,
        confidences=one.confidences + other.confidences,
    )


def cut(heard: Recognition, place: int) -> tuple[Recognition, Recognition]:
    """The tokens before a place, and those from it on."""
    parts = [
        Recognition(
            tokens=heard.tokens[part],
            frames=heard.frames[part],
            durations=heard.durations[part],
            confidences=heard.confidences[part],
        )
        for part in (slice(None, place), slice(place, None))
    ]
    return parts[0], parts[1]


@dataclass(frozen=True, kw_only=True, slots=True)
class Chunk:
    """A waveform of which a stretch is decoded, going on from where the decoder stood: [left | chunk | right]."""

    waveform: Waveform
    """What the encoder hears, the context on both sides included."""
    first: int
    """First encoder frame that is decoded."""
    stop: int | None
    """First encoder frame that is no longer decoded; None for the waveform's end."""
    carried: object | None = None
    """What the decoder knew at the end of the chunk before, as `Recognizer.proceed` gave it; None at the beginning."""
    ahead: bool = False
    """Whether what lies behind ``stop`` is decoded too, for show: what is carried on is what was known at ``stop``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Vocabulary:
    """How token numbers become words."""

    pieces: tuple[str, ...]
    """SentencePiece pieces by number; a leading '▁' begins a word."""
    punctuation: frozenset[str]
    """Pieces that attach to the word before them."""
    frame_s: float
    """Seconds per encoder frame: mel hop times subsampling factor, 0.08 for FastConformer."""
    predicts_durations: bool
    """True for TDT; punctuation then has no width of its own, as in NeMo's own refinement."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelInfo:
    """What is loaded, as read from it; never an echo of the settings."""

    id: str
    """The name clients use."""
    revision: str | None
    """Commit of the model repository, or None for a file."""
    sha256: str | None
    """Digest of the checkpoint file, where it was taken."""
    architecture: str
    """Class of the NeMo model."""
    parameters: int
    """Number of weights."""
    device: str
    """Where the weights lie, read from a parameter: 'cpu', 'cuda:0'."""
    device_name: str
    """The processor's or card's own name."""
    dtype: str
    """Number type of the encoder's weights: 'float32', 'bfloat16'."""
    languages: tuple[str, ...]
    """ISO 639-1 codes of what the model speaks. No checkpoint tells; the service puts in what its name tells, or what
    its operator says."""
    versions: dict[str, str]
    """Versions of what computes: torch, nemo, cuda, driver."""
    compiled: bool = False
    """Whether the encoder's layers are compiled."""


MATRIX_ROWS: Final = 2048
"""Rows of the matrices whose product is timed: 17 GFLOP, 32 MiB for the two of them, half a second on one core."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Examination:
    """What a recognizer finds where it looks at itself: readings that no setting can echo."""

    weights: dict[str, int]
    """Bytes of parameters and buffers by the device that each of them lies on."""
    process_nbytes: int | None
    """What NVML counts for this process on that card; None where it does not see it, or there is no card."""
    driver: str | None
    """Version of the card's driver; None where there is no card."""
    matrix_flop_per_s: float
    """Floating-point operations per second of a matrix product in float32, where the encoder's weights lie."""


class Recognizer(Protocol):
    """A loaded model. Every method but `attention` and `pad` runs on the GPU thread and nowhere else."""

    @property
    def info(self) -> ModelInfo:
        """What is loaded."""

    @property
    def vocabulary(self) -> Vocabulary:
        """How its tokens become words."""

    @property
    def meter(self) -> Meter:
        """What counts the memory of this process where it computes."""

    @property
    def graphs(self) -> str:
        """How it decodes: 'off', or the mode of CUDA graphs that is in force, which may be less than was asked for."""

    def attention(self, samples: int) -> str:
        """What a batch whose longest waveform has so many samples is computed with: 'full' or 'local'."""

    def pad(self, waveforms: Sequence[Waveform]) -> object:
        """Lay waveforms side by side where the device reads them, on any thread, while the GPU thread computes."""

    def recognize(self, waveforms: Sequence[Waveform], padded: object | None = None) -> list[Recognition]:
        """Recognize a batch.

        Args:
            waveforms: At least one; each of one second or more (shorter audio is padded by `seat.windows.plan`).
            padded: What `pad` made of them; None to do it now.

        Returns:
            One recognition per waveform, in order.
        """

    def proceed(self, chunks: Sequence[Chunk], padded: object | None = None) -> list[tuple[Recognition, object]]:
        """Recognize a batch of chunks, each with a decoder of its own that goes on from where it stood.

        Args:
            chunks: At least one; each waveform of one second or more.
            padded: What `pad` made of their waveforms; None to do it now.

        Returns:
            For each, in order, what was heard in its stretch, with frames counted from its waveform's first, and what
            the decoder knows at its end: a little memory of the device, to be dropped when nothing follows. Where a
            chunk is decoded ahead, the tokens with frames from ``stop`` on are those for show.
        """

    def capture(self, rows: int, samples: int) -> None:
        """Make the decoder ready for CUDA graphs, where it has them: once, before anything is recognized.

        Args:
            rows: Waveforms that a batch may hold from then on.
            samples: Samples of the longest.
        """

    def examine(self) -> Examination:
        """Read where the weights lie and what computes there; takes a fraction of a second, and some MiB meanwhile."""

    def release(self) -> None:
        """Take the weights off the device; only `restore` may be called then.

        Raises:
            Exception: It could not, and nothing has changed.
        """

    def restore(self) -> None:
        """Bring them back; what is recognized is the same as before.

        Raises:
            Exception: It could not, and may be called again.
        """
