"""Cure the token durations of NeMo 3.0.0's batched TDT decoding. Knows one line of NeMo; nothing else.

In the inner loop of `GreedyBatchedTDTLabelLoopingComputer.torch_impl` the durations of *all* rows are overwritten
while only some rows still search for a label, so a token's duration, and with it a word's end, depends on its
neighbours in the batch: 21 % of the tokens in a mixed batch. Cured upstream after 3.0.0 (NVIDIA-NeMo/Speech 16097,
16098), in the same way.
"""

from __future__ import annotations

import inspect
import textwrap

_INNER_LOOP = "while advance_mask.any():"
_FAULT = "durations = model_durations[jump_durations_indices]"
_CURE = "durations = torch.where(advance_mask, model_durations[jump_durations_indices], durations)"


def cure_durations() -> None:
    """Replace the faulty method by its own source with that line changed, unless NeMo has the cure already."""
    from nemo.collections.asr.parts.submodules.transducer_decoding import tdt_label_looping

    computer = tdt_label_looping.GreedyBatchedTDTLabelLoopingComputer
    if getattr(computer.torch_impl, "cured", False):
        return
    head, loop, body = textwrap.dedent(inspect.getsource(computer.torch_impl)).partition(_INNER_LOOP)
    if _FAULT not in body:
        return
    namespace = dict(vars(tdt_label_looping))
    source = head + loop + body.replace(_FAULT, _CURE, 1)
    exec(compile(source, f"{tdt_label_looping.__file__}:cured", "exec"), namespace)  # noqa: S102  NeMo's own source
    cured = namespace["torch_impl"]
    cured.cured = True
    computer.torch_impl = cured
