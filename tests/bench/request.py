"""Time one request: ours in process against NeMo's own transcribe(), and over HTTP against in process.

    just bench [--rounds N]

Everything is interleaved in one run on one machine, so that ratios hold where milliseconds do not.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import logging
import os
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from importlib.resources import files
from pathlib import Path

import httpx
import numpy as np
import soundfile

from seat import settings
from seat.recognizer import SAMPLE_RATE, Waveform
from seat.serve import load_nemo
from seat.service import Service

LENGTHS_S = (1, 5, 20)
CLIPS = Path(str(files("seat") / "demo" / "clips"))

Contender = Callable[[], Awaitable[object]]


def speech(seconds: int) -> Waveform:
    """So many seconds of the bundled clips, one after another."""
    told = json.loads((CLIPS / "transcripts.json").read_text())
    joined = np.concatenate([soundfile.read(CLIPS / name, dtype="int16")[0] for name in sorted(told)] * 2)
    return joined[: seconds * SAMPLE_RATE]


def free_port() -> int:
    """A port of the loopback that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wav(waveform: Waveform) -> bytes:
    """A 16-bit WAV file."""
    file = io.BytesIO()
    soundfile.write(file, waveform, SAMPLE_RATE, format="WAV", subtype="PCM_16")
    return file.getvalue()


async def interleaved(contenders: dict[str, Contender], rounds: int) -> dict[str, float]:
    """Median milliseconds of each, after one round that does not count; who goes first changes every round."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    names = list(contenders)
    for turn in range(rounds + 1):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
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
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "seat", "serve", "--port", str(port)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as server, tempfile.TemporaryDirectory() as folder:
        try:
            chosen = settings.read({})
            async with Service(chosen, lambda: load_nemo(chosen), print) as service, httpx.AsyncClient() as client:
                await service.loaded()
                while (await _status(client, f"{url}/health/ready")) != httpx.codes.OK:
                    await asyncio.sleep(0.2)
                await compare(service, client, url, Path(folder), rounds)
        finally:
            server.terminate()


async def _status(client: httpx.AsyncClient, url: str) -> int:
    try:
        return (await client.get(url)).status_code
    except httpx.TransportError:
        return 0


async def compare(service: Service, client: httpx.AsyncClient, url: str, folder: Path, rounds: int) -> None:
    """Measure every length and print a row for it."""
    print(f"{platform.machine()}, {os.cpu_count()} cores, {time.strftime('%Y-%m-%d')}, median of {rounds}, ms\n")
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
                f"{url}/v1/audio/transcriptions", data={"model": "demo"}, files={"file": ("clip.wav", content)}
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


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    asyncio.run(main(parser.parse_args().rounds))
