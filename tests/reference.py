"""NeMo's own transcribe(), in a process of its own: what the direct path must equal.

    python -m tests.reference MODEL.nemo AUDIO.npz

reads int16 arrays from the archive and prints, as JSON, what NeMo hears in each alone and in all of them as one batch.
"""

from __future__ import annotations

import copy
import json
import sys
from typing import Any

import numpy as np


def prepare(path: str) -> Any:
    """Restore a model as NeMo's documentation says, with token confidences switched on."""
    from nemo.collections.asr.models import ASRModel
    from omegaconf import OmegaConf, open_dict

    from seat.gpu.nemo import TOKEN_CONFIDENCE

    model = ASRModel.restore_from(path, map_location="cpu")
    if model.encoder.att_context_style == "chunked_limited_with_rc":
        model.encoder.set_default_att_context_size([-1, -1, -1])
    decoding = copy.deepcopy(model.cfg.decoding)
    with open_dict(decoding):
        decoding.strategy = "greedy_batch"
        decoding.greedy.max_symbols = 10
        decoding.confidence_cfg = OmegaConf.create(TOKEN_CONFIDENCE | {"preserve_word_confidence": True})
        decoding.tdt_include_token_duration = True
    model.change_decoding_strategy(decoding, verbose=False)
    return model


def transcribe(model: Any, waveforms: list[np.ndarray]) -> list[dict[str, Any]]:
    """Have one batch transcribed with time stamps, and take out what can be compared."""
    samples = [waveform.astype(np.float32) / 32768 for waveform in waveforms]
    answers = model.transcribe(samples, batch_size=len(samples), timestamps=True, return_hypotheses=True, verbose=False)
    return [
        {
            "text": answer.text,
            "words": [(word["word"], word["start"], word["end"]) for word in answer.timestamp["word"]],
            "segments": [
                (segment["segment"], segment["start"], segment["end"]) for segment in answer.timestamp["segment"]
            ],
            "token_confidence": [float(value) for value in answer.token_confidence or ()],
            "word_confidence": [float(value) for value in answer.word_confidence or ()],
        }
        for answer in answers
    ]


def main() -> None:
    """Read the archive, print the answers."""
    path, archive = sys.argv[1:]
    waveforms = list(np.load(archive).values())
    model = prepare(path)
    heard = {
        "alone": [transcribe(model, [waveform])[0] for waveform in waveforms],
        "batched": transcribe(model, waveforms),
    }
    sys.stdout.write("\n" + json.dumps(heard) + "\n")


if __name__ == "__main__":
    main()
