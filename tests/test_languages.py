"""Languages, however clients write them."""

import pytest

from seat.languages import NAMES, chosen, of_model, only_english


@pytest.mark.parametrize(
    "asked", ["en", "EN", " en ", "en-US", "en_GB", "EN-us", "eng", "english", "English", "ENGLISH", "auto", None]
)
def test_english_is_english_however_it_is_written(asked: str | None) -> None:
    """As SDKs, gateways and Whisper's own programs write it; 'auto' asks for no language at all."""
    assert chosen(asked, ("en",)) == "en"


@pytest.mark.parametrize("asked", ["de", "de-DE", "german", "e", "english please", "xx", "-", "zh-CN"])
def test_a_language_that_a_model_does_not_speak_is_not_chosen(asked: str) -> None:
    """An English model would write nonsense, and the client would not know."""
    assert chosen(asked, ("en",)) is None


def test_a_model_of_many_languages_answers_with_the_one_asked_for() -> None:
    """And with its usual one where none is."""
    spoken = of_model("nvidia/parakeet-tdt-0.6b-v3")
    assert sorted(spoken) == sorted(NAMES)
    assert [chosen(asked, spoken) for asked in ("German", "fr-CA", "rum", "auto")] == ["de", "fr", "ro", "en"]
    assert not only_english(spoken)


@pytest.mark.parametrize("model_id", ["demo", "nvidia/parakeet-tdt-0.6b-v2", "mine"])
def test_a_model_that_is_not_known_speaks_english(model_id: str) -> None:
    """As most Parakeet models do."""
    assert of_model(model_id) == ("en",)
    assert only_english(of_model(model_id))


def test_no_two_languages_share_a_name() -> None:
    """A name leads to one code."""
    names = [name for names in NAMES.values() for name in names]
    assert len(names) == len(set(names))
