"""Make features of signals with NeMo's preprocessor, without waiting for a card. Knows its featurizer; no encoder."""

from __future__ import annotations

from typing import Any

import torch

_LEAST_DEVIATION = 1e-5
"""What NeMo adds, so that a feature that stays the same can be divided by its deviation."""


class Features:
    """Mel features, with neither dither nor padding; takes a preprocessor's place, made from it.

    NeMo's own normalization asks a card at every batch whether some row has but one frame, and waits for the answer.
    Here it is computed the same, and such a row becomes zeros.
    """

    def __init__(self, preprocessor: Any) -> None:  # noqa: ANN401  NeMo has no types
        featurizer = preprocessor.featurizer
        featurizer.dither, featurizer.pad_to = 0.0, 0
        self._preprocessor = preprocessor
        self._per_feature = featurizer.normalize == "per_feature"
        if self._per_feature:
            featurizer.normalize = None

    def __call__(self, signal: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Make features.

        Args:
            signal: float32 from -1 to 1, shape (rows, samples).
            lengths: Samples of each row, shape (rows,), on the same device.

        Returns:
            float32, shape (rows, features, frames), zero behind each row's end, and the frames of each row.
        """
        features, frames = self._preprocessor(input_signal=signal, length=lengths)
        return (_normalized(features, frames) if self._per_feature else features), frames


def _normalized(features: torch.Tensor, frames: torch.Tensor) -> torch.Tensor:
    """Give each feature of each row mean 0 and deviation 1, over the row's own frames."""
    beyond = (torch.arange(features.shape[2], device=features.device) >= frames[:, None])[:, None]
    count = (~beyond).sum(dim=2)
    mean = features.masked_fill(beyond, 0).sum(dim=2) / count
    centred = (features - mean[:, :, None]).masked_fill_(beyond, 0)
    deviation = ((centred**2).sum(dim=2) / (count - 1)).sqrt().masked_fill_(count == 1, 0) + _LEAST_DEVIATION
    return centred.div_(deviation[:, :, None])
