"""Measure the demo model on speech it never heard: `python -m seat.demo.recipe.accuracy --fsdd DIR`.

Word error rates are jiwer's, without capitals and full stops; those are measured by themselves on the words that are
right. A word's start is the frame of its first token, its end the frame after its last, 80 ms each.
"""

import argparse
import dataclasses
import json
import logging
import tempfile
from collections.abc import Sequence
from difflib import SequenceMatcher
from pathlib import Path

import jiwer
import numpy as np
import torch
from nemo.collections.asr.models import ASRModel, EncDecRNNTBPEModel

from seat.demo.recipe.mix import Utterance, Word
from seat.demo.recipe.testset import Sets, sets
from seat.demo.recipe.vocabulary import FULL_STOP
from seat.gpu.nemo import NemoRecognizer
from seat.recognizer import SAMPLE_RATE, Recognizer
from seat.windows import WindowLimits, plan
from seat.words import spoken_words

NEAR_SECONDS = 0.1
"""A word's start or end this near to the truth counts as right."""
MOST_SECONDS = 60.0
"""Audio computed at once."""
ONE_WINDOW = WindowLimits.of_seconds(60.0, (0.0, 0.0))
"""Every utterance is one window; cutting is the service's business and measured there."""

LIVE_SETS = ("heard voices, unseen takes", "heard people, unseen takes")
"""What is also measured as live audio is computed, with little of the future in sight."""
LIVE_CONTEXTS = ((70, 13, 13), (70, 7, 4), (70, 2, 1))
"""Left, chunk and right context in frames: 2.1, 0.9 and 0.2 seconds ahead at most."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Score:
    """How well one set went."""

    utterances: int
    """How many the set has."""
    words: int
    """How many were said."""
    wer: float
    """Word error rate, 0 to 1; 0 if nothing was said."""
    invented: int
    """Words written for utterances without any."""
    stops: float
    """Share of right words that have, or lack, a full stop and a capital as they should."""
    starts_near: float
    """Share of right words starting within 0.1 s of the truth."""
    ends_near: float
    """Share of right words ending within 0.1 s of the truth."""
    worst: float
    """Largest error of a start or end of a right word, in seconds."""


def recognize(recognizer: Recognizer, said: Sequence[Utterance]) -> list[list[Word]]:
    """Write what is said in each utterance, one window each, as the service does.

    Args:
        recognizer: The model; called on this thread.
        said: Any number of utterances.
    """
    written: dict[int, list[Word]] = {}
    order = sorted(range(len(said)), key=lambda i: len(said[i].samples))
    while order:
        longest = max(SAMPLE_RATE, len(said[order[-1]].samples))
        some = [order.pop() for _ in range(min(len(order), max(1, int(MOST_SECONDS * SAMPLE_RATE / longest))))]
        windows = [plan(len(said[i].samples), ONE_WINDOW, quietest=lambda first, _: first)[0] for i in some]
        sixteen_bit = [np.round(np.clip(said[i].samples, -1, 1) * 32_767).astype(np.int16) for i in some]
        heard = recognizer.recognize([window.cut(each) for window, each in zip(windows, sixteen_bit, strict=True)])
        for i, window, recognition in zip(some, windows, heard, strict=True):
            words = spoken_words(
                recognition, recognizer.vocabulary, offset_s=window.start / SAMPLE_RATE, audio_s=said[i].seconds
            )
            written[i] = [Word(text=each.text, start=each.start_s, end=each.end_s) for each in words]
    return [written[i] for i in range(len(said))]


def _plain(words: Sequence[Word]) -> list[str]:
    return [word.text.lower().strip(FULL_STOP) for word in words]


def score(said: Sequence[Utterance], written: Sequence[Sequence[Word]]) -> Score:
    """Compare what was written with what was said."""
    with_words = [(each.words, guess) for each, guess in zip(said, written, strict=True) if each.words]
    errors = 0.0
    if with_words:
        truth = [" ".join(_plain(words)) for words, _ in with_words]
        errors = float(jiwer.wer(truth, [" ".join(_plain(guess)) for _, guess in with_words]))
    pairs = [
        (words[block.a + k], guess[block.b + k])
        for words, guess in with_words
        for block in SequenceMatcher(None, _plain(words), _plain(guess), autojunk=False).get_matching_blocks()
        for k in range(block.size)
    ]
    starts = np.abs([right.start - guess.start for right, guess in pairs] or [0.0])
    ends = np.abs([right.end - guess.end for right, guess in pairs] or [0.0])
    return Score(
        utterances=len(said),
        words=sum(len(each.words) for each in said),
        wer=round(errors, 4),
        invented=sum(len(guess) for each, guess in zip(said, written, strict=True) if not each.words),
        stops=round(float(np.mean([float(right.text == guess.text) for right, guess in pairs] or [1.0])), 4),
        starts_near=round(float((starts <= NEAR_SECONDS + 1e-6).mean()), 4),
        ends_near=round(float((ends <= NEAR_SECONDS + 1e-6).mean()), 4),
        worst=round(float(max(starts.max(), ends.max())), 3),
    )


def measure(recognizer: Recognizer, made: Sets) -> dict[str, Score]:
    """Score a model on every set."""
    return {name: score(said, recognize(recognizer, said)) for name, said in made.items()}


def opened(net: EncDecRNNTBPEModel) -> NemoRecognizer:
    """Make a model ready to recognize with on the processor; it cannot be trained after."""
    return NemoRecognizer(net, target=torch.device("cpu"), dtype=torch.float32, model_id="demo")


def quick_check(net: EncDecRNNTBPEModel, fsdd: Path, scratch: Path) -> dict[str, list[float]]:
    """Score a model in training on few utterances: word error rate, stops, starts and ends; or invented words."""
    scores = measure(opened(net), sets(fsdd, scratch, 48))
    return {
        name: [each.wer, each.stops, each.starts_near, each.ends_near] if each.words else [float(each.invented)]
        for name, each in scores.items()
    }


def table(scores: dict[str, Score]) -> str:
    """Render scores as one table."""
    lines = [f"{'set':42} {'utt.':>5} {'words':>6} {'WER':>7} {'stops':>7} {'starts':>7} {'ends':>7} {'worst':>7}"]
    for name, each in scores.items():
        if each.words:
            lines.append(
                f"{name:42} {each.utterances:5} {each.words:6} {each.wer:7.2%} {each.stops:7.2%}"
                f" {each.starts_near:7.2%} {each.ends_near:7.2%} {each.worst:5.2f} s"
            )
        else:
            lines.append(f"{name:42} {each.utterances:5} {0:6} invented words: {each.invented}")
    return "\n".join(lines)


def main() -> None:
    """Read the command line, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fsdd", type=Path, required=True, help="folder of the Free Spoken Digit Dataset's recordings")
    parser.add_argument("--model", type=Path, default=Path(__file__).parents[1] / "demo.nemo")
    parser.add_argument("--scratch", type=Path, default=Path(tempfile.gettempdir()) / "seat-demo")
    parser.add_argument("--count", type=int, default=300, help="utterances of a set")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    logging.getLogger("nemo_logger").setLevel(logging.ERROR)
    net = ASRModel.restore_from(str(asked.model), map_location="cpu")
    made = sets(asked.fsdd, asked.scratch, asked.count)
    recognizer = opened(net)
    scores = measure(recognizer, made)
    for context in LIVE_CONTEXTS:
        net.encoder.att_context_size = list(context)
        some = {f"{name}, chunks {context[1]}+{context[2]}": made[name] for name in LIVE_SETS}
        scores |= measure(recognizer, some)
    if asked.json:
        print(json.dumps({name: dataclasses.asdict(each) for name, each in scores.items()}, indent=1))
    else:
        print(table(scores))


if __name__ == "__main__":
    main()
