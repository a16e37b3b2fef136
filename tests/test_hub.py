"""How models on the hub are named, and what is said about their licences."""

from pathlib import Path

import pytest

from seat import settings
from seat.hub import Fetched, Name, NotFetched, fetch

REVISION = "0123456789abcdef0123456789abcdef01234567"
FETCHED = Fetched(
    repository="nvidia/parakeet", revision=REVISION, sha256="a" * 64, path=Path("x.nemo"), licence="cc-by-4.0"
)


@pytest.mark.parametrize(
    "model, expected",
    [
        ("nvidia/parakeet-tdt-0.6b-v2", ("nvidia/parakeet-tdt-0.6b-v2", None)),
        (f"owner/name@{REVISION}", ("owner/name", REVISION)),
        ("owner/name@main", None),
        ("demo", None),
        ("a/b/c", None),
        ("model.nemo", None),
    ],
)
def test_a_name_is_an_owner_a_name_and_perhaps_a_revision(model: str, expected: tuple[str, str | None] | None) -> None:
    """A branch pins nothing, and is none."""
    name = Name.parse(model)
    assert expected == (name and (name.repository, name.revision))


def test_the_checkpoint_is_called_like_its_repository() -> None:
    """NVIDIA's habit."""
    assert Name(repository="nvidia/parakeet-tdt-0.6b-v2", revision=None).file == "parakeet-tdt-0.6b-v2.nemo"


def test_the_pins_are_settings() -> None:
    """Lines of an environment file that a seat understands."""
    read = settings.read(dict(line.split("=", 1) for line in FETCHED.pins.splitlines()))
    assert (read.model, read.model_sha256) == (f"nvidia/parakeet@{REVISION}", "a" * 64)


@pytest.mark.parametrize(
    "licence, expected",
    [
        ("cc-by-4.0", "Licence: cc-by-4.0. Use it for anything, also commercially; name NVIDIA"),
        ("nvidia-open-model-license", "NVIDIA's own terms"),
        ("mit", "Licence: mit. Its page is nvidia/parakeet"),
        (None, "No licence is named. Its page is nvidia/parakeet"),
    ],
)
def test_the_terms_are_told(licence: str | None, expected: str) -> None:
    """What is known of a licence, and always where to read it."""
    told = Fetched(repository="nvidia/parakeet", revision="", sha256="", path=Path(), licence=licence).terms
    assert expected in told
    assert told.endswith("read it before you use the model.")


def test_what_is_no_name_is_a_sentence() -> None:
    """Before the hub is asked."""
    with pytest.raises(NotFetched, match="it is not 'owner/name'"):
        fetch("demo")
