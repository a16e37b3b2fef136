"""Serve a few clips in a process of its own, and tell how long they took: python -m tests.gpu.alone CHECKPOINT ...

Graphs and compiled layers need one: what they capture is of no use to, and not safe beside, the other tests.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import statistics
import time
import wave
from functools import partial
from typing import Any

import numpy as np

from seat import settings
from seat.meter import MIB
from seat.recognizer import SAMPLE_RATE, Chunk, Recognizer
from seat.serve import load_nemo
from seat.service import Service
from tests.tiny import chirps

OPTIONS: dict[str, dict[str, object]] = {
    "eager": {},
    "graphs": {"cuda_graphs": True, "mem_return": False},
    "compiled": {"torch_compile": True},
}
"""Settings of each variant."""

CLIPS_S = (1, 5, 20)
REPEATS = 20
"""How often each clip is served; the median counts."""

CHUNKED, CHUNKED_S, CUT = 3, 8, 40
"""Sounds that are heard in chunks side by side, their seconds, and the frame between the chunks."""

TOGETHER = 24
"""Clips of a second that are sent at once: more than a batch of graphs holds."""


def clip(seconds: int) -> bytes:
    """Chirps in a WAV file."""
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(SAMPLE_RATE)
        sound.writeframes((chirps(seconds, seconds) * 32767).astype(np.int16).tobytes())
    return file.getvalue()


async def measure(checkpoint: str, device: str, variant: str) -> dict[str, Any]:
    """Load, warm up, serve."""
    failures: list[BaseException] = []
    chosen = settings.read({}, model=checkpoint, device=device, **OPTIONS[variant])
    began_at = time.monotonic()
    async with Service(chosen, partial(load_nemo, chosen), failures.append) as service:
        await service.loaded()
        if failures or service.info is None:
            return {"failed": f"{type(failures[0]).__name__}: {failures[0]}" if failures else "not ready"}
        ready_s = time.monotonic() - began_at
        latency_ms, texts = {}, []
        for seconds in CLIPS_S:
            took, sound = [], clip(seconds)
            for _ in range(REPEATS):
                asked_at = time.perf_counter()
                transcript = await service.transcribe(io.BytesIO(sound))
                took.append(time.perf_counter() - asked_at)
            latency_ms[str(seconds)] = round(statistics.median(took) * 1000, 2)
            texts.append(transcript.text)
        sound = clip(1)
        together = await asyncio.gather(*(service.transcribe(io.BytesIO(sound)) for _ in range(TOGETHER)))
        same_in_chunks = await service._executor.run(partial(_same_in_chunks, service._works.recognizer))
        now = service.statistics()
        memory = now.memory
        return {
            "graphs": now.graphs,
            "compiled": service.info.compiled,
            "dtype": service.info.dtype,
            "ready_s": round(ready_s, 1),
            "latency_ms": latency_ms,
            "texts": texts,
            "texts_in_a_batch": sorted({transcript.text for transcript in together}),
            "same_in_chunks": same_in_chunks,
            "rest_mib": memory.rest // MIB,
            "peak_mib": memory.peak // MIB,
            "refusals": memory.refusals,
        }


def _same_in_chunks(recognizer: Recognizer) -> bool:
    """Whether a few sounds have the same tokens in two chunks each, the first decoded ahead, as at once."""
    sounds = [(chirps(CHUNKED_S, number) * 32767).astype(np.int16) for number in range(CHUNKED)]
    begun = recognizer.proceed([Chunk(waveform=sound, first=0, stop=CUT, ahead=True) for sound in sounds])
    ended = recognizer.proceed(
        [
            Chunk(waveform=sound, first=CUT, stop=None, carried=carried)
            for sound, (_, carried) in zip(sounds, begun, strict=True)
        ]
    )
    heard = [
        [token for token, frame in zip(one.tokens, one.frames, strict=True) if frame < CUT] + list(other.tokens)
        for (one, _), (other, _) in zip(begun, ended, strict=True)
    ]
    return heard == [list(whole.tokens) for whole in recognizer.recognize(sounds)]


def main() -> None:
    """Print the facts as the last line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("checkpoint")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--variant", choices=OPTIONS, default="eager")
    asked = parser.parse_args()
    print(json.dumps(asyncio.run(measure(asked.checkpoint, asked.device, asked.variant))))  # noqa: T201  the answer


if __name__ == "__main__":
    main()
