"""What benchmarks stand on: bundled speech, a server as a process of its own, and the machine's name in a table."""

from __future__ import annotations

import asyncio
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import httpx
import numpy as np
import soundfile

from seat import demo
from seat.child import free_port
from seat.recognizer import SAMPLE_RATE, Waveform

ASK_EVERY_S = 0.2
"""Seconds between two questions whether a server is ready."""


def speech(seconds: int) -> Waveform:
    """The bundled clips, one after another, again and again, for so many seconds."""
    paths = sorted(clip.path for clip in demo.clips())
    once = np.concatenate([soundfile.read(path, dtype="int16")[0] for path in paths])
    return np.resize(once, seconds * SAMPLE_RATE)


def machine() -> str:
    """Where and when this runs."""
    return f"{platform.machine()}, {os.cpu_count()} cores, {time.strftime('%Y-%m-%d')}"


def rotated(names: Sequence[str], turn: int) -> list[str]:
    """Who goes when in a turn: somebody else goes first in the next one."""
    first = turn % len(names)
    return [*names[first:], *names[:first]]


@contextmanager
def server(*module: str, **environment: str) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A server as a process of its own: its address, and the process.

    Args:
        module: What ``python -m`` runs, with its arguments; PORT in them is a free port.
        environment: Variables beside those of this process.
    """
    port = str(free_port())
    command = [sys.executable, "-m", *(part.replace("PORT", port) for part in module)]
    with subprocess.Popen(
        command, env={**os.environ, **environment}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            yield f"http://127.0.0.1:{port}", process
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


async def wait_until_ready(client: httpx.AsyncClient) -> None:
    """Ask until the model has warmed up."""
    while True:
        try:
            if (await client.get("/health/ready")).is_success:
                return
        except httpx.TransportError:
            pass
        await asyncio.sleep(ASK_EVERY_S)
