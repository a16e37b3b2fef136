"""A LiteLLM proxy as a process of its own, in an environment of its own. Knows how to install it; tests nothing.

Its dependencies contradict the seat's (an older rich, an older huggingface_hub), so it is installed once into the
user's cache; afterwards it needs no network.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import venv
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import httpx

from seat.child import free_port
from tests.process.seats import ROOT, until

CONFIG = ROOT / "containers" / "litellm.yaml"

VERSION = "1.110.2"

INSTALLS = (
    ["litellm[proxy]==1.108.7"],
    ["--no-deps", f"litellm=={VERSION}", "semver>=3.0.4,<4", "backports.zstd>=1,<2"],
)
"""What pip is asked for, in this order. The proxy of the newest version is in its wheel, but its extra 'proxy' asks for
a package that indexes lack; so the older version's extra comes first, then what the newer one needs beside it."""

START_PATIENCE_S = 120.0
"""How long the proxy may take to import itself: 20 s alone on two cores."""


def installed() -> Path:
    """The proxy's command, installed where it was not yet."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "seat-tests"
    folder = cache / f"litellm-{VERSION}-python{sys.version_info.major}.{sys.version_info.minor}"
    done = folder / "installed"
    if not done.exists():
        venv.create(folder, clear=True, with_pip=True)
        for wanted in INSTALLS:
            subprocess.run([folder / "bin" / "python", "-m", "pip", "install", "--quiet", *wanted], check=True)
        done.touch()
    return folder / "bin" / "litellm"


class Proxy:
    """A proxy in front of seats; a context manager, at whose end it is gone."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.key = f"sk-{secrets.token_hex(24)}"
        self._log = folder / "proxy.log"
        inherited = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "SEAT_PORT"}}
        ours = {
            "LITELLM_MASTER_KEY": self.key,
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # not fetched from the network
            "NO_PROXY": "127.0.0.1",
            "HOME": str(folder),
        }
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [installed(), "--config", CONFIG, "--host", "127.0.0.1", "--port", str(self.port)],
                cwd=folder,
                env={**inherited, **ours, **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def wait(self) -> Self:
        """Wait until it answers, and fail at once where the process has ended."""

        def alive() -> bool:
            if self.process.poll() is not None:
                raise RuntimeError(self._log.read_text(errors="replace"))
            try:
                return httpx.get(f"{self.url}/health/liveliness", trust_env=False).is_success
            except httpx.TransportError:
                return False

        until(alive, within_s=START_PATIENCE_S, what="the proxy answers")
        return self
