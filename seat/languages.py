"""Know languages by code and by name, and what models speak. Knows what clients call them; loads nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "bg": ("bul", "bulgarian"),
    "cs": ("ces", "cze", "czech"),
    "da": ("dan", "danish"),
    "de": ("deu", "ger", "german"),
    "el": ("ell", "gre", "greek"),
    "en": ("eng", "english"),
    "es": ("spa", "spanish"),
    "et": ("est", "estonian"),
    "fi": ("fin", "finnish"),
    "fr": ("fra", "fre", "french"),
    "hr": ("hrv", "croatian"),
    "hu": ("hun", "hungarian"),
    "it": ("ita", "italian"),
    "lt": ("lit", "lithuanian"),
    "lv": ("lav", "latvian"),
    "mt": ("mlt", "maltese"),
    "nl": ("nld", "dut", "dutch"),
    "pl": ("pol", "polish"),
    "pt": ("por", "portuguese"),
    "ro": ("ron", "rum", "romanian"),
    "ru": ("rus", "russian"),
    "sk": ("slk", "slo", "slovak"),
    "sl": ("slv", "slovenian"),
    "sv": ("swe", "swedish"),
    "uk": ("ukr", "ukrainian"),
}
"""ISO 639-1 codes with their three-letter codes and English names, as Whisper's own programs take them."""

OF_MODELS: Final[Mapping[str, tuple[str, ...]]] = {
    "parakeet-tdt-0.6b-v3": ("en", *(code for code in NAMES if code != "en")),
}
"""What models speak that speak more than English, from their cards: no checkpoint tells."""

ANY: Final = frozenset({"auto", "none", "null"})
"""What programs send that mean no language in particular."""

_CODES: Final = {name: code for code, names in NAMES.items() for name in names}


def of_model(model_id: str) -> tuple[str, ...]:
    """The languages of a model by its name, 'owner/name' or a file's stem; English where it is not known."""
    return OF_MODELS.get(model_id.rpartition("/")[2], ("en",))


def code_of(asked: str) -> str:
    """The two letters for a language however it is written: 'EN', 'en-US', 'en_GB', 'eng', 'English'."""
    primary = asked.strip().casefold().replace("_", "-").partition("-")[0]
    return _CODES.get(primary, primary)


def chosen(asked: str | None, spoken: Sequence[str]) -> str | None:
    """The language that a client asks for, among those that a model speaks.

    Returns:
        Its code; the model's first language where the client asks for none; None where the model does not speak it.
    """
    if asked is None or asked.strip().casefold() in ANY:
        return spoken[0]
    code = code_of(asked)
    return code if code in spoken else None


def only_english(spoken: Collection[str]) -> bool:
    """Whether what a model writes down is English whatever it hears."""
    return set(spoken) == {"en"}
