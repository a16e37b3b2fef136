"""Compare the ways to join windows on long files of known words: word error rate, seams, word times.

    just bench-windows --fsdd FOLDER [--scratch FOLDER] [--lengths 31,436,720,3660]

Files are strung from takes the bundled model never heard, of synthetic voices and of people, with pauses up to 8 s.
They are recognized in one pass (up to SINGLE_PASS_S), sentence by sentence, and in windows of several sizes joined in
both ways, with cuts at quiet points and, to provoke faults, anywhere.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import jiwer
import numpy as np

from seat.demo.recipe import bank
from seat.demo.recipe.mix import Composer, Voice, voices, word_pause
from seat.demo.recipe.mix import Word as SaidWord
from seat.gpu import nemo
from seat.recognizer import SAMPLE_RATE, Recognition, Recognizer, Waveform
from seat.stitching import stitch
from seat.transcript import Transcript
from seat.windows import WindowLimits, plan, quietest_point

SINGLE_PASS_S = 800
"""Longest audio that is also recognized in one pass."""

BATCH_WINDOWS = 4
"""Windows side by side where they are independent."""

NEAR_S = 0.1
"""A word's start or end is right within so many seconds."""

SIZES = ((10.0, (5.0, 2.5)), (20.0, (10.0, 5.0)), (30.0, (10.0, 5.0)))
"""Core and context, in seconds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LongFile:
    """Audio and what is said in it."""

    audio: Waveform
    words: tuple[SaidWord, ...]
    sentences: tuple[tuple[int, int], ...]
    """First and last sample of each sentence with a little silence around it."""


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


def one_pass(recognizer: Recognizer, file: LongFile) -> Transcript:
    """The whole file at once."""
    limits = WindowLimits.of_seconds(len(file.audio) / SAMPLE_RATE, (0, 0))
    return windowed(recognizer, file, limits, "independent", lambda _, last: last)


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
) -> Transcript:
    """The file in windows, joined in one of the two ways."""
    frame = round(recognizer.vocabulary.frame_s * SAMPLE_RATE)
    samples = len(file.audio)
    if join == "independent":
        windows = plan(samples, limits, quietest)
        cuts = [window.cut(file.audio) for window in windows]
        heard: list[Recognition] = []
        for first in range(0, len(cuts), BATCH_WINDOWS):
            heard += recognizer.recognize(cuts[first : first + BATCH_WINDOWS])
        return stitch(windows, heard, recognizer.vocabulary, samples=samples, language="en")
    windows = plan(samples, limits, quietest, frame)
    carried: object | None = None
    heard = []
    for window in windows:
        chunk = window.chunk(file.audio, frame)
        ((recognition, carried),) = recognizer.proceed([replace(chunk, carried=carried)])
        heard.append(recognition)
    return stitch(windows, heard, recognizer.vocabulary, samples=samples, language="en", join="carried")


def letters(text: str) -> str:
    """Lower case without full stops."""
    return text.lower().replace(".", "")


def near(file: LongFile, transcript: Transcript) -> float:
    """Share of right words whose start and end are both within `NEAR_S` of the truth."""
    said, heard = [letters(word.text) for word in file.words], [letters(word.text) for word in transcript.words]
    alignment = jiwer.process_words(" ".join(said), " ".join(heard)).alignments[0]
    hits = right = 0
    for chunk in alignment:
        if chunk.type != "equal":
            continue
        for offset in range(chunk.ref_end_idx - chunk.ref_start_idx):
            truth = file.words[chunk.ref_start_idx + offset]
            word = transcript.words[chunk.hyp_start_idx + offset]
            right += 1
            hits += abs(word.start_s - truth.start) <= NEAR_S and abs(word.end_s - truth.end) <= NEAR_S
    return hits / max(right, 1)


def compare(recognizer: Recognizer, name: str, file: LongFile) -> None:
    """Print a row for every way."""
    truth = letters(" ".join(word.text for word in file.words))

    def row(way: str, transcript: Transcript | str, began_at: float) -> None:
        text = transcript if isinstance(transcript, str) else transcript.text
        wer = jiwer.wer(truth, letters(text) or "-")
        count = len(letters(text).split()) - len(truth.split())
        times = "" if isinstance(transcript, str) else f"{near(file, transcript):.1%}"
        print(f"| {name} | {way} | {wer:.2%} | {count:+d} | {times} | {time.monotonic() - began_at:.1f} |", flush=True)

    began_at = time.monotonic()
    if len(file.audio) <= SINGLE_PASS_S * SAMPLE_RATE:
        row("one pass", one_pass(recognizer, file), began_at)
    began_at = time.monotonic()
    row("sentence by sentence", by_sentence(recognizer, file), began_at)
    ways: dict[str, Callable[[int, int], int]] = {
        "quiet": lambda first, last: quietest_point(file.audio, first, last),
        "anywhere": lambda _, last: last,
    }
    for core_s, context_s in SIZES:
        limits = WindowLimits.of_seconds(core_s, context_s)
        for join in ("independent", "carried"):
            for cuts, quietest in ways.items():
                began_at = time.monotonic()
                transcript = windowed(recognizer, file, limits, join, quietest)
                row(f"{core_s:g} s, {join}, cut {cuts}", transcript, began_at)


def main() -> None:
    """Make the files and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fsdd", type=Path, required=True, help="folder of the Free Spoken Digit Dataset's recordings")
    parser.add_argument("--scratch", type=Path, default=Path("demo-scratch"), help="where synthesized speech is kept")
    parser.add_argument("--lengths", default="31,436,720,3660", help="seconds of the files")
    parser.add_argument("--model", default="demo", help="as SEAT_MODEL")
    arguments = parser.parse_args()
    heard = bank.kept(arguments.scratch, bank.UNSEEN)
    people = bank.human(arguments.fsdd, held_out=True)
    people.pop(bank.HELD_OUT_SPEAKER)
    sources = {"synthetic": list(voices(heard).values()), "people": list(voices(people).values())}
    recognizer = nemo.load(model=arguments.model, model_id="bench", sha256=None, device_name="auto", dtype_name="auto")
    print("| file | way | WER | words more | times right | s |\n|---|---|---|---|---|---|")
    for seconds in map(float, arguments.lengths.split(",")):
        for source, speakers in sources.items():
            compare(recognizer, f"{seconds:g} s, {source}", compose(seconds, speakers, round(seconds)))


if __name__ == "__main__":
    main()
