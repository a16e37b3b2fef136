"""Compile the layers of an encoder. Knows torch.compile and NeMo's conformer layers; no audio, no windows.

Compiled is what lies around attention: norms, activations, gates, convolutions, residuals. Attention itself stays as
it is: its loop over blocks of rows would be unrolled anew for every length, and what it does is matrix products. So a
layer is two pieces of code, and all layers share both. torch makes one kind of them for a lone item and one for
several, each for any number of frames; both are made before `compile_layers` returns, and nothing is compiled later.
"""

from __future__ import annotations

from typing import Any

import torch

from seat.faults import is_fatal, is_shortage
from seat.gpu.attention import Attention
from seat.telemetry import log

_TRIED = ((1, 100), (1, 300), (2, 300), (3, 100))
"""Items and mel frames that are run at once: every kind of code that a batch can need, and one more to see that it
does for another length. No number is one of the model's own dimensions, which torch would take to be meant."""


def compile_layers(encoder: Any, attention: Attention) -> bool:  # noqa: ANN401  NeMo has no types
    """Compile a loaded encoder's layers where that can be, and run them; its weights keep their names and storage.

    Args:
        encoder: NeMo's `ConformerEncoder`, cast and on its device.
        attention: What was asked for; only 'full' is compiled.

    Returns:
        Whether it computes with compiled layers from now on. The log says why, where it does not.
    """
    if attention != "full":
        reason = "only full attention is compiled: a layer that changes its kind would be compiled anew while serving"
        log.warning("compile_skipped", attention=attention, reason=reason)
        return False
    from torch._inductor import config  # 1 s, which only who compiles need pay

    config.compile_threads = 1  # else it leaves worker processes behind, for life
    torch.compiler.set_stance("default")
    for layer in encoder.layers:
        layer.self_attn.forward = torch.compiler.disable(layer.self_attn.forward)
        layer.compile(dynamic=True)
    try:
        _run(encoder)
    except Exception as fault:
        for layer in encoder.layers:
            del layer.self_attn.forward
            layer._compiled_call_impl = None  # noqa: SLF001  what `nn.Module.compile` sets
        if is_fatal(fault) or is_shortage(fault):
            raise
        log.warning("compile_failed", reason=f"{type(fault).__name__}: {str(fault).partition(chr(10))[0]}")
        return False
    torch.compiler.set_stance("eager_on_recompile")  # what was not foreseen runs as it would have without us
    return True


@torch.inference_mode()
def _run(encoder: Any) -> None:  # noqa: ANN401
    weight = next(encoder.parameters())
    for items, frames in _TRIED:
        features = torch.zeros(items, encoder._feat_in, frames, dtype=weight.dtype, device=weight.device)  # noqa: SLF001
        encoder(audio_signal=features, length=torch.full((items,), frames, device=weight.device))
