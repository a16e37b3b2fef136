"""Compare the ways to join windows on long files of known words: word error rate, seams, word times.

    just bench-windows --fsdd FOLDER [--scratch FOLDER] [--files 31x16,436x4,720x4,3660x1]

Files are strung from takes the bundled model never heard, of synthetic voices and of people, with pauses up to 8 s.
They are recognized in one pass (up to SINGLE_PASS_S), sentence by sentence, and in windows of several sizes joined in
both ways, with cuts at quiet points and, to provoke faults, anywhere. The files of one length are counted together: in
a single one a word or two of the model's own errors decide.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path

import jiwer
import numpy as np

from seat.demo.recipe import bank
from seat.demo.recipe.mix import Composer, Voice, voices, word_pause
from seat.demo.recipe.mix import Word as SaidWord
from seat.gpu import nemo
from seat.recognizer import SAMPLE_RATE, Recognition, Recognizer, Waveform
from seat.transcript import Transcript
from seat.windows import Window, WindowLimits, plan, quietest_point
from tests.stitched import stitch

SINGLE_PASS_S = 800
"""Longest audio that is also recognized in one pass."""

BATCH_WINDOWS = 4
"""Windows side by side where they are independent."""

NEAR_S = 0.1
"""A word's start or end is right within so many seconds."""

SEAM_S = 1.0
"""A word is at a seam if it is this near to a cut, in seconds."""

SIZES = ((10.0, (5.0, 2.5)), (15.0, (3.0, 2.0)), (20.0, (6.0, 4.0)), (30.0, (10.0, 5.0)))
"""Core and context, in seconds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LongFile:
    """Audio and what is said in it."""

    audio: Waveform
    words: tuple[SaidWord, ...]
    sentences: tuple[tuple[int, int], ...]
    """First and last sample of each sentence with a little silence around it."""


@dataclass(slots=True)
class Tally:
    """Words of all files that one way was tried on."""

    words: int = 0
    errors: int = 0
    seam_words: int = 0
    seam_errors: int = 0
    right: int = 0
    """Words that were recognized, and"""
    in_time: int = 0
    """those of them whose start and end are within `NEAR_S` of the truth."""
    took_s: float = 0.0

    def row(self) -> str:
        """The figures of a row of the table."""
        seams = f"{self.seam_errors / self.seam_words:.2%} of {self.seam_words}" if self.seam_words else ""
        times = f"{self.in_time / self.right:.1%}" if self.in_time else ""
        return f"{self.errors / self.words:.2%} of {self.words} | {seams} | {times} | {self.took_s:.1f}"


def compose(seconds: float, speakers: Sequence[Voice], seed: int) -> LongFile:
    """String sentences together until the file is long enough; pauses between them are 0.7 to 8 s, within up to 0.4."""
    rng = np.random.default_rng(seed)
    made = Composer(rng)
    spans = []
    made.pause(0.4)
    while made.seconds < seconds - 2:
        speaker, wanted, said = speakers[int(rng.integers(len(speakers)))], int(rng.integers(1, 12)), 0
        began_s = made.seconds
        while said < wanted and made.seconds < seconds - 2:
            if said and (pause := word_pause(rng)):
                made.pause(max(0.05, pause))
            said += made.say(speaker.draw(rng, wanted - said), gain=0.9)
        made.stop()
        spans.append((round((began_s - 0.3) * SAMPLE_RATE), round((made.seconds + 0.3) * SAMPLE_RATE)))
        made.pause(float(rng.choice([rng.uniform(0.7, 1.5), rng.uniform(1.5, 8)], p=[0.8, 0.2])))
    utterance = made.utterance()
    audio = np.round(np.clip(utterance.samples, -1, 1) * 32767).astype(np.int16)
    return LongFile(audio=audio, words=utterance.words, sentences=tuple(spans))


def unheard(fsdd: Path, scratch: Path) -> tuple[bank.Bank, bank.Bank]:
    """Takes that the bundled model's training did not hear, of voices that it did: synthetic ones, and people."""
    people = bank.human(fsdd, held_out=True)
    people.pop(bank.HELD_OUT_SPEAKER)
    return bank.kept(scratch, bank.UNSEEN), people


def one_pass(recognizer: Recognizer, file: LongFile) -> Transcript:
    """The whole file at once."""
    limits = WindowLimits.of_seconds(len(file.audio) / SAMPLE_RATE, (0, 0))
    return windowed(recognizer, file, limits, "independent", lambda _, last: last)[0]


def by_sentence(recognizer: Recognizer, file: LongFile) -> str:
    """Each sentence by itself, as a clip."""
    clips = [file.audio[first:stop] for first, stop in file.sentences]
    padded = [np.pad(clip, (0, max(0, SAMPLE_RATE - len(clip)))) for clip in clips]
    heard: list[str] = []
    for clip in padded:
        (recognition,) = recognizer.recognize([clip])
        pieces = "".join(recognizer.vocabulary.pieces[token] for token in recognition.tokens)
        heard.append(pieces.replace("▁", " ").strip())
    return " ".join(heard)


def windowed(
    recognizer: Recognizer, file: LongFile, limits: WindowLimits, join: str, quietest: Callable[[int, int], int]
) -> tuple[Transcript, list[Window]]:
    """The file in windows, joined in one of the two ways."""
    frame = round(recognizer.vocabulary.frame_s * SAMPLE_RATE)
    samples = len(file.audio)
    if join == "independent":
        windows = plan(samples, limits, quietest)
        cuts = [window.cut(file.audio) for window in windows]
        heard: list[Recognition] = []
        for first in range(0, len(cuts), BATCH_WINDOWS):
            heard += recognizer.recognize(cuts[first : first + BATCH_WINDOWS])
        return stitch(windows, heard, recognizer.vocabulary, samples=samples, language="en"), windows
    windows = plan(samples, limits, quietest, frame)
    carried: object | None = None
    heard = []
    for window in windows:
        chunk = window.chunk(file.audio, frame)
        ((recognition, carried),) = recognizer.proceed([replace(chunk, carried=carried)])
        heard.append(recognition)
    joined = stitch(windows, heard, recognizer.vocabulary, samples=samples, language="en", join="carried")
    return joined, windows


def letters(text: str) -> str:
    """Lower case without full stops."""
    return text.lower().replace(".", "")


def count(tally: Tally, file: LongFile, transcript: Transcript | str, cuts: Sequence[int] = ()) -> None:
    """Add what one file gave: errors, those at cuts (in samples), and words in time."""
    heard = transcript.split() if isinstance(transcript, str) else [word.text for word in transcript.words]
    said = [letters(word.text) for word in file.words]
    at_seam = [
        any(abs((word.start + word.end) / 2 - cut / SAMPLE_RATE) < SEAM_S for cut in cuts) for word in file.words
    ]
    alignment = jiwer.process_words(" ".join(said), letters(" ".join(heard)) or "-").alignments[0]
    tally.words, tally.seam_words = tally.words + len(said), tally.seam_words + sum(at_seam)
    for chunk in alignment:
        first, stop = chunk.ref_start_idx, chunk.ref_end_idx
        if chunk.type != "equal":
            errors = max(stop - first, chunk.hyp_end_idx - chunk.hyp_start_idx)
            tally.errors += errors
            tally.seam_errors += errors if any(at_seam[max(0, first - 1) : stop + 1]) else 0
        elif not isinstance(transcript, str):
            for truth, word in zip(file.words[first:stop], transcript.words[chunk.hyp_start_idx :], strict=False):
                tally.right += 1
                tally.in_time += abs(word.start_s - truth.start) <= NEAR_S and abs(word.end_s - truth.end) <= NEAR_S


def compare(recognizer: Recognizer, file: LongFile, tallies: defaultdict[str, Tally]) -> None:
    """Try every way on a file."""

    def try_(way: str, recognize: Callable[[], tuple[Transcript | str, Sequence[Window]]]) -> None:
        began_at = time.monotonic()
        transcript, windows = recognize()
        tallies[way].took_s += time.monotonic() - began_at
        count(tallies[way], file, transcript, [window.core_start for window in windows[1:]])

    if len(file.audio) <= SINGLE_PASS_S * SAMPLE_RATE:
        try_("one pass", lambda: (one_pass(recognizer, file), []))
    try_("sentence by sentence", lambda: (by_sentence(recognizer, file), []))
    ways: dict[str, Callable[[int, int], int]] = {
        "quiet": lambda first, last: quietest_point(file.audio, first, last),
        "anywhere": lambda _, last: last,
    }
    for (core_s, context_s), join, cuts in product(SIZES, ("independent", "carried"), ways):
        limits = WindowLimits.of_seconds(core_s, context_s)
        recognize = partial(windowed, recognizer, file, limits, join, ways[cuts])
        try_(f"{core_s:g} s, {join}, cut {cuts}", recognize)


def main() -> None:
    """Make the files and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fsdd", type=Path, required=True, help="folder of the Free Spoken Digit Dataset's recordings")
    parser.add_argument("--scratch", type=Path, default=Path("demo-scratch"), help="where synthesized speech is kept")
    parser.add_argument("--files", default="31x16,436x4,720x4,3660x1", help="seconds of the files, and how many")
    parser.add_argument("--model", default="demo", help="as SEAT_MODEL")
    arguments = parser.parse_args()
    synthetic, people = unheard(arguments.fsdd, arguments.scratch)
    sources = {"synthetic": list(voices(synthetic).values()), "people": list(voices(people).values())}
    recognizer = nemo.load(model=arguments.model, model_id="bench", sha256=None, device_name="auto", dtype_name="auto")
    print("| files | way | errors in words | within 1 s of a cut | times right | s |\n|---|---|---|---|---|---|")
    for length, (source, speakers) in product(arguments.files.split(","), sources.items()):
        seconds, _, files = length.partition("x")
        tallies: defaultdict[str, Tally] = defaultdict(Tally)
        for number in range(int(files or 1)):
            compare(recognizer, compose(float(seconds), speakers, 1000 + number), tallies)
        for way, tally in tallies.items():
            print(f"| {files or 1} of {seconds} s, {source} | {way} | {tally.row()} |", flush=True)


if __name__ == "__main__":
    main()
