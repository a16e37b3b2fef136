"""Run a NeMo transducer on waveforms, directly. Knows NeMo's modules; no queue, no words, no files.

`transcribe()` is never called: it costs 15 to 33 ms of Python a call, leaves the model in training mode, and two
callers corrupt it. The direct path gives the same tokens, times and confidences.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import torch
from omegaconf import OmegaConf, open_dict

from seat.caps import cap_nbytes, no_room_for_weights
from seat.errors import ModelUnavailable
from seat.gpu import checkpoint, device, graphs, logs
from seat.gpu.attention import Attention, AttentionBank, Kind, bound_attention, choose, see_all
from seat.gpu.compilation import compile_layers
from seat.gpu.features import Features
from seat.gpu.greedy import NO_TOKEN, Greedy
from seat.gpu.residence import Residence
from seat.gpu.subsampling import chunk_subsampling
from seat.meter import Meter
from seat.recognizer import SAMPLE_RATE, Chunk, Examination, ModelInfo, Recognition, Vocabulary, Waveform, joined
from seat.resident import ResidentMeter

MAX_SYMBOLS_PER_FRAME = 10
"""NeMo's own bound on tokens per encoder frame; without one, a confused model never leaves its frame."""

UNKNOWN = "\N{LOWER ONE EIGHTH BLOCK}\N{DOUBLE QUESTION MARK}"
"""How SentencePiece writes a token that stands for no letters: a word of its own."""

_INT16_SCALE = 2.0**-15


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """How a model computes; what it hears is the same, but for the attention."""

    attention: Attention = "full"
    """As for `seat.gpu.attention.choose`."""
    auto_attention_s: float = 300
    """The longest window, in seconds, that 'auto' gives full attention."""
    local_context: tuple[int, int] = (128, 128)
    """Encoder frames (80 ms) that local attention sees to the left and to the right."""
    cuda_graphs: bool = False
    """Whether to decode with CUDA graphs; nothing may be given back to the driver then."""
    torch_compile: bool = False
    """Whether to compile the encoder's layers, where its attention is full."""


def load(  # noqa: PLR0913  what is loaded and where, each named
    *,
    model: str,
    model_id: str,
    sha256: str | None,
    device_name: str,
    dtype_name: str,
    mem_cap_mib: int | None = None,
    options: Options = Options(),
) -> NemoRecognizer:
    """Import NeMo, find the checkpoint, and put it on the device. Takes seconds; runs on the GPU thread.

    Args:
        model: As for `seat.gpu.checkpoint.locate`.
        model_id: The name clients use for it.
        sha256: The digest the file must have, or None.
        device_name: As for `seat.gpu.device.choose`.
        dtype_name: 'auto', 'float32' or 'bfloat16', of the encoder.
        mem_cap_mib: As for `seat.caps.cap_nbytes`.
        options: How it computes.

    Raises:
        CannotStart: The device, the file or its digest is not what was asked for, or the model has no attention that
            can be made local.
    """
    target, meter = device.choose(device_name)
    cap = cap_nbytes(mem_cap_mib, str(target))
    meter.bound(cap)  # for loading and warm-up; what lies outside grows meanwhile and is measured again then
    found = checkpoint.locate(model)
    logs.hush()
    with ThreadPoolExecutor(1) as pool:  # 3 s for 2.4 GB, while NeMo is imported in 9 to 17 s
        verifying = pool.submit(checkpoint.verify, found.path, sha256)
        import nemo.collections.asr  # noqa: F401  not before the cheap checks
        from nemo.core.classes.common import typecheck

        digest = verifying.result()
    logs.adopt()
    typecheck.set_typecheck_enabled(enabled=False)  # 3 ms of every call
    restored = checkpoint.restore(found.path)
    logging.getLogger("nemo_logger").setLevel(logging.WARNING)
    try:
        return NemoRecognizer(
            restored,
            target=target,
            meter=meter,
            dtype=device.encoder_dtype(dtype_name, target),
            model_id=model_id,
            revision=found.revision,
            sha256=digest,
            options=options,
        )
    except torch.OutOfMemoryError as fault:
        weights = sum(parameter.nbytes for parameter in restored.parameters())
        raise no_room_for_weights(meter, cap, weights) from fault


class NemoRecognizer:
    """A transducer (RNN-T or TDT) on one device; implements `seat.recognizer.Recognizer`."""

    def __init__(  # noqa: PLR0913  facts about the model, each named
        self,
        model: Any,  # noqa: ANN401  NeMo has no types
        *,
        target: torch.device,
        dtype: torch.dtype,
        model_id: str,
        meter: Meter | None = None,
        revision: str | None = None,
        sha256: str | None = None,
        options: Options = Options(),
    ) -> None:
        see_all(model.encoder)
        _decode_greedily(model, cuda_graphs=options.cuda_graphs)
        # The cast comes before the move: the card never holds the larger copy. Front end, decoder and joint stay
        # fp32: bf16 mel filters cost accuracy, and a bf16 joint leaves few distinct confidences.
        model.encoder.to(dtype)
        model.to(target)
        model.eval()
        model.freeze()
        self._features = Features(model.preprocessor)
        chunk_subsampling(model.encoder)
        bound_attention(model.encoder)
        self._options = options
        whole = options.attention == "full"
        self._bank = None if whole else _attention_bank(model.encoder, options.local_context, model_id)
        self.meter = meter or ResidentMeter()
        self._residence = Residence(model, target)
        self._model = model
        weight = next(model.encoder.parameters())
        self._device, self._encoder_dtype = weight.device, weight.dtype
        self._decoder_dtype = next(model.joint.parameters()).dtype
        self._computer = model.decoding.decoding.decoding_computer
        self._decode: Any = Greedy(
            model, durations=model.decoding.durations or (), most_per_frame=MAX_SYMBOLS_PER_FRAME
        )
        if self.graphs != "off":
            self._decode = graphs.Graphs(self._computer)
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
            compiled=options.torch_compile and compile_layers(model.encoder, options.attention),
        )

    def pad(self, waveforms: Sequence[Waveform]) -> torch.Tensor:
        """Lay waveforms side by side, shape (batch, samples); see `seat.recognizer.Recognizer.pad`.

        numpy copies: torch would start OpenMP's threads anew for each thread that this is called on.
        """
        width, pinned = max(map(len, waveforms)), self._device.type == "cuda"
        batch = torch.empty(len(waveforms), width, dtype=torch.int16, pin_memory=pinned)
        for row, waveform in zip(batch.numpy(), waveforms, strict=True):
            row[: len(waveform)], row[len(waveform) :] = waveform, 0
        return batch

    @torch.inference_mode()
    def recognize(self, waveforms: Sequence[Waveform], padded: object | None = None) -> list[Recognition]:
        """Recognize a batch; see `seat.recognizer.Recognizer.recognize`."""
        encoded, lengths = self._encode(waveforms, padded)
        table, _ = self._decode(encoded, lengths, [None] * len(waveforms))
        return _recognitions(table.cpu(), [0] * len(waveforms))

    @torch.inference_mode()
    def proceed(self, chunks: Sequence[Chunk], padded: object | None = None) -> list[tuple[Recognition, object]]:
        """Recognize a batch of chunks; see `seat.recognizer.Recognizer.proceed`."""
        encoded, lengths = self._encode([chunk.waveform for chunk in chunks], padded)
        width = encoded.shape[1]
        firsts = [chunk.first for chunk in chunks]
        stops = [width if chunk.stop is None else chunk.stop for chunk in chunks]
        table, carried = self._decode(
            *self._stretches(encoded, lengths, firsts, stops), [chunk.carried for chunk in chunks]
        )
        tails = [stop if chunk.ahead else width for chunk, stop in zip(chunks, stops, strict=True)]
        ahead = table[:, :0]
        if any(chunk.ahead for chunk in chunks):
            beyond = self._stretches(encoded, lengths, tails, [width] * len(chunks))
            ahead, _ = self._decode(*beyond, carried, patient=False)
        host, steps = torch.cat([table, ahead], dim=1).cpu(), table.shape[1]
        heard, shown = _recognitions(host[:, :steps], firsts), _recognitions(host[:, steps:], tails)
        return list(zip(map(joined, heard, shown), carried, strict=True))

    def _stretches(
        self, encoded: torch.Tensor, lengths: torch.Tensor, firsts: list[int], stops: list[int]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Cut a stretch out of each row: side by side, and how many frames each has."""
        cut = [row[first:stop] for row, first, stop in zip(encoded, firsts, stops, strict=True)]
        nframes = torch.minimum(lengths, self._upload(stops)) - self._upload(firsts)
        return torch.nn.utils.rnn.pad_sequence(cut, batch_first=True), nframes.clamp(min=0)

    def _encode(self, waveforms: Sequence[Waveform], padded: object | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        """Encode a batch: (batch, frames, width) in the decoder's number type, and how many frames each row has."""
        batch = padded if isinstance(padded, torch.Tensor) else self.pad(waveforms)
        if self._bank is not None:
            self._bank.use(self.attention(batch.shape[1]))
        signal = batch.to(self._device, non_blocking=True).float().mul_(_INT16_SCALE)
        features, feature_lengths = self._features(signal, self._upload([len(waveform) for waveform in waveforms]))
        encoded, encoded_lengths = self._model.encoder(
            audio_signal=features.to(self._encoder_dtype), length=feature_lengths
        )
        return encoded.to(self._decoder_dtype).transpose(1, 2), encoded_lengths

    def _upload(self, numbers: list[int]) -> torch.Tensor:
        """Integers on the device, without waiting for it."""
        pinned = self._device.type == "cuda"
        return torch.tensor(numbers, pin_memory=pinned).to(self._device, non_blocking=True)

    @property
    def graphs(self) -> str:
        """The mode of NeMo's graph decoder: it falls back from full graphs without a word."""
        mode = self._computer.cuda_graphs_mode
        return "off" if mode is None or self._device.type != "cuda" else str(mode)

    def attention(self, samples: int) -> Kind:
        """The attention for a batch, by its longest waveform."""
        return choose(self._options.attention, samples / SAMPLE_RATE, self._options.auto_attention_s)

    @torch.inference_mode()
    def capture(self, rows: int, samples: int) -> None:
        """Capture the decoder's graphs; see `seat.recognizer.Recognizer.capture`."""
        graphs.capture(
            self._computer,
            rows=rows,
            frames=self._frames(samples),
            width=self._model.encoder.d_model,
            device=self._device,
            dtype=self._decoder_dtype,
        )

    def _frames(self, samples: int) -> int:
        """Encoder frames of so many samples: a mel frame per hop and one more, less than a whole one counting too."""
        mel_frames = samples // self._model.preprocessor.featurizer.hop_length + 1
        return int(-(-mel_frames // self._model.encoder.subsampling_factor))

    def examine(self) -> Examination:
        """Read where every weight lies; see `seat.recognizer.Recognizer.examine`."""
        tensors = [*self._model.parameters(), *self._model.buffers()]
        return Examination(
            weights={
                place: sum(tensor.nbytes for tensor in tensors if str(tensor.device) == place)
                for place in sorted({str(tensor.device) for tensor in tensors})
            },
            process_nbytes=device.used_by_us(self._device) if self._device.type == "cuda" else None,
            driver=device.driver() if self._device.type == "cuda" else None,
            matrix_flop_per_s=device.matrix_flop_per_s(self._device),
        )

    def release(self) -> None:
        """Take the weights off the device; see `seat.recognizer.Recognizer.release`."""
        self._residence.leave()

    def restore(self) -> None:
        """Bring them back."""
        self._residence.come_back()


def _recognitions(table: torch.Tensor, shifts: Sequence[int]) -> list[Recognition]:
    """Sort what a decoder told, on the host, into plain numbers; each row's frames are moved by its shift."""
    tokens, frames, durations = table[..., :3].long().unbind(-1)
    confidences, heard = table[..., 3], tokens != NO_TOKEN
    return [
        Recognition(
            tokens=tuple(tokens[row, there].tolist()),
            frames=tuple((frames[row, there] + shift).tolist()),
            durations=tuple(durations[row, there].tolist()),
            confidences=tuple(confidences[row, there].tolist()),
        )
        for row, (there, shift) in enumerate(zip(heard, shifts, strict=True))
    ]


def _attention_bank(encoder: Any, local_context: tuple[int, int], model_id: str) -> AttentionBank:  # noqa: ANN401
    try:
        return AttentionBank(encoder, local_context=local_context)
    except ValueError as fault:
        raise ModelUnavailable(model=model_id, reason=str(fault)) from fault


def _decode_greedily(model: Any, *, cuda_graphs: bool) -> None:  # noqa: ANN401
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
        decoding.greedy.use_cuda_graph_decoder = cuda_graphs
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
