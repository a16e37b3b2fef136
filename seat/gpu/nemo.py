"""Run a NeMo transducer on waveforms, directly. Knows NeMo's modules; no queue, no words, no files.

`transcribe()` is never called: it costs 15 to 33 ms of Python a call, leaves the model in training mode, and two
callers corrupt it. The direct path gives the same tokens, times and confidences.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Sequence
from typing import Any

import torch
from omegaconf import OmegaConf, open_dict

from seat.gpu import checkpoint, device, logs, tdt
from seat.recognizer import ModelInfo, Recognition, Vocabulary, Waveform

MAX_SYMBOLS_PER_FRAME = 10
"""NeMo's own bound on tokens per encoder frame; without one, a confused model never leaves its frame."""

UNKNOWN = "\N{LOWER ONE EIGHTH BLOCK}\N{DOUBLE QUESTION MARK}"
"""How SentencePiece writes a token that stands for no letters: a word of its own."""

_INT16_SCALE = 2.0**-15


def load(*, model: str, model_id: str, sha256: str | None, device_name: str, dtype_name: str) -> NemoRecognizer:
    """Import NeMo, find the checkpoint, and put it on the device. Takes seconds; runs on the GPU thread.

    Args:
        model: As for `seat.gpu.checkpoint.locate`.
        model_id: The name clients use for it.
        sha256: The digest the file must have, or None.
        device_name: As for `seat.gpu.device.choose`.
        dtype_name: 'auto', 'float32' or 'bfloat16', of the encoder.

    Raises:
        CannotStart: The device, the file or its digest is not what was asked for.
    """
    target = device.choose(device_name)
    found = checkpoint.locate(model)
    digest = checkpoint.verify(found.path, sha256)
    logs.hush()
    import nemo.collections.asr  # noqa: F401  9 to 17 s, so not before the cheap checks
    from nemo.core.classes.common import typecheck

    logs.adopt()
    typecheck.set_typecheck_enabled(enabled=False)  # 3 ms of every call
    tdt.cure_durations()
    restored = checkpoint.restore(found.path)
    logging.getLogger("nemo_logger").setLevel(logging.WARNING)
    return NemoRecognizer(
        restored,
        target=target,
        dtype=device.encoder_dtype(dtype_name, target),
        model_id=model_id,
        revision=found.revision,
        sha256=digest,
    )


class NemoRecognizer:
    """A transducer (RNN-T or TDT) on one device; implements `seat.recognizer.Recognizer`."""

    def __init__(  # noqa: PLR0913  facts about the model, each named
        self,
        model: Any,  # noqa: ANN401  NeMo has no types
        *,
        target: torch.device,
        dtype: torch.dtype,
        model_id: str,
        revision: str | None = None,
        sha256: str | None = None,
    ) -> None:
        _use_full_attention(model.encoder)
        _decode_greedily(model)
        # The cast comes before the move: the card never holds the larger copy. Front end, decoder and joint stay
        # fp32: bf16 mel filters cost accuracy, and a bf16 joint leaves few distinct confidences.
        model.encoder.to(dtype)
        model.to(target)
        model.eval()
        model.freeze()
        model.preprocessor.featurizer.dither = 0.0
        model.preprocessor.featurizer.pad_to = 0
        self._model = model
        self._compute = model.decoding.decoding.decoding_computer
        weight = next(model.encoder.parameters())
        self._device, self._encoder_dtype = weight.device, weight.dtype
        self._decoder_dtype = next(model.joint.parameters()).dtype
        self.vocabulary = _vocabulary(model)
        self.info = ModelInfo(
            id=model_id,
            revision=revision,
            sha256=sha256,
            architecture=type(model).__name__,
            parameters=sum(parameter.numel() for parameter in model.parameters()),
            device=str(self._device),
            device_name=device.name_of(self._device),
            dtype=str(self._encoder_dtype).removeprefix("torch."),
            languages=("en",),
            versions=device.versions(),
        )

    @torch.inference_mode()
    def recognize(self, waveforms: Sequence[Waveform]) -> list[Recognition]:
        """Recognize a batch; see `seat.recognizer.Recognizer.recognize`."""
        lengths = [len(waveform) for waveform in waveforms]
        batch = torch.zeros(len(lengths), max(lengths), dtype=torch.int16, pin_memory=self._device.type == "cuda")
        for row, waveform in zip(batch, waveforms, strict=True):
            row[: len(waveform)] = torch.from_numpy(waveform)
        signal = batch.to(self._device, non_blocking=True).float().mul_(_INT16_SCALE)
        features, feature_lengths = self._model.preprocessor(
            input_signal=signal, length=torch.tensor(lengths, device=self._device)
        )
        encoded, encoded_lengths = self._model.encoder(
            audio_signal=features.to(self._encoder_dtype), length=feature_lengths
        )
        hypotheses, _ = self._compute(
            x=encoded.to(self._decoder_dtype).transpose(1, 2), out_len=encoded_lengths, prev_batched_state=None
        )
        return _recognitions(hypotheses, len(lengths))


def _recognitions(hypotheses: Any, count: int) -> list[Recognition]:  # noqa: ANN401
    """Copy the first ``count`` rows of NeMo's batched hypotheses into plain numbers."""
    emitted, tokens, frames, durations, confidences = hypotheses.get_data_without_blank()
    numbers = emitted[:count].tolist()
    longest = max(numbers)
    rows = [table[:count, :longest].tolist() for table in (tokens, frames, confidences)]
    covered = [[1] * longest] * count if durations is None else durations[:count, :longest].tolist()
    return [
        Recognition(tokens=tuple(y[:n]), frames=tuple(t[:n]), durations=tuple(d[:n]), confidences=tuple(c[:n]))
        for n, y, t, c, d in zip(numbers, *rows, covered, strict=True)
    ]


def _use_full_attention(encoder: Any) -> None:  # noqa: ANN401
    """Let every frame of a window see the whole window, also on models trained with chunks of several sizes."""
    if encoder.att_context_style == "chunked_limited_with_rc":
        encoder.att_context_size = [-1, -1, -1]


def _decode_greedily(model: Any) -> None:  # noqa: ANN401
    """Set batched greedy decoding with token confidences, once: every change rebuilds NeMo's decoder."""
    decoding = copy.deepcopy(model.cfg.decoding)
    with open_dict(decoding):
        decoding.strategy = "greedy_batch"
        decoding.fused_batch_size = -1
        decoding.compute_timestamps = False
        decoding.tdt_include_token_duration = True
        decoding.preserve_alignments = False
        decoding.setdefault("greedy", {})
        decoding.greedy.loop_labels = True
        decoding.greedy.max_symbols = MAX_SYMBOLS_PER_FRAME
        decoding.greedy.use_cuda_graph_decoder = False
        decoding.greedy.preserve_alignments = False
        decoding.confidence_cfg = OmegaConf.create(TOKEN_CONFIDENCE)
    model.change_decoding_strategy(decoding, verbose=False)


TOKEN_CONFIDENCE = {
    "preserve_frame_confidence": True,
    "preserve_token_confidence": True,
    "preserve_word_confidence": False,
    "exclude_blank": True,
    "aggregation": "mean",
    "tdt_include_duration": False,
    "method_cfg": {"name": "max_prob", "alpha": 1.0, "entropy_type": "tsallis", "entropy_norm": "exp"},
}
"""NeMo's confidence settings that yield the probability of each emitted token, without the cost of recording blanks."""


def _vocabulary(model: Any) -> Vocabulary:  # noqa: ANN401
    pieces = model.tokenizer.tokenizer
    return Vocabulary(
        pieces=tuple(
            UNKNOWN if pieces.is_unknown(number) else pieces.id_to_piece(number)
            for number in range(pieces.get_piece_size())
        ),
        punctuation=frozenset(model.decoding.supported_punctuation or ()),
        frame_s=model.cfg.preprocessor.window_stride * model.encoder.subsampling_factor,
        predicts_durations=bool(model.decoding.durations),
    )
