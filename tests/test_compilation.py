"""Compiled layers hear what plain ones hear, and nothing is compiled while serving."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pytest
from structlog.testing import capture_logs

from seat.gpu import logs
from seat.recognizer import Waveform
from tests.encoders import TINY, conformer
from tests.tiny import build, chirps

if TYPE_CHECKING:
    from seat.gpu.attention import Attention
    from seat.gpu.nemo import NemoRecognizer

needs_compiler = pytest.mark.skipif(
    not any(map(shutil.which, ("c++", "g++", "clang++"))), reason="torch writes C++ here, and there is no compiler"
)
pytestmark = [pytest.mark.model, pytest.mark.timeout(300)]


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    """Compile from the beginning, and leave nothing compiled."""
    logs.hush()
    import torch
    from torch._dynamo.utils import counters

    torch.compiler.reset()
    counters.clear()
    yield
    torch.compiler.reset()
    torch.compiler.set_stance("default")


def _sound(seconds: int) -> Waveform:
    return (chirps(seconds, seconds) * 32767).astype(np.int16)


def _pieces() -> int:
    from torch._dynamo.utils import counters

    return int(counters["stats"]["unique_graphs"])


@needs_compiler
@pytest.mark.parametrize("kind", ["rnnt", "tdt"])
def test_compiled_layers_hear_the_same(
    load_nemo: Callable[..., NemoRecognizer], tmp_path: Path, kind: Literal["rnnt", "tdt"]
) -> None:
    """One, several, short, long, weights gone and back: the same tokens, and what is compiled is from the start."""
    path = str(build(tmp_path, kind))
    batches = [[_sound(seconds) for seconds in mix] for mix in ((1,), (45,), (2, 3), (5, 6, 7, 8, 9), (20,))]
    plain = load_nemo(path)
    expected = [plain.recognize(batch) for batch in batches]
    assert not plain.info.compiled

    compiled = load_nemo(path, torch_compile=True)
    assert compiled.info.compiled
    pieces = _pieces()
    assert pieces == 4, "before and after attention, for one item and for several; the layers share them"
    for again in range(2):
        for batch, heard in zip(batches, expected, strict=True):
            for one, other in zip(heard, compiled.recognize(batch), strict=True):
                assert (one.tokens, one.frames, one.durations) == (other.tokens, other.frames, other.durations)
                assert one.confidences == pytest.approx(other.confidences, abs=1e-4)
        if not again:
            compiled.release()
            compiled.restore()
    assert _pieces() == pieces
    assert set(plain._model.state_dict()) == set(compiled._model.state_dict())


@pytest.mark.parametrize("attention", ["auto", "local"])
def test_other_attention_is_not_compiled(attention: Attention) -> None:
    """It is skipped, and the log says why."""
    from seat.gpu.compilation import compile_layers

    with capture_logs() as events:
        assert not compile_layers(conformer(TINY), attention)
    (event,) = events
    assert (event["event"], event["attention"]) == ("compile_skipped", attention)
    assert "only full attention" in event["reason"]


def test_a_seat_whose_layers_do_not_compile_goes_on_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine without a compiler: the log says so, and the encoder is what it was."""
    import torch

    from seat.gpu.attention import bound_attention
    from seat.gpu.compilation import compile_layers

    encoder = conformer(TINY)
    bound_attention(encoder)
    features = torch.randn(1, 16, 200)
    arguments: dict[str, Any] = {"audio_signal": features, "length": torch.tensor([200])}
    before = encoder(**arguments)[0]
    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setattr(torch._inductor.config, "force_disable_caches", True)
    monkeypatch.setattr(torch._inductor.config.cpp, "cxx", ("no-such-compiler",))
    with capture_logs() as events:
        assert not compile_layers(encoder, "full")
    assert [event["event"] for event in events] == ["compile_failed"]
    assert torch.equal(before, encoder(**arguments)[0])
