"""Full attention in blocks is NeMo's; local attention is NeMo's without what its own switch leaves behind."""

from __future__ import annotations

import copy
import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from seat.gpu.attention import Attention, AttentionBank, Kind, bound_attention, choose
from seat.gpu.subsampling import chunk_subsampling
from tests.encoders import PARAKEET, TINY, UNIFIED, batch, conformer, on_meta, peak
from tests.tiny import build, chirps

NOISE = 2e-6
"""Sums of the same float32 products in another order, through two layers."""

CONTEXT = (5, 5)

CONTEXTS = {"full": [-1, -1], "local": list(CONTEXT)}

KINDS = [{"use_bias": True}, {"use_bias": False}, UNIFIED, {"use_pytorch_sdpa": True}, {"untie_biases": False}]
"""Of encoders, each with its own trap."""

CAUSAL = {
    "causal_downsampling": True,
    "conv_context_size": "causal",
    "conv_norm_type": "layer_norm",
    "att_context_style": "chunked_limited",
    "att_context_size": [[70, 13], [70, 1]],
}
"""One made for streams, whose subsampling is not the one that is known here."""

model = pytest.mark.model
kinds = pytest.mark.parametrize("kind", KINDS, ids=["regular", "without_bias", "unified", "sdpa", "tied"])


def _encode(encoder: Any, frames: int = 333, *shorter: int) -> torch.Tensor:
    with torch.inference_mode():
        encoded, _ = encoder(**batch(encoder, frames, [frames, *(shorter or (frames - 150,))]))
    result: torch.Tensor = encoded
    return result


def _modules(encoder: Any) -> list[Any]:
    return [encoder.pos_enc, *(layer.self_attn for layer in encoder.layers)]


@pytest.mark.parametrize(
    "mode, seconds, expected",
    [
        ("full", 1, "full"),
        ("full", 9000, "full"),
        ("local", 1, "local"),
        ("local", 9000, "local"),
        ("auto", 299.9, "full"),
        ("auto", 300, "full"),
        ("auto", 300.1, "local"),
    ],
)
def test_the_longest_window_of_a_batch_decides(mode: Attention, seconds: float, expected: Kind) -> None:
    """Only where it is left to decide."""
    assert expected == choose(mode, seconds, threshold_s=300)


@model
@pytest.mark.parametrize("frames, shorter", [(1, 0), (9, 3), (333, 20), (1000, 700)])
@pytest.mark.parametrize("scores_per_block", [1, 700, 20_000])
def test_blocks_of_rows_give_what_the_whole_gives(frames: int, shorter: int, scores_per_block: int) -> None:
    """From a row at a time to several blocks, with padding."""
    encoder = conformer(TINY)
    expected = _encode(encoder, frames, shorter)
    assert bound_attention(encoder, scores_per_block=scores_per_block)
    torch.testing.assert_close(_encode(encoder, frames, shorter), expected, rtol=0, atol=NOISE)


@model
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kind", [{"use_bias": True}, {"use_bias": False}, UNIFIED], ids=["regular", "bare", "unified"])
def test_windows_of_one_block_are_equal_to_the_bit(dtype: torch.dtype, kind: dict[str, Any]) -> None:
    """The same products, scaled, masked and summed in the same order; weights keep names and storage."""
    encoder = conformer(TINY, **kind).to(dtype)
    expected = _encode(encoder)
    before = {name: tensor.data_ptr() for name, tensor in encoder.state_dict().items()}
    assert bound_attention(encoder)
    assert torch.equal(expected, _encode(encoder))
    assert before == {name: tensor.data_ptr() for name, tensor in encoder.state_dict().items()}
    assert not any(module.training for module in encoder.modules())


@model
def test_memory_of_full_attention_grows_with_the_window_and_not_with_its_square() -> None:
    """But for the mask, one byte for each pair of frames, of which NeMo holds four copies while it makes it."""
    encoder = on_meta(conformer(PARAKEET), torch.bfloat16)
    chunk_subsampling(encoder)
    bound_attention(encoder)
    short, long = (peak(encoder, seconds) - 4 * (seconds * 100 // 8) ** 2 for seconds in (180, 720))
    assert long <= 4 * short


@model
def test_the_table_of_positions_lasts_eight_times_as_long() -> None:
    """It grows at its first window of more encoder frames than it has rows; the numbers stay NeMo's."""
    stock = conformer(TINY, pos_emb_max_len=50)
    ours = copy.deepcopy(stock)
    chunk_subsampling(ours)
    bound_attention(ours)
    rows = {}
    for frames in (400, 401, 1000):
        torch.testing.assert_close(_encode(ours, frames), _encode(stock, frames), rtol=0, atol=NOISE)
        rows[frames] = (ours.pos_enc.pe.shape[1], stock.pos_enc.pe.shape[1])
    assert rows == {400: (99, 799), 401: (101, 801), 1000: (249, 1999)}
    assert not ours.pos_enc.pe.is_inference()


@model
@pytest.mark.parametrize(
    "changes",
    [
        {"use_pytorch_sdpa": True},
        {"self_attention_model": "rel_pos_local_attn", "att_context_size": [5, 5]},
    ],
    ids=["sdpa", "local"],
)
def test_other_attention_is_not_computed_in_blocks(changes: dict[str, Any]) -> None:
    """Nothing is touched there."""
    encoder = conformer(TINY, **changes)
    before = _modules(encoder)
    assert not bound_attention(encoder)
    assert all(old is new for old, new in zip(before, _modules(encoder), strict=True))


def _as_nemo_switches(encoder: Any, which: Kind) -> Any:
    """A copy switched by NeMo, its residues cured one by one."""
    switched = copy.deepcopy(encoder)
    switched.use_pytorch_sdpa = False  # NeMo refuses to build local attention otherwise
    dtype = next(encoder.parameters()).dtype
    model = {"full": "rel_pos", "local": "rel_pos_local_attn"}[which]
    switched.change_attention_model(model, CONTEXTS[which], device=torch.device("cpu"), update_config=False)
    for layer, old in zip(switched.layers, encoder.layers, strict=True):
        for name in ("linear_q", "linear_k", "linear_v", "linear_out"):
            if getattr(old.self_attn, name).bias is None:
                getattr(layer.self_attn, name).bias = None
    switched.to(dtype)
    switched.eval()
    return switched


@model
@pytest.mark.parametrize("blocks", [True, False], ids=["blocks", "stock"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@kinds
def test_both_sets_are_exact_and_leave_no_residue(
    kind: dict[str, Any],
    dtype: torch.dtype,
    blocks: bool,  # noqa: FBT001  a parameter of pytest's
) -> None:
    """Full is bit-equal before and after; local is NeMo's, without float32, training mode, random biases, gradients."""
    encoder = conformer(TINY, **kind).to(dtype)
    stock = copy.deepcopy(encoder)
    if blocks:
        bound_attention(encoder)
    full = _encode(encoder)
    names = {name: tensor.data_ptr() for name, tensor in encoder.state_dict().items()}
    bank = AttentionBank(encoder, local_context=CONTEXT)
    for _ in range(3):
        bank.use("local")
        local = _encode(encoder)
        assert torch.equal(_encode(_as_nemo_switches(stock, "local")), local)
        assert names == {name: tensor.data_ptr() for name, tensor in encoder.state_dict().items()}
        assert {parameter.dtype for parameter in encoder.parameters()} == {dtype}
        assert not any(module.training for module in encoder.modules())
        assert not any(parameter.requires_grad for parameter in encoder.parameters())
        bank.use("full")
        assert torch.equal(full, _encode(encoder))
    assert not torch.equal(full, local)


@model
def test_a_context_as_wide_as_the_window_sees_what_full_attention_sees() -> None:
    """Only the order of the sums differs."""
    encoder = conformer(TINY)
    expected = _encode(encoder, 333)
    AttentionBank(encoder, local_context=(64, 64)).use("local")
    torch.testing.assert_close(_encode(encoder, 333), expected, rtol=0, atol=10 * NOISE)


@model
def test_left_and_right_may_differ() -> None:
    """As NeMo computes it."""
    encoder = conformer(TINY)
    stock = copy.deepcopy(encoder)
    stock.change_attention_model("rel_pos_local_attn", [7, 3], device=torch.device("cpu"), update_config=False)
    AttentionBank(encoder, local_context=(7, 3)).use("local")
    assert torch.equal(_encode(stock.eval()), _encode(encoder))


@model
def test_a_model_of_several_chunk_sizes_sees_everything_on_full() -> None:
    """Its context has three numbers on full, two on local; NeMo asserts otherwise."""
    encoder = conformer(TINY, **UNIFIED)
    encoder.att_context_size = [70, 13, 13]
    bank = AttentionBank(encoder, local_context=CONTEXT)
    assert encoder.att_context_size == [-1, -1, -1]
    bank.use("local")
    assert encoder.att_context_size == list(CONTEXT)
    bank.use("full")
    assert encoder.att_context_size == [-1, -1, -1]


@model
def test_a_bank_may_be_built_before_the_encoder_is_cast() -> None:
    """Each set's table of positions follows at the next switch, whichever was in use when the cast came."""
    encoder = conformer(TINY)
    expected = {which: copy.deepcopy(encoder).to(torch.bfloat16) for which in ("full", "local")}
    AttentionBank(expected["local"], local_context=CONTEXT).use("local")
    bank = AttentionBank(encoder, local_context=CONTEXT)
    encoder.to(torch.bfloat16)
    for which in ("local", "full", "local"):
        bank.use(which)
        assert torch.equal(_encode(expected[which]), _encode(encoder))
    encoder.to(torch.float32)
    bank.use("full")
    assert _encode(encoder).dtype == torch.float32


@model
def test_a_bank_built_in_inference_mode_holds_nothing_of_it() -> None:
    """Its tensors could not be moved or loaded later."""
    encoder = conformer(TINY)
    with torch.inference_mode():
        bank = AttentionBank(encoder, local_context=CONTEXT)
        bank.use("local")
    tensors = [*encoder.parameters(), *encoder.buffers(), encoder.pos_enc.pe]
    assert not any(tensor.is_inference() for tensor in tensors)


@model
def test_a_set_out_of_use_follows_the_encoder_into_evaluation() -> None:
    """Otherwise full attention would come back with dropout."""
    encoder = conformer(TINY)
    expected = _encode(encoder)
    bank = AttentionBank(encoder.train(), local_context=CONTEXT)
    bank.use("local")
    encoder.eval()
    bank.use("full")
    assert not any(module.training for module in encoder.modules())
    assert torch.equal(expected, _encode(encoder))


@model
def test_a_long_window_on_local_does_not_cut_the_positions_of_full() -> None:
    """NeMo remembers one length for both tables: full would then read past the start of its own."""
    encoder = conformer(TINY, pos_emb_max_len=50)
    expected = _encode(copy.deepcopy(encoder), 1000)
    bank = AttentionBank(encoder, local_context=CONTEXT)
    bank.use("local")
    _encode(encoder, 1000)
    bank.use("full")
    assert torch.equal(expected, _encode(encoder, 1000))


def _classes() -> tuple[type, type]:
    from nemo.collections.asr.parts.submodules import multi_head_attention

    local = multi_head_attention.RelPositionMultiHeadAttentionLongformer
    return multi_head_attention.RelPositionMultiHeadAttention, local


def _living(bank: AttentionBank, encoder: Any, *, switches: int) -> int:
    """Tensors and modules in the process after so many switches there and back."""
    for _ in range(switches):
        for which in ("local", "full"):
            bank.use(which)
            _encode(encoder, 80)
    gc.collect()
    return sum(issubclass(type(thing), (torch.Tensor, torch.nn.Module)) for thing in gc.get_objects())


@model
def test_nothing_grows_with_switches_and_everything_goes_with_the_bank() -> None:
    """NeMo's own switch leaves every module it ever built in a cache of the class."""
    encoder = conformer(TINY)
    bank = AttentionBank(encoder, local_context=CONTEXT)
    cache = _classes()[1]._get_invalid_locations_mask  # type: ignore[attr-defined]
    cache.cache_clear()

    before = _living(bank, encoder, switches=2)
    assert before == _living(bank, encoder, switches=20)
    assert cache.cache_info().currsize == 0
    bank.use("local")
    alive = [weakref.ref(module) for module in _modules(encoder)]
    bank.use("full")
    del bank
    gc.collect()
    assert [reference() for reference in alive] == [None] * len(alive)


@model
@pytest.mark.parametrize("kind", ["local", "full"])
def test_a_switch_computes_nothing_and_takes_no_memory(kind: Kind) -> None:
    """NeMo's takes two seconds for 24 layers of a large model; ours runs no operation, and has 0.4 MiB of positions."""

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
            ran.append(str(function))
            return function(*args, **(kwargs or {}))

    ran: list[str] = []
    encoder = conformer(TINY | {"n_layers": 24})
    before = sum(parameter.numel() for parameter in encoder.parameters())
    bank = AttentionBank(encoder)
    for which in ("local", "full", *({"local", "full"} - {kind})):
        bank.use(which)
    with Watch():
        bank.use(kind)
    assert ran == []
    bank.use("local")
    assert before == sum(parameter.numel() for parameter in encoder.parameters())
    assert encoder.pos_enc.pe.shape == (1, 257, TINY["d_model"])


@model
def test_what_cannot_be_made_local_is_said_so() -> None:
    """A sentence that fits behind 'The model cannot be loaded:'."""
    local = conformer(TINY, self_attention_model="rel_pos_local_attn", att_context_size=[5, 5])
    with pytest.raises(ValueError, match="its attention is 'rel_pos_local_attn'"):
        AttentionBank(local)
    with pytest.raises(ValueError, match=r"at least 1 frame to each side, not \(0, 128\)"):
        AttentionBank(conformer(TINY), local_context=(0, 128))


@model
@pytest.mark.parametrize("kind", [*KINDS, CAUSAL])
def test_a_table_of_positions_that_grew_while_serving_can_be_moved(kind: dict[str, Any]) -> None:
    """As weights are when a seat releases its card."""
    encoder = conformer(TINY, pos_emb_max_len=20, **kind)
    chunk_subsampling(encoder)
    bound_attention(encoder)
    before = encoder.pos_enc.pe.shape[1]
    _encode(encoder, 8 * 50)
    assert encoder.pos_enc.pe.shape[1] > before
    encoder.pos_enc.pe.data = encoder.pos_enc.pe.data.clone()


@model
def test_a_recognizer_left_to_decide_sees_short_audio_whole_and_long_audio_locally(
    load_nemo: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """By the longest window of each batch; on either side of the threshold it hears what those recognizers hear."""
    path = str(build(tmp_path_factory.mktemp("tdt"), "tdt"))
    full = load_nemo(path)
    local, auto = (
        load_nemo(path, attention=attention, auto_attention_s=3, local_context=(16, 16))
        for attention in ("local", "auto")
    )
    short, long = ((chirps(seconds) * 32767).astype(np.int16) for seconds in (2, 8))
    assert full.recognize([long]) != local.recognize([long])
    for waveforms, expected in (([short], full), ([long], local), ([short, long], local), ([short, short], full)):
        assert expected.recognize(waveforms) == auto.recognize(waveforms)
