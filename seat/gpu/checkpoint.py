"""Find a checkpoint and bring it into memory once. Knows files, digests and NeMo's archive; no device, no audio.

NeMo's own `restore_from` needs 27 s and 5.2 GB of host memory for 0.6 billion weights: it fills random weights, then
copies the real ones over them. Mapping the file and adopting its tensors needs 4.3 s and 1.7 GB, with identical
weights.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tarfile import TarFile, TarInfo
from typing import Any

import torch

from seat.errors import ChecksumMismatch, ModelUnavailable
from seat.hub import Name

DEMO = Path(__file__).parent.parent / "demo" / "demo.nemo"
"""The checkpoint that comes with the package."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkpoint:
    """A checkpoint file on this machine."""

    path: Path
    """Where the file lies."""
    revision: str | None
    """The commit it was fetched at, 40 hexadecimal digits; None for a file."""


def locate(model: str) -> Checkpoint:
    """Find the checkpoint that a setting names, downloading from the hub only where the cache has none.

    Args:
        model: 'demo', a path to a '.nemo' file, or 'owner/name' with an optional '@' and a 40-digit revision.

    Raises:
        ModelUnavailable: There is no such file, or the hub does not give it.
    """
    if model == "demo":
        return Checkpoint(path=DEMO, revision=None)
    path = Path(model).expanduser()
    if model.endswith(".nemo"):
        if not path.is_file():
            raise ModelUnavailable(model=model, reason="there is no such file")
        return Checkpoint(path=path, revision=None)
    if name := Name.parse(model):
        return _from_hub(name)
    raise ModelUnavailable(
        model=model,
        reason="it is neither 'demo', nor a path to a .nemo file, nor 'owner/name' with an optional '@REVISION'",
    )


def _from_hub(name: Name) -> Checkpoint:
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        path = Path(hf_hub_download(name.repository, name.file, revision=name.revision))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as fault:
        reason = f"'{name.file}' is not in the local cache and the hub did not give it ({type(fault).__name__})"
        raise ModelUnavailable(model=name.repository, reason=reason) from fault
    # The cache keeps a file under snapshots/<commit>/, whatever was asked for.
    return Checkpoint(path=path, revision=path.parent.name)


def verify(path: Path, expected: str | None) -> str:
    """Return the SHA-256 of a file, after comparing it with the pinned one.

    Raises:
        ChecksumMismatch: The file is not the one that was pinned.
    """
    with path.open("rb") as file:
        actual = hashlib.file_digest(file, "sha256").hexdigest()
    if expected is not None and actual != expected.lower():
        raise ChecksumMismatch(path=path.name, expected=expected, actual=actual)
    return actual


def restore(path: Path) -> Any:  # noqa: ANN401  NeMo has no types
    """Build the model of a '.nemo' file on the CPU, in the checkpoint's number types and, as NeMo leaves it, training.

    Changes the working directory for a moment, as NeMo's connector does, so call it before anything depends on that.

    Raises:
        ModelUnavailable: The file is not a NeMo checkpoint of a transducer model.
    """
    from nemo.collections.asr.models import ASRModel
    from nemo.core.connectors.save_restore_connector import SaveRestoreConnector

    class AdoptingConnector(SaveRestoreConnector):
        """Map the checkpoint and adopt its tensors, instead of allocating and copying."""

        @staticmethod
        def _unpack_nemo_file(path2file: str, out_folder: str, members: list[TarInfo] | None = None) -> str:
            with SaveRestoreConnector._tar_open(path2file) as archive:  # noqa: SLF001
                unpack(archive, Path(out_folder), members)
            return out_folder

        @staticmethod
        def _load_state_dict_from_disk(model_weights: str, map_location: object = None) -> dict[str, torch.Tensor]:
            del map_location
            weights: dict[str, torch.Tensor] = torch.load(
                model_weights, map_location="cpu", mmap=True, weights_only=True
            )
            return weights

        def load_instance_with_state_dict(self, instance: Any, state_dict: Any, strict: bool) -> None:  # noqa: ANN401, FBT001
            instance.load_state_dict(state_dict, strict=strict, assign=True)
            instance._set_model_restore_state(is_being_restored=False)  # noqa: SLF001

    try:
        with _no_random_weights():
            model = ASRModel.restore_from(str(path), map_location="cpu", save_restore_connector=AdoptingConnector())
    except Exception as fault:
        reason = f"NeMo cannot read the checkpoint ({type(fault).__name__}: {fault})"
        raise ModelUnavailable(model=path.name, reason=reason) from fault
    if unknown := _unknown(model):
        raise ModelUnavailable(model=path.name, reason=f"{type(model).__name__} {unknown}")
    return model


def _unknown(model: Any) -> str | None:  # noqa: ANN401
    """What a model has that would be decoded into wrong words, or lacks; None where all is known."""
    if not hasattr(model, "joint"):
        return "is not a transducer model"
    if hasattr(model, "prompt_kernel"):
        return "puts a prompt between encoder and decoder"
    if model.joint.num_extra_outputs != len(model.decoding.durations or ()):
        return "has outputs that are neither tokens nor durations"
    if not hasattr(getattr(getattr(model, "tokenizer", None), "tokenizer", None), "id_to_piece"):
        return "has no single SentencePiece tokenizer"
    return None


def unpack(archive: TarFile, folder: Path, members: Iterable[TarInfo] | None = None) -> None:
    """Write files of an archive into a folder, and nothing outside it: links and names that climb are left out.

    NeMo's own way asks for tarfile's filters. Python 3.11 has them from 3.11.4 on; Debian 12's is 3.11.2.

    Args:
        archive: An open one.
        folder: Where its files go, each under its own name.
        members: Those that are wanted, or all.
    """
    for member in archive if members is None else members:
        name = PurePosixPath(member.name)
        content = archive.extractfile(member) if member.isfile() else None
        if content is None or name.is_absolute() or ".." in name.parts:
            continue
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        with content, place.open("wb") as file:
            shutil.copyfileobj(content, file)


@contextmanager
def _no_random_weights() -> Iterator[None]:
    """Skip filling weights that are replaced a moment later."""
    fillers = [name for name in dir(torch.nn.init) if name.endswith("_") and not name.startswith("_")]
    originals = {name: getattr(torch.nn.init, name) for name in fillers}
    for name in fillers:
        setattr(torch.nn.init, name, lambda tensor, *_args, **_options: tensor)
    try:
        yield
    finally:
        for name, original in originals.items():
            setattr(torch.nn.init, name, original)
