"""Fetch a checkpoint from Hugging Face, and pin it. Knows names, revisions, digests, licences on the hub; no model.

SeatError
└── NotFetched                  the checkpoint is not on this machine afterwards
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from seat.errors import SeatError

if TYPE_CHECKING:
    from huggingface_hub.hf_api import ModelInfo

NAME: Final = re.compile(r"(?P<repository>[\w.-]+/[\w.-]+)(@(?P<revision>[0-9a-f]{40}))?")
"""How settings name a model on the hub."""

LICENCES: Final[Mapping[str, str]] = {
    "cc-by-4.0": "Use it for anything, also commercially; name NVIDIA as its author, and say what you changed.",
    "nvidia-open-model-license": "NVIDIA's own terms: commercial use and derived models are allowed, on conditions.",
}
"""What the licences of Parakeet models come to, by the hub's names for them. A reminder; the page is what counts."""


class NotFetched(SeatError):
    """The checkpoint is not on this machine afterwards."""

    def __init__(self, *, model: str, reason: str) -> None:
        super().__init__(f"'{model}' was not fetched: {reason}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Name:
    """A model on the hub, as a setting names it."""

    repository: str
    """'owner/name'."""
    revision: str | None
    """The commit, 40 hexadecimal digits; None for the newest."""

    @classmethod
    def parse(cls, model: str) -> Self | None:
        """Read 'owner/name' or 'owner/name@REVISION'; None where it is something else."""
        found = NAME.fullmatch(model)
        return cls(repository=found["repository"], revision=found["revision"]) if found else None

    @property
    def file(self) -> str:
        """The checkpoint's name in its repository: NVIDIA calls it like the repository."""
        return self.repository.rpartition("/")[2] + ".nemo"


@dataclass(frozen=True, kw_only=True, slots=True)
class Fetched:
    """A checkpoint that is on this machine now."""

    repository: str
    """'owner/name'."""
    revision: str
    """The commit it belongs to, 40 hexadecimal digits."""
    sha256: str
    """The file's digest, as computed here."""
    path: Path
    """Where it lies in the hub's cache."""
    licence: str | None
    """The hub's name of its licence; None where its page names none."""

    @property
    def pins(self) -> str:
        """The settings that load this file and no other, as lines of an environment file."""
        return f"SEAT_MODEL={self.repository}@{self.revision}\nSEAT_MODEL_SHA256={self.sha256}\n"

    @property
    def terms(self) -> str:
        """The licence, and what it comes to."""
        page = f"Its page is {self.repository} on Hugging Face: read it before you use the model."
        if self.licence is None:
            return f"No licence is named. {page}"
        return " ".join([f"Licence: {self.licence}.", *filter(None, [LICENCES.get(self.licence)]), page])


def fetch(model: str) -> Fetched:
    """Download a checkpoint into the hub's cache, with the hub's own bar, unless it is there; then take its digest.

    Args:
        model: 'owner/name' with an optional '@REVISION' of 40 digits.

    Raises:
        NotFetched: The name is none, the hub does not give the file, there is no room, or what came is not what the
            hub has.
    """
    from huggingface_hub import HfApi, hf_hub_download, try_to_load_from_cache
    from huggingface_hub.errors import OfflineModeIsEnabled

    name = Name.parse(model)
    if name is None:
        raise NotFetched(model=model, reason="it is not 'owner/name' with an optional '@REVISION' of 40 digits.")
    try:
        info = HfApi().model_info(name.repository, revision=name.revision, files_metadata=True)
        nbytes, promised = _promised(info, name)
        if not isinstance(try_to_load_from_cache(name.repository, name.file, revision=info.sha), str):
            _require_room(model, nbytes)
        path = Path(hf_hub_download(name.repository, name.file, revision=info.sha))
    except OfflineModeIsEnabled as fault:
        raise NotFetched(model=model, reason="HF_HUB_OFFLINE is set. Unset it to download.") from fault
    except NotFetched:
        raise
    except Exception as fault:  # its own errors, and those of an HTTP client that has changed with its versions
        said = str(fault).strip().splitlines()
        raise NotFetched(
            model=model,
            reason=f"{type(fault).__name__}: {said[0] if said else 'no more is known'} "
            "Check the name and the network; HF_TOKEN holds the key to a model with a gate.",
        ) from fault
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if promised is not None and digest != promised:
        raise NotFetched(
            model=model,
            reason=f"{path} has the SHA-256 {digest}, and the hub's file {promised}. Delete it and fetch again.",
        )
    return Fetched(
        repository=name.repository,
        revision=str(info.sha),
        sha256=digest,
        path=path,
        licence=_licence(info),
    )


def _promised(info: ModelInfo, name: Name) -> tuple[int, str | None]:
    """The checkpoint's bytes, and the digest that the hub keeps of it where it is a large file.

    Raises:
        NotFetched: The repository has no checkpoint of NeMo's.
    """
    files = {file.rfilename: file for file in info.siblings or ()}
    if name.file not in files:
        known = ", ".join(each for each in files if each.endswith(".nemo")) or "no .nemo file"
        raise NotFetched(model=name.repository, reason=f"the repository has {known}, and not {name.file}.")
    found = files[name.file]
    return found.size or 0, found.lfs.sha256 if found.lfs else None


def _require_room(model: str, nbytes: int) -> None:
    from huggingface_hub.constants import HF_HUB_CACHE

    folder = Path(HF_HUB_CACHE)
    while not folder.exists():
        folder = folder.parent
    if (free := shutil.disk_usage(folder).free) < nbytes:
        raise NotFetched(
            model=model,
            reason=f"it takes {nbytes / 1e9:.1f} GB, and {folder} has {free / 1e9:.1f} GB free. "
            "Make room, or set HF_HOME to a folder on another disk.",
        )


def _licence(info: ModelInfo) -> str | None:
    card = info.card_data
    if card is None:
        return None
    name = card.get("license")
    return str(card.get("license_name") or name) if name == "other" else name and str(name)
