"""Time one request: ours in process against NeMo's own transcribe(), and over HTTP against in process; then decoding.

    just bench [--rounds N]

Everything is interleaved in one run on one machine, so that ratios hold where milliseconds do not.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import logging
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from seat import settings
from seat.recognizer import Waveform
from seat.serve import load_nemo
from seat.service import Service
from seat.wav import wav
from tests.bench.rig import machine, rotated, server, speech, wait_until_ready

LENGTHS_S = (1, 5, 20)
Contender = Callable[[], Awaitable[object]]


async def interleaved(contenders: dict[str, Contender], rounds: int) -> dict[str, float]:
    """Median milliseconds of each, after one round that does not count; who goes first changes every round."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(rounds + 1):
        for name in rotated(list(contenders), turn):
            began_at = time.perf_counter()
            await contenders[name]()
            if turn:
                times[name].append((time.perf_counter() - began_at) * 1e3)
    return {name: statistics.median(measured) for name, measured in times.items()}


def nemo_contenders(waveform: Waveform, path: Path) -> dict[str, Contender]:
    """NeMo's transcribe() with time stamps, on a model of its own: it leaves the model in training mode."""
    from nemo.collections.asr.models import ASRModel
    from omegaconf import open_dict

    from seat.gpu.checkpoint import DEMO

    logging.getLogger("nemo_logger").setLevel(logging.ERROR)
    model = ASRModel.restore_from(str(DEMO), map_location="cpu")
    with open_dict(model.cfg):
        model.cfg.validation_ds = {}  # else the path form raises on checkpoints without one
    samples = waveform.astype(np.float32) / 32768
    options = {"batch_size": 1, "timestamps": True, "verbose": False}

    async def array() -> None:
        model.transcribe([samples], **options)

    async def file() -> None:
        model.transcribe([str(path)], **options)

    return {"transcribe(array)": array, "transcribe(path)": file}


async def main(rounds: int) -> None:
    """Print two tables."""
    chosen = settings.read({})
    with server("seat", "serve", "--port", "PORT") as (url, _), tempfile.TemporaryDirectory() as folder:
        async with (
            Service(chosen, lambda: load_nemo(chosen), print) as service,
            httpx.AsyncClient(base_url=url) as client,
        ):
            await service.loaded()
            await wait_until_ready(client)
            await compare(service, client, Path(folder), rounds)
    await compare_decoders(rounds)


async def compare(service: Service, client: httpx.AsyncClient, folder: Path, rounds: int) -> None:
    """Measure every length and print a row for it."""
    print(f"{machine()}, median of {rounds}, ms\n")
    print(
        "| audio | in process | over HTTP | HTTP adds | transcribe(array) | transcribe(path) | ours/array | ours/path |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for seconds in LENGTHS_S:
        content = wav(speech(seconds))
        path = folder / f"{seconds}.wav"
        path.write_bytes(content)

        async def ours(content: bytes = content) -> None:
            await service.transcribe(io.BytesIO(content))

        async def http(content: bytes = content) -> None:
            answer = await client.post(
                "/v1/audio/transcriptions", data={"model": "demo"}, files={"file": ("clip.wav", content)}
            )
            answer.raise_for_status()

        contenders: dict[str, Contender] = {"ours": ours, "http": http, **nemo_contenders(speech(seconds), path)}
        ms = await interleaved(contenders, rounds)
        array, file = ms["transcribe(array)"], ms["transcribe(path)"]
        print(
            f"| {seconds} s | {ms['ours']:.1f} | {ms['http']:.1f} | {ms['http'] - ms['ours']:.1f} | {array:.1f} "
            f"| {file:.1f} | {ms['ours'] / array:.2f} | {ms['ours'] / file:.2f} |",
            flush=True,
        )


async def compare_decoders(rounds: int) -> None:
    """The same of decoding alone: our decoder and NeMo's on what the encoder made of each length."""
    import torch

    recognizer: Any = load_nemo(settings.read({}))
    print("\n| decoding | ours | NeMo's | ours/NeMo's |\n|---|---|---|---|")
    for seconds in LENGTHS_S:
        with torch.inference_mode():
            encoded, lengths = recognizer._encode([speech(seconds)])

        async def ours(encoded: Any = encoded, lengths: Any = lengths) -> None:
            with torch.inference_mode():
                recognizer._decode(encoded, lengths, [None])

        async def nemos(encoded: Any = encoded, lengths: Any = lengths) -> None:
            with torch.inference_mode():
                recognizer._computer(x=encoded, out_len=lengths, prev_batched_state=None)

        ms = await interleaved({"ours": ours, "nemos": nemos}, rounds)
        print(f"| {seconds} s | {ms['ours']:.1f} | {ms['nemos']:.1f} | {ms['ours'] / ms['nemos']:.2f} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    asyncio.run(main(parser.parse_args().rounds))
