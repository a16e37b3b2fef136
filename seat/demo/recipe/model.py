"""Configure, build and open the demo model. Knows NeMo's configuration; nothing of speech or training."""

from pathlib import Path

import torch
from nemo.collections.asr.models import EncDecRNNTBPEModel
from omegaconf import DictConfig, OmegaConf

SAMPLE_RATE = 16_000
"""Hz."""
FRAME_SECONDS = 0.08
"""One encoder frame: 10 ms features, subsampled by 8."""
FULL_ATTENTION = (-1, -1, -1)
"""Left, chunk and right context in encoder frames; -1 is all there is."""
CHUNK_CONTEXTS = ((70,), (1, 2, 7, 13), (0, 1, 2, 3, 4, 7, 13))
"""The choices of left, chunk and right context in frames, those of parakeet-unified."""
HIDDEN = 160
"""Width of prediction network and joint network."""


def configuration(tokenizer: Path) -> DictConfig:
    """Describe the model: parakeet-unified's encoder options at a hundredth of its size.

    Args:
        tokenizer: The folder `tokenizer.write` made.
    """
    target = "nemo.collections.asr.modules."
    return OmegaConf.create(
        {
            "sample_rate": SAMPLE_RATE,
            "compute_eval_loss": False,
            "log_prediction": False,
            "model_defaults": {"enc_hidden": 128, "pred_hidden": HIDDEN, "joint_hidden": HIDDEN},
            "tokenizer": {"dir": str(tokenizer), "type": "bpe"},
            "preprocessor": {
                "_target_": target + "AudioToMelSpectrogramPreprocessor",
                "sample_rate": SAMPLE_RATE,
                "normalize": "per_feature",
                "window_size": 0.025,
                "window_stride": 0.01,
                "window": "hann",
                "features": 80,
                "n_fft": 512,
                "log": True,
                "frame_splicing": 1,
                "dither": 0.0,
                "pad_to": 0,
                "pad_value": 0.0,
            },
            "spec_augment": {
                "_target_": target + "SpectrogramAugmentation",
                "freq_masks": 1,
                "time_masks": 0,
                "freq_width": 10,
                "time_width": 0.02,
            },
            "encoder": {
                "_target_": target + "ConformerEncoder",
                "feat_in": 80,
                "feat_out": -1,
                "n_layers": 5,
                "d_model": 128,
                "use_bias": True,
                "subsampling": "dw_striding",
                "subsampling_factor": 8,
                "subsampling_conv_channels": 40,
                "causal_downsampling": False,
                "ff_expansion_factor": 4,
                "self_attention_model": "rel_pos",
                "n_heads": 4,
                "att_context_size": list(FULL_ATTENTION),
                "att_context_style": "chunked_limited_with_rc",
                "att_chunk_context_size": [list(choices) for choices in CHUNK_CONTEXTS],
                "xscaling": True,
                "untie_biases": True,
                "pos_emb_max_len": 5000,
                "conv_kernel_size": 9,
                "conv_norm_type": "batch_norm",
                "conv_context_size": None,
                "conv_context_style": "dcc",
                "dropout": 0.0,
                "dropout_pre_encoder": 0.0,
                "dropout_emb": 0.0,
                "dropout_att": 0.0,
            },
            "decoder": {
                "_target_": target + "RNNTDecoder",
                "normalization_mode": None,
                "random_state_sampling": False,
                "blank_as_pad": True,
                "prednet": {"pred_hidden": HIDDEN, "pred_rnn_layers": 1, "t_max": None, "dropout": 0.0},
            },
            "joint": {
                "_target_": target + "RNNTJoint",
                "log_softmax": None,
                "preserve_memory": False,
                "fuse_loss_wer": False,
                "fused_batch_size": 4,
                "jointnet": {"joint_hidden": HIDDEN, "activation": "relu", "dropout": 0.05},
            },
            "decoding": {
                "strategy": "greedy_batch",
                "greedy": {"max_symbols": 10, "use_cuda_graph_decoder": False},
                "beam": {"beam_size": 2, "return_best_hypothesis": False},
            },
            "loss": {"loss_name": "warprnnt_numba", "warprnnt_numba_kwargs": {"fastemit_lambda": 0.0, "clamp": -1.0}},
            "optim": {"name": "adamw", "lr": 1e-3},
        }
    )


def build(tokenizer: Path, seed: int = 0) -> EncDecRNNTBPEModel:
    """Build a model with random weights, drawn from `seed`."""
    torch.manual_seed(seed)
    return EncDecRNNTBPEModel(cfg=configuration(tokenizer))
