"""Transducers with random weights, built from a configuration: every kind of model without a download."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

TEXT = "hello world. this is a tiny test, of speech to text? numbers one two three four five six seven!"
VOCABULARY_SIZE = 40
UNIFIED = {
    "att_context_style": "chunked_limited_with_rc",
    "att_chunk_context_size": [[70], [1, 2, 7, 13], [0, 1, 2]],
    "xscaling": True,
}
"""Options of an encoder that was trained with chunks of several sizes, as parakeet-unified was."""
BLANK_SHARE = 0.7
"""Share of frames at which a fresh model says nothing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Dimensions:
    """How large a model is."""

    mels: int
    layers: int
    width: int
    heads: int
    channels: int
    hidden: int
    predictors: int = 1
    """Layers of the prediction network."""
    unified: bool = False
    """Whether its encoder has the options of a model that was trained with chunks of several sizes."""


TINY = Dimensions(mels=80, layers=2, width=64, heads=4, channels=32, hidden=64)
LARGE = Dimensions(mels=128, layers=24, width=1024, heads=8, channels=256, hidden=640, predictors=2, unified=True)
"""Those of parakeet-unified-en-0.6b, but for its vocabulary: 0.6 billion weights, most of them in the encoder."""
REHEARSAL = replace(TINY, predictors=2, unified=True)
"""A tiny one of the same kind."""


def build(folder: Path, kind: Literal["rnnt", "tdt"], *, seed: int = 0, dimensions: Dimensions = TINY) -> Path:
    """Write a '.nemo' file of a model whose blank is likely enough that text stays sparse."""
    import sentencepiece
    import torch
    from nemo.collections.asr.models import EncDecRNNTBPEModel
    from omegaconf import OmegaConf

    corpus = folder / "corpus.txt"
    corpus.write_text(f"{TEXT}\n" * 50)
    sentencepiece.SentencePieceTrainer.train(
        input=str(corpus),
        model_prefix=str(folder / "tokenizer"),
        vocab_size=VOCABULARY_SIZE,
        model_type="bpe",
        pad_id=-1,
        bos_id=-1,
        eos_id=-1,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))
    (folder / "vocab.txt").write_text("".join(f"{pieces.id_to_piece(n)}\n" for n in range(pieces.get_piece_size())))
    torch.manual_seed(seed)
    model = EncDecRNNTBPEModel(cfg=OmegaConf.create(_configuration(str(folder), kind, dimensions)))
    _make_talkative(model, torch.from_numpy(chirps(20)))
    path = folder / f"{kind}.nemo"
    model.save_to(str(path))
    return path


def chirps(seconds: int, seed: int = 0) -> np.ndarray:
    """Tones that jump eight times a second, with a little noise; float32, shape (samples,)."""
    random = np.random.default_rng(seed)
    pitch = np.repeat(random.uniform(100, 3000, seconds * 8), 2000)
    signal = 0.3 * np.sin(2 * np.pi * np.cumsum(pitch) / 16000) + 0.02 * random.standard_normal(len(pitch))
    return signal.astype(np.float32)


def _make_talkative(model: Any, signal: Any) -> None:
    """Centre and spread what the joint sees, and set the blank's bias: random weights say the same at every frame."""
    import torch

    model.eval()
    model.preprocessor.featurizer.dither = 0.0
    with torch.no_grad():
        features, lengths = model.preprocessor(input_signal=signal[None], length=torch.tensor([len(signal)]))
        encoded, _ = model.encoder(audio_signal=features, length=lengths)
        frames = encoded[0].T
        projected = model.joint.enc(frames)
        scale = 3 / projected.std(dim=0).mean()
        model.joint.enc.weight.mul_(scale)
        model.joint.enc.bias.copy_(-(frames @ model.joint.enc.weight.T).mean(dim=0))
        model.joint.pred.weight.mul_(5)
        model.joint.joint_net[-1].weight.mul_(3)
        start, _ = model.decoder.predict(None, None, add_sos=False, batch_size=1)
        logits = model.joint.joint(encoded.transpose(1, 2), start)[0, :, 0]
        blank = model.tokenizer.vocab_size
        lead = logits[:, :blank].max(dim=-1).values - logits[:, blank]
        model.joint.joint_net[-1].bias[blank] += lead.quantile(BLANK_SHARE)
        model.joint.joint_net[-1].bias[0] = -1e4  # <unk>, which no trained model says


def _configuration(tokenizer: str, kind: str, size: Dimensions) -> dict[str, Any]:
    tdt = kind == "tdt"
    durations = [0, 1, 2, 3, 4]
    modules = "nemo.collections.asr.modules"
    return {
        "sample_rate": 16000,
        "log_prediction": False,
        "compute_eval_loss": False,
        "model_defaults": {"enc_hidden": size.width, "pred_hidden": size.hidden, "joint_hidden": size.hidden}
        | ({"tdt_durations": durations, "num_tdt_durations": len(durations)} if tdt else {}),
        "tokenizer": {"dir": tokenizer, "type": "bpe"},
        "preprocessor": {
            "_target_": f"{modules}.AudioToMelSpectrogramPreprocessor",
            "sample_rate": 16000,
            "normalize": "per_feature",
            "window_size": 0.025,
            "window_stride": 0.01,
            "window": "hann",
            "features": size.mels,
            "n_fft": 512,
            "dither": 1e-5,
            "pad_to": 16,
        },
        "encoder": {
            "_target_": f"{modules}.ConformerEncoder",
            "feat_in": size.mels,
            "feat_out": -1,
            "n_layers": size.layers,
            "d_model": size.width,
            "use_bias": not tdt,
            "subsampling": "dw_striding",
            "subsampling_factor": 8,
            "subsampling_conv_channels": size.channels,
            "ff_expansion_factor": 4,
            "self_attention_model": "rel_pos",
            "n_heads": size.heads,
            "att_context_size": [-1, -1],
            "xscaling": False,
            "conv_kernel_size": 9,
            "dropout": 0.1,
            "dropout_att": 0.1,
        }
        | (UNIFIED if size.unified else {}),
        "decoder": {
            "_target_": f"{modules}.RNNTDecoder",
            "blank_as_pad": True,
            "prednet": {"pred_hidden": size.hidden, "pred_rnn_layers": size.predictors, "dropout": 0.2},
        },
        "joint": {
            "_target_": f"{modules}.RNNTJoint",
            "log_softmax": None,
            "preserve_memory": False,
            "fuse_loss_wer": False,
            "jointnet": {"joint_hidden": size.hidden, "activation": "relu", "dropout": 0.2},
        }
        | ({"num_extra_outputs": len(durations)} if tdt else {}),
        "decoding": {"strategy": "greedy_batch", "greedy": {"max_symbols": 10}}
        | ({"model_type": "tdt", "durations": durations} if tdt else {}),
        "loss": {
            "loss_name": "tdt",
            "tdt_kwargs": {"fastemit_lambda": 0.0, "clamp": -1.0, "durations": durations, "sigma": 0.02, "omega": 0.1},
        }
        if tdt
        else {"loss_name": "warprnnt_numba", "warprnnt_numba_kwargs": {"fastemit_lambda": 0.0, "clamp": -1.0}},
        "optim": {"name": "adamw", "lr": 1e-3},
    }
