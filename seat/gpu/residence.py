"""Take a model's tensors off their device and bring them back. Knows torch modules; no NeMo, no audio.

They move to a file that is mapped, so that none of it is resident: the host is shared, too.
Every tensor stays the same object with other data: whoever shares one, like two kinds of attention, shares it still.
"""

from __future__ import annotations

import tempfile
import weakref
from typing import IO

import torch


class Residence:
    """Where the tensors of one model are; used on the GPU thread."""

    def __init__(self, model: torch.nn.Module, device: torch.device) -> None:
        self._model, self._device = model, device
        self._moved: list[torch.Tensor] = []
        self._file: IO[bytes] | None = None

    def leave(self) -> None:
        """Take the tensors away.

        Raises:
            OSError: There is no room for the file.
            RuntimeError: One of them cannot be moved. All are where they were.
        """
        tensors = _tensors(self._model)
        away = self._mapped(tensors)
        try:
            for tensor, data in zip(tensors, away, strict=True):
                tensor.data = data
                self._moved.append(tensor)
        except RuntimeError:
            self.come_back()
            raise

    def come_back(self) -> None:
        """Bring them back; where that fails half-way, calling again goes on."""
        for tensor in self._moved:
            if self._device.type == "cpu" or tensor.device != self._device:
                tensor.data = tensor.data.to(self._device, copy=True)
        self._moved = []
        for module in self._model.modules():
            if isinstance(module, torch.nn.RNNBase):
                module.flatten_parameters()  # cuDNN wants them in one piece, else it copies them in every call

    def _mapped(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        """The same numbers, mapped from a file without a name; weights never change, so it is written once."""
        if self._file is None:
            file = tempfile.TemporaryFile()  # noqa: SIM115  it lives as long as the model
            torch.save([tensor.data.cpu() for tensor in tensors], file)
            file.flush()
            self._file = file
            weakref.finalize(self, file.close)
        path = f"/proc/self/fd/{self._file.fileno()}"  # torch maps names only
        mapped: list[torch.Tensor] = torch.load(path, mmap=True, weights_only=True)
        return mapped


def _tensors(model: torch.nn.Module) -> list[torch.Tensor]:
    """Weights and buffers, each once."""
    return list({id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}.values())
