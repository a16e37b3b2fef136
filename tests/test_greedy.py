"""Decoding many frames at once equals NeMo's decoding frame by frame, and waits for a card once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.tiny import build, chirps

if TYPE_CHECKING:
    import torch

    from seat.gpu.nemo import NemoRecognizer

pytestmark = [pytest.mark.model, pytest.mark.filterwarnings("ignore:dropout option:UserWarning")]

CONFIDENCE_NOISE = 1e-4
"""How far a probability may move with the shape of its batch: floating-point sums in another order."""

LENGTHS = (0, 1, 2, 15, 16, 17, 63, 100)
"""Frames of the rows of a batch, around the borders of what is seen at once."""

QUESTION = "aten.is_nonzero.default"

WAITS = (QUESTION, "aten.item", "aten._local_scalar_dense", "aten.nonzero", "aten.equal", "aten.masked_select")
"""Operations for which the host would wait for a card."""


@pytest.fixture(scope="module", params=["rnnt", "tdt"])
def recognizer(
    request: pytest.FixtureRequest, load_nemo: Callable[..., NemoRecognizer], tmp_path_factory: pytest.TempPathFactory
) -> NemoRecognizer:
    """One of each kind."""
    return load_nemo(str(build(tmp_path_factory.mktemp(request.param), request.param)))


def _frames(recognizer: NemoRecognizer, seed: int) -> torch.Tensor:
    """What the encoder makes of some sound, for a row of each length."""
    import torch

    with torch.inference_mode():
        sounds = [(chirps(8, seed * 100 + row) * 32767).astype(np.int16) for row in range(len(LENGTHS))]
        return recognizer._encode(sounds)[0][:, : max(LENGTHS)]


def _told(table: torch.Tensor) -> list[list[tuple[int, int, int, float]]]:
    """Token, frame, duration and confidence of all that was heard, row by row."""
    return [[(int(k), int(t), int(d), c) for k, t, d, c in row if k >= 0] for row in table.tolist()]


def _by_nemo(recognizer: NemoRecognizer, frames: torch.Tensor, length: int) -> list[tuple[int, int, int, float]]:
    """The same of one row, by NeMo's own decoder; in company it confuses durations (NVIDIA-NeMo/Speech 16097)."""
    import torch

    found, _ = recognizer._computer(x=frames[None], out_len=torch.tensor([length]), prev_batched_state=None)
    (count,), (tokens,), (at,), durations, (confidences,) = found.get_data_without_blank()
    lasts = [1] * int(count) if durations is None else durations[0].tolist()
    return list(zip(tokens.tolist(), at.tolist(), lasts, confidences.tolist(), strict=False))[: int(count)]


def _alike(ours: list[Any], nemos: list[Any]) -> None:
    assert [row[:3] for row in nemos] == [row[:3] for row in ours]
    assert [row[3] for row in nemos] == pytest.approx([row[3] for row in ours], abs=CONFIDENCE_NOISE)


@pytest.mark.parametrize("seed", range(5))
def test_every_row_of_a_batch_is_heard_as_by_nemo_alone(recognizer: NemoRecognizer, seed: int) -> None:
    """Of every length, in one batch."""
    import torch

    frames = _frames(recognizer, seed)
    with torch.inference_mode():
        table, _ = recognizer._decode(frames, torch.tensor(LENGTHS), [None] * len(LENGTHS))
        heard = _told(table)
        for row, length in enumerate(LENGTHS):
            _alike(heard[row], _by_nemo(recognizer, frames[row], length))
    assert sum(map(len, heard)) > 20
    assert heard[0] == []


@pytest.mark.parametrize("context", [1, 2, 4])
def test_a_prediction_network_that_sees_a_few_tokens_is_heard_alike(context: int) -> None:
    """Not only recurrent ones; also where a stretch goes on from the one before."""
    import torch
    from nemo.collections.asr.modules import RNNTJoint, StatelessTransducerDecoder
    from nemo.collections.asr.parts.submodules.transducer_decoding import GreedyBatchedRNNTLabelLoopingComputer

    from seat.gpu.greedy import Greedy

    torch.manual_seed(context)
    sizes = {"encoder_hidden": 32, "pred_hidden": 64, "joint_hidden": 32, "activation": "relu"}
    predictor = StatelessTransducerDecoder(prednet={"pred_hidden": 64}, vocab_size=20, context_size=context).eval()
    joint = RNNTJoint(jointnet=sizes, num_classes=20, vocabulary=[str(number) for number in range(20)]).eval()
    nemos = GreedyBatchedRNNTLabelLoopingComputer(predictor, joint, 20, 10, allow_cuda_graphs=False)
    frames, lengths = torch.randn(3, 40, 32), torch.tensor([40, 30, 20])
    with torch.inference_mode():
        for weight in (joint.joint_net[-1].weight, joint.enc.weight, joint.pred.weight):
            weight.mul_(4)
        joint.joint_net[-1].bias[20] += 4
        decode = Greedy(SimpleNamespace(decoder=predictor, joint=joint), durations=(), most_per_frame=10)
        first, carried = decode(frames[:, :15], lengths.clamp(max=15), [None] * 3)
        second, _ = decode(frames[:, 15:], (lengths - 15).clamp(min=0), carried)
        found, _ = nemos(x=frames, out_len=lengths)
    assert min(map(len, _told(first))) > 0
    for row, count in enumerate(found.current_lengths.tolist()):
        tokens = [token for token, *_ in (*_told(first)[row], *_told(second)[row])]
        assert found.transcript[row, :count].tolist() == tokens


@pytest.mark.parametrize("seed", range(3))
def test_a_confused_model_leaves_each_frame_after_ten_tokens(recognizer: NemoRecognizer, seed: int) -> None:
    """As with NeMo, where the blank is never said and a TDT's tokens last no time."""
    import torch

    bias, blank = recognizer._model.joint.joint_net[-1].bias, recognizer._model.decoder.blank_idx
    with torch.inference_mode():
        before = bias.clone()
        bias[blank] -= 1e3
        bias[blank + 1 : blank + 2] += 1e3
        frames = _frames(recognizer, seed)[:2, :20]
        table, _ = recognizer._decode(frames, torch.tensor([20, 7]), [None, None])
        expected = [_by_nemo(recognizer, frames[row], length) for row, length in enumerate((20, 7))]
        bias.copy_(before)
    for ours, nemos in zip(_told(table), expected, strict=True):
        _alike(ours, nemos)
    assert Counter(frame for _, frame, _, _ in _told(table)[0]) == dict.fromkeys(range(20), 10)


def test_a_stretch_without_frames_carries_on_what_came_before(recognizer: NemoRecognizer) -> None:
    """Nothing is heard in it, and what follows is heard as if it were not there."""
    import torch

    frames = _frames(recognizer, 9)[-1:]
    with torch.inference_mode():
        whole, _ = recognizer._decode(frames, torch.tensor([100]), [None])
        first, carried = recognizer._decode(frames[:, :40], torch.tensor([40]), [None])
        empty, carried = recognizer._decode(frames[:, :0], torch.tensor([0]), carried)
        second, _ = recognizer._decode(frames[:, 40:], torch.tensor([60]), carried)
    assert [[]] == _told(empty)
    late = [(token, frame + 40, lasts, share) for token, frame, lasts, share in _told(second)[0]]
    _alike([*_told(first)[0], *late], _told(whole)[0])


def test_nothing_waits_for_the_device_but_the_question_whether_all_is_said(
    recognizer: NemoRecognizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the features either, which ask for more where CUDA is there, if NeMo normalizes them."""
    import torch

    sounds = [(chirps(seconds, seconds) * 32767).astype(np.int16) for seconds in (5, 2)]
    with torch.inference_mode():
        with monkeypatch.context() as patched, _waits() as waited:
            patched.setattr(torch.cuda, "is_available", lambda: True)
            patched.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
            encoded, lengths = recognizer._encode(sounds)
        assert waited == []
        with _waits() as waited:
            table, carried = recognizer._decode(encoded, lengths, [None, None])
        assert waited == [QUESTION] * (table.shape[1] + 1)
        with _waits() as waited:
            table, _ = recognizer._decode(*recognizer._stretches(encoded, lengths, [3, 5], [20, 25]), carried)
        assert waited == [QUESTION] * (table.shape[1] + 1)


@pytest.mark.parametrize("encoder", [0, 7, 1000])
@pytest.mark.parametrize("lag", [0, 1, 5, 40])
def test_a_card_is_waited_for_once_however_far_it_lags(
    recognizer: NemoRecognizer, monkeypatch: pytest.MonkeyPatch, lag: int, encoder: int
) -> None:
    """With a step in line; what it is given in vain is no more than it lags, and changes nothing."""
    import torch

    from seat.gpu import greedy

    asking = greedy._Progress
    frames, lengths = _frames(recognizer, 4), torch.tensor(LENGTHS)
    with torch.inference_mode():
        expected, _ = recognizer._decode(frames, lengths, [None] * len(LENGTHS))
        card = Card(lag=lag, encoder=encoder)
        monkeypatch.setattr(torch.cuda, "Event", card.event)
        monkeypatch.setattr(greedy, "_Progress", lambda _, *, patient: asking(torch.device("cuda"), patient=patient))
        table, carried = recognizer._decode(frames, lengths, [None] * len(LENGTHS))
        assert torch.equal(table[:, : expected.shape[1]], expected)
        assert (table[:, expected.shape[1] :, 0] == greedy.NO_TOKEN).all()
        assert table.shape[1] - expected.shape[1] <= max(lag, 1)
        assert card.waited_with in ([], [1])
        card.waited_with.clear()
        recognizer._decode(frames, lengths, carried, patient=False)
    assert card.waited_with == []


class Card:
    """Answers so many steps after it was asked, but not before its encoder is done, which takes as long as so many."""

    def __init__(self, *, lag: int, encoder: int) -> None:
        self._lag, self._encoder, self._now, self._asked = lag, encoder, 0, 0
        self.waited_with: list[int] = []
        """Steps that were in line behind the awaited one, for each time that the host waited."""

    def event(self) -> SimpleNamespace:
        """What takes the place of torch's event."""
        number, done_at = self._asked, -1

        def record() -> None:
            nonlocal done_at
            self._now, self._asked = self._now + 1, self._asked + 1
            done_at = max(self._now, self._encoder) + self._lag

        def synchronize() -> None:
            self.waited_with.append(self._asked - number - 1)
            self._now = max(self._now, done_at)

        return SimpleNamespace(record=record, synchronize=synchronize, query=lambda: self._now >= done_at)


@contextmanager
def _waits() -> Iterator[list[str]]:
    """Note the operations for which the host would wait for a card."""
    from torch.utils._python_dispatch import TorchDispatchMode

    waited: list[str] = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, call: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            masked = str(call).startswith("aten.index") and any(
                "bool" in str(i.dtype) for i in args[1] if i is not None
            )
            if masked or str(call).startswith(WAITS):
                waited.append(str(call))
            return call(*args, **(kwargs or {}))

    with Watch():
        yield waited
