"""The words the demo model knows and the two pieces each is written with. Knows spelling; no audio, no model."""

from collections.abc import Sequence

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
NUMBERS = (
    *DIGITS,
    *("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
    *("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety", "hundred", "thousand"),
)
SPELLING = (
    *("alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel", "india", "juliett", "kilo", "lima"),
    *("mike", "november", "oscar", "papa", "quebec", "romeo", "sierra", "tango", "uniform", "victor", "whiskey"),
    *("xray", "yankee", "zulu"),
)
COMMANDS = (
    *("yes", "no", "stop", "go", "up", "down", "left", "right", "on", "off", "open", "close", "start", "pause"),
    *("play", "back", "next", "please", "thanks", "hello", "cancel", "repeat", "louder", "softer", "again"),
)
WORDS = (*NUMBERS, *SPELLING, *COMMANDS)

FULL_STOP = "."
WORD_MARK = "\u2581"
"""SentencePiece's mark of a word's beginning."""


def split(word: str) -> tuple[str, str]:
    """Cut a word into its head, spoken at its onset, and its tail, complete at its end.

    The head is two letters, or one where two letters are already a word of their own (`on` in `one`): no piece is
    ever a whole word, so every word has exactly two tokens, one for each of its ends.

    Args:
        word: A lower-case word of the vocabulary.

    Returns:
        The head, without the word mark, and the tail.
    """
    cut = 1 if len(word) < 3 or word[:2] in WORDS else 2
    return word[:cut], word[cut:]


def pieces(word: str) -> tuple[str, str]:
    """Give the two pieces of a word as the tokenizer spells them; a capital first letter is kept."""
    head, tail = split(word.lower())
    return WORD_MARK + (head.capitalize() if word[0].isupper() else head), tail


def sentence(words: Sequence[str]) -> str:
    """Write one sentence: the first word capitalised, a full stop after the last; nothing for no words."""
    return " ".join(words).capitalize() + FULL_STOP if words else ""
