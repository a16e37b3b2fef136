"""Make the bundled clips: `python -m seat.demo.recipe.clips --out DIR`. Knows what they say; no model.

Takes are those of the test set, never of the training set; one voice is the one that training never hears.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import soundfile

from seat.demo.recipe import bank
from seat.demo.recipe.mix import Composer, Utterance, voices
from seat.demo.recipe.speech import SAMPLE_RATE

CLIPS: dict[str, tuple[tuple[str, str], ...]] = {
    "hello.flac": (("slt", "hello"),),
    "call.flac": (("slt", "seven three alpha"), ("slt", "stop please")),
    "dialogue.flac": (
        ("awb", "hello hello"),
        ("slt", "yes please"),
        ("awb", "open forty two next"),
        ("slt", "thanks"),
    ),
    "spelling.flac": (
        ("cmu_us_slt_arctic_hts", "sierra echo alpha tango"),
        ("cmu_us_slt_arctic_hts", "repeat"),
        ("cmu_us_slt_arctic_hts", "sierra echo alpha tango"),
        ("cmu_us_slt_arctic_hts", "thanks"),
        ("awb", "one thousand three hundred seventeen"),
        ("awb", "start"),
        (bank.HELD_OUT_VOICE, "play again louder"),
        (bank.HELD_OUT_VOICE, "thanks"),
    ),
}
"""Sentences of each clip with their voices."""


def make(sentences: tuple[tuple[str, str], ...], units: bank.Bank, seed: int) -> Utterance:
    """Say sentences with pauses, word by word, over a little noise.

    Args:
        sentences: Voice and words of each.
        units: Takes of those voices.
        seed: Draws takes and pauses.
    """
    rng = np.random.default_rng(seed)
    known = voices(units)
    made = Composer(rng)
    made.pause(0.25)
    for index, (voice, words) in enumerate(sentences):
        if index:
            made.pause(rng.uniform(0.8, 1.6))
        for place, word in enumerate(words.split()):
            if place:
                made.pause(rng.uniform(0.03, 0.2))
            made.say(known[voice].draw(rng, 1, word), gain=0.6)
        made.stop()
    made.pause(0.3)
    said = made.utterance()
    floor = rng.standard_normal(len(said.samples), np.float32) * np.float32(0.0005)
    return Utterance(samples=said.samples + floor, words=said.words)


def main() -> None:
    """Read the command line and write clips and transcripts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "clips")
    parser.add_argument("--scratch", type=Path, default=Path("demo-scratch"))
    asked = parser.parse_args()
    units = {**bank.kept(asked.scratch, bank.UNSEEN), **bank.kept(asked.scratch, bank.UNHEARD)}
    asked.out.mkdir(parents=True, exist_ok=True)
    transcripts = {}
    for seed, (name, sentences) in enumerate(CLIPS.items()):
        said = make(sentences, units, seed)
        soundfile.write(asked.out / name, said.samples, SAMPLE_RATE, subtype="PCM_16")
        words = [[word.text, round(word.start, 3), round(word.end, 3)] for word in said.words]
        transcripts[name] = {"text": said.text, "seconds": round(said.seconds, 3), "words": words}
    (asked.out / "transcripts.json").write_text(json.dumps(transcripts, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
