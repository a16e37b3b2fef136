"""Speak to a seat: how late words come from 1, 8 and 32 callers, and whether streamed files say what whole files say.

    just bench-live [--fsdd FOLDER] [--scratch FOLDER] [--sessions 1,8,32] [--seconds 60] [--speeds 0,4,1]

Callers say the bundled clips, one after the other, at the pace of speech. A word is late by the time from its end, as
the model gives it, until it is shown, and until it is firm. With FOLDER, the recordings of the Free Spoken Digit
Dataset, the bundled model's test set is sent as files and as streams; at speed 0 a stream comes as fast as it is taken.
"""

from __future__ import annotations

import argparse
import asyncio
import bisect
import itertools
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import jiwer
import numpy as np
from websockets.asyncio.client import connect

from seat.recognizer import SAMPLE_RATE, Waveform
from seat.wav import wav
from tests.bench.rig import machine, server, speech, wait_until_ready
from tests.bench.windows import compose, letters, unheard

BLOCK = SAMPLE_RATE // 10
"""Samples in a message: 100 ms."""

AT_ONCE = 8
"""Files, or streams, of the test set that are under way at the same time."""


@dataclass(slots=True)
class Stream:
    """What came back from one stream."""

    finals: list[str] = field(default_factory=list)
    shown_s: list[float] = field(default_factory=list)
    """Seconds from each word's end until it was shown."""
    firm_s: list[float] = field(default_factory=list)
    """Seconds from each word's end until it was firm."""
    lost_s: float = 0.0
    """Seconds of audio that the server did not count."""

    @property
    def text(self) -> str:
        """All that was said."""
        return " ".join(self.finals)


class Turn:
    """When how much of a turn's text was there."""

    def __init__(self) -> None:
        self.lengths: list[int] = [0]
        self.times: list[float] = [0.0]

    def note(self, length: int, now: float) -> None:
        """A text of so many characters is there."""
        if length > self.lengths[-1]:
            self.lengths.append(length)
            self.times.append(now)

    def since(self, length: int) -> float:
        """When so many characters were there first."""
        return self.times[bisect.bisect_left(self.lengths, length)]


async def stream(url: str, sound: Waveform, speed: float) -> Stream:
    """Say something, and note when which words came."""
    heard = Stream()
    address = url.replace("http", "ws", 1) + "/v1/audio/stream"
    async with connect(address, max_size=None, ping_timeout=None) as socket:  # a pong stands behind audio that waits
        await socket.recv()
        began_at = time.monotonic()

        async def say() -> None:
            for first in range(0, len(sound), BLOCK):
                block = sound[first : first + BLOCK]
                if speed:  # a piece has been said at its end
                    await asyncio.sleep(began_at + (first + len(block)) / SAMPLE_RATE / speed - time.monotonic())
                await socket.send(block.tobytes())
            await socket.send(json.dumps({"type": "close"}))

        saying = asyncio.create_task(say())
        shown, firm = Turn(), Turn()
        async for text in socket:
            message, now = json.loads(text), time.monotonic() - began_at
            match message["type"]:
                case "partial":
                    shown.note(len(message["text"]), now)
                    firm.note(len(message["stable"]), now)
                case "final":
                    heard.finals.append(message["text"])
                    shown.note(len(message["text"]), now)
                    firm.note(len(message["text"]), now)
                    if speed:
                        heard.shown_s += _late(message, shown, speed)
                        heard.firm_s += _late(message, firm, speed)
                    shown, firm = Turn(), Turn()
                case "closed":
                    heard.lost_s = len(sound) / SAMPLE_RATE - message["audio_s"]
        await saying
    return heard


def _late(final: dict[str, Any], seen: Turn, speed: float) -> list[float]:
    """Seconds from the end of each of a turn's words until it was there."""
    ends = itertools.accumulate((1 + len(word["word"]) for word in final["words"]), initial=-1)
    return [
        seen.since(length) - word["end"] / speed
        for word, length in zip(final["words"], itertools.islice(ends, 1, None), strict=True)
    ]


def percentiles(seconds: Sequence[float]) -> str:
    """The 50th and the 95th, in milliseconds."""
    if not seconds:
        return "- | -"
    return " | ".join(f"{1000 * value:.0f}" for value in np.percentile(seconds, [50, 95]))


def share(path: Path, since: float, until: float) -> tuple[float, float]:
    """Share of a stretch of time for which the model was at work, and windows in a batch on average."""
    calls = [line.split() for line in path.read_text().splitlines()]
    inside = [(int(n), float(a), float(b)) for n, a, b in calls if since <= float(a) and float(b) <= until]
    busy_s = sum(b - a for _, a, b in inside)
    return busy_s / (until - since), sum(n for n, _, _ in inside) / max(1, len(inside))


async def load(url: str, busy: Path, sessions: int, seconds: int) -> None:
    """Print a row: so many callers at the pace of speech, who begin within a second."""
    sound = speech(seconds)

    async def caller(number: int) -> Stream:
        await asyncio.sleep(number / sessions)
        shift = number * 3 * SAMPLE_RATE % len(sound)
        return await stream(url, np.roll(sound, shift), 1.0)

    began_at = time.monotonic()
    heard = await asyncio.gather(*map(caller, range(sessions)))
    gpu, batch = share(busy, began_at, time.monotonic())
    firm = [late_s for each in heard for late_s in each.firm_s]
    shown = [late_s for each in heard for late_s in each.shown_s]
    lost_s = sum(each.lost_s for each in heard)
    print(
        f"| {sessions} | {percentiles(shown)} | {percentiles(firm)} | {gpu:.0%} | {batch:.1f} | {lost_s:.1f} |",
        flush=True,
    )


async def whole_file(client: httpx.AsyncClient, sound: Waveform) -> str:
    """What a file is heard as."""
    fields = {"model": "whisper-1", "response_format": "text"}
    answer = await client.post("/v1/audio/transcriptions", data=fields, files={"file": ("file.wav", wav(sound))})
    return answer.raise_for_status().text.strip()


async def accuracy(url: str, fsdd: Path, scratch: Path, count: int, speeds: Sequence[float]) -> None:
    """Print a row for files, and one for each speed."""
    said = test_set(fsdd, scratch, count)
    truth = [text for _, text in said]
    gate = asyncio.Semaphore(AT_ONCE)
    print(
        f"\n| {len(said)} files, {sum(len(a) for a, _ in said) / SAMPLE_RATE:.0f} s | WER | words more |\n|---|---|---|"
    )

    def row(name: str, heard: Sequence[str]) -> None:
        texts = [letters(text) or "-" for text in heard]
        more = sum(len(text.split()) for text in texts) - sum(len(text.split()) for text in truth)
        print(f"| {name} | {jiwer.wer(truth, texts):.2%} | {more:+d} |", flush=True)

    async with httpx.AsyncClient(base_url=url, timeout=600) as client:

        async def file(sound: Waveform) -> str:
            async with gate:
                return await whole_file(client, sound)

        async def streamed(sound: Waveform, speed: float) -> str:
            async with gate:
                return (await stream(url, sound, speed)).text

        row("whole files", await asyncio.gather(*(file(sound) for sound, _ in said)))
        for speed in speeds:
            name = f"streamed, {speed:g} times as fast" if speed else "streamed, at once"
            row(name, await asyncio.gather(*(streamed(sound, speed) for sound, _ in said)))


def test_set(fsdd: Path, scratch: Path, count: int) -> list[tuple[Waveform, str]]:
    """Audio the bundled model never heard, of synthetic voices and people: so many utterances, and two minutes each."""
    from seat.demo.recipe.mix import voices
    from seat.demo.recipe.testset import SECONDS, composed

    made: list[tuple[Waveform, str]] = []
    for seed, units in zip((11, 13), unheard(fsdd, scratch), strict=True):
        for said in composed(seed, units, count // 2, SECONDS):
            samples = np.round(np.clip(said.samples, -1, 1) * 32_767).astype(np.int16)
            made.append((samples, letters(" ".join(word.text for word in said.words))))
        long = compose(120, list(voices(units).values()), seed)
        made.append((long.audio, letters(" ".join(word.text for word in long.words))))
    return made


async def main(arguments: argparse.Namespace) -> None:
    """Start a seat and measure."""
    with tempfile.TemporaryDirectory() as folder:
        busy = Path(folder) / "busy"
        with server("tests.bench.timed_seat", "PORT", str(busy)) as (url, _):
            async with httpx.AsyncClient(base_url=url) as client:
                await wait_until_ready(client)
            print(f"{machine()}\n")
            print("| callers | shown p50 | p95 ms | firm p50 | p95 ms | model at work | windows a batch | lost s |")
            print("|---|---|---|---|---|---|---|---|")
            for sessions in map(int, filter(None, arguments.sessions.split(","))):
                await load(url, busy, sessions, arguments.seconds)
            if arguments.fsdd:
                speeds = list(map(float, arguments.speeds.split(",")))
                await accuracy(url, arguments.fsdd, arguments.scratch, arguments.count, speeds)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fsdd", type=Path, help="folder of the Free Spoken Digit Dataset's recordings")
    parser.add_argument("--scratch", type=Path, default=Path("demo-scratch"), help="where synthesized speech is kept")
    parser.add_argument("--sessions", default="1,8,32", help="callers")
    parser.add_argument("--seconds", type=int, default=60, help="how long they speak")
    parser.add_argument("--count", type=int, default=140, help="utterances of the test set")
    parser.add_argument("--speeds", default="0,4,1", help="of the streams of the test set")
    asyncio.run(main(parser.parse_args()))
