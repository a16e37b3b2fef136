"""The subsampling in stretches gives NeMo's frames, and takes a fraction of the memory."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seat.gpu.attention import bound_attention
from seat.gpu.subsampling import ChunkedSubsampling, chunk_subsampling
from tests.encoders import DEMO, PARAKEET, TINY, UNIFIED, conformer, on_meta, peak

pytestmark = pytest.mark.model

NOISE = 1e-6
"""Sums of the same float32 products in another order."""

SHARE = 0.35
"""Of NeMo's own peak, at most, for a window of 360 s."""


@pytest.fixture(scope="module")
def whole() -> Any:
    """NeMo's subsampling, tiny."""
    return conformer(TINY).pre_encode


@st.composite
def _ragged(draw: st.DrawFn) -> tuple[int, list[int]]:
    frames = draw(st.integers(1, 90))
    lengths = draw(st.lists(st.integers(0, frames), min_size=1, max_size=4))
    return frames, lengths


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(shape=_ragged(), chunk=st.integers(1, 12).map(lambda frames: 8 * frames), seed=st.integers(0, 9))
@torch.inference_mode()
def test_stretches_give_what_the_whole_gives(whole: Any, shape: tuple[int, list[int]], chunk: int, seed: int) -> None:
    """Any length down to one frame, items of any shorter length, noise in the padding, any length of stretch."""
    frames, lengths = shape
    torch.manual_seed(seed)
    x, valid = torch.randn(len(lengths), frames, TINY["feat_in"]), torch.tensor(lengths)
    untouched = x.clone()
    expected, expected_lengths = whole(x=x.clone(), lengths=valid)
    chunked = ChunkedSubsampling(whole, frames_per_chunk=chunk, least_frames=8)
    actual, actual_lengths = chunked(x=x, lengths=valid)
    assert expected.shape == actual.shape
    assert torch.equal(expected_lengths, actual_lengths)
    assert expected_lengths.dtype == actual_lengths.dtype
    torch.testing.assert_close(actual, expected, rtol=0, atol=NOISE)
    assert torch.equal(untouched, x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@torch.inference_mode()
def test_windows_as_they_are_served_give_the_same_frames(dtype: torch.dtype) -> None:
    """At the lengths of stretch in use, for the bundled model's dimensions, one item much shorter than its mates."""
    encoder = conformer(DEMO, **UNIFIED).to(dtype)
    x, lengths = torch.randn(3, 4500, 80, dtype=dtype), torch.tensor([4500, 4499, 70])
    expected, expected_lengths = encoder.pre_encode(x=x, lengths=lengths)
    assert chunk_subsampling(encoder)
    actual, actual_lengths = encoder.pre_encode(x=x, lengths=lengths)
    assert torch.equal(expected_lengths, actual_lengths)
    torch.testing.assert_close(actual, expected, rtol=0, atol=NOISE if dtype == torch.float32 else 2**-7)


def test_weights_keep_their_names_and_their_storage() -> None:
    """A checkpoint still fits, and nothing is held twice; nor does anything start to train."""
    encoder = conformer(TINY)
    before = {name: tensor.data_ptr() for name, tensor in encoder.state_dict().items()}
    assert chunk_subsampling(encoder)
    assert before == {name: tensor.data_ptr() for name, tensor in encoder.state_dict().items()}
    assert not any(module.training for module in encoder.modules())


@pytest.mark.parametrize(
    "changes",
    [
        {"causal_downsampling": True},
        {"subsampling": "striding"},
        {"subsampling": "vggnet"},
        {"subsampling": "dw_striding_conv1d"},
        {"subsampling": "stacking"},
        {"subsampling": False},
    ],
    ids=lambda changes: "-".join(map(str, changes.values())),
)
def test_other_layouts_are_left_alone(changes: dict[str, Any]) -> None:
    """They depend on other frames."""
    encoder = conformer(TINY, **changes)
    before = encoder.pre_encode
    assert not chunk_subsampling(encoder)
    assert before is encoder.pre_encode


def _ours(encoder: Any) -> Any:
    ours = copy.deepcopy(encoder)
    assert chunk_subsampling(ours)
    bound_attention(ours)
    return ours


@pytest.mark.parametrize("attention", ["rel_pos", "rel_pos_local_attn"])
@pytest.mark.parametrize("grown", [True, False], ids=["later", "first"])
def test_a_long_window_takes_a_third_of_nemos_memory_at_the_dimensions_of_a_large_model(
    attention: str,
    grown: bool,  # noqa: FBT001  a parameter of pytest's
) -> None:
    """The whole encoder at 360 s in bfloat16, on the first window of that length and later, full and local."""
    context = [-1, -1] if attention == "rel_pos" else [128, 128]
    stock = on_meta(conformer(PARAKEET, self_attention_model=attention, att_context_size=context), torch.bfloat16)
    ours = _ours(stock)
    assert peak(ours, 360, grown=grown) <= SHARE * peak(stock, 360, grown=grown)


def test_the_subsampling_itself_takes_the_same_for_any_batch() -> None:
    """What grows is its result, 2 KiB an encoder frame."""
    from tests.tracker import LiveBytes

    encoder = on_meta(conformer(PARAKEET), torch.bfloat16)
    chunk_subsampling(encoder)
    peaks = {}
    for items, frames in ((1, 3000), (1, 36_000), (8, 4500)):
        x = torch.zeros(items, frames, 128, dtype=torch.bfloat16, device="meta")
        with torch.inference_mode(), LiveBytes([*encoder.parameters(), x]) as tensors:
            encoder.pre_encode(x=x, lengths=torch.full((items,), frames, device="meta"))
        peaks[items, frames] = tensors.peak - 2 * items * frames // 8 * 2048
    assert max(peaks.values()) < 64 * 2**20


@pytest.mark.parametrize(
    "attention, context, share",
    [("rel_pos", [-1, -1], SHARE), ("rel_pos_local_attn", [128, 128], 0.6)],
    ids=["full", "local"],
)
def test_a_long_window_takes_less_than_nemos_for_real(attention: str, context: list[int], share: float) -> None:
    """The bundled model's dimensions, in float32, computed.

    With few channels and wide local attention, the scores within its context are what is left: 127 of 222 MiB.
    """
    stock = conformer(DEMO, self_attention_model=attention, att_context_size=context)
    ours = _ours(stock)
    assert peak(ours, 360) <= share * peak(stock, 360)
