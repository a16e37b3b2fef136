"""Start a seat as a process of its own and watch it from outside. Knows ports, signals, log lines; tests nothing."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

import httpx

from seat.child import free_port
from tests import sounds
from tests.fakes import speech

ROOT = Path(__file__).parents[2]
"""Where `python -m seat` and `python -m tests.process.fake_seat` are found."""

PATIENCE_S = 60.0
"""How long anything may take here that takes milliseconds: the machine may be busy with other work."""

MODEL_PATIENCE_S = 90.0
"""How long NeMo may take to import and to load: 9 s alone on two cores."""

TRANSCRIPTIONS = "/v1/audio/transcriptions"

Seen = TypeVar("Seen")


def said(*digits: int) -> bytes:
    """A file of a few kilobytes in which the fake model hears these digits."""
    return sounds.written(speech(digits) / 32768, container="FLAC", encoding="PCM_16")


def until(look: Callable[[], Seen], *, within_s: float = PATIENCE_S, what: str) -> Seen:
    """Look until there is something to see, and return it.

    Raises:
        TimeoutError: There was nothing within the time.
    """
    deadline = time.monotonic() + within_s
    while not (seen := look()):
        if time.monotonic() > deadline:
            message = f"not within {within_s:g} s: {what}"
            raise TimeoutError(message)
        time.sleep(0.01)
    return seen


def read_all(connection: socket.socket) -> bytes:
    """Read until the other side closes."""
    return b"".join(iter(lambda: connection.recv(65_536), b""))


def tell(measured: str) -> None:
    """Print a measurement that nothing depends on; `pytest -s` shows it."""
    print(measured)  # noqa: T201


class Pending:
    """A request that has been sent, all at once."""

    def __init__(self, port: int, request: httpx.Request) -> None:
        head = "".join(f"{name}: {value}\r\n" for name, value in request.headers.items())
        self._connection = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        self._connection.sendall(f"POST {request.url.path} HTTP/1.1\r\n{head}\r\n".encode() + request.read())

    def answer(self) -> httpx.Response:
        """Wait for the answer."""
        with self._connection, http.client.HTTPResponse(self._connection) as answer:
            answer.begin()
            return httpx.Response(answer.status, headers=answer.getheaders(), content=answer.read())

    def hang_up(self) -> None:
        """Close the connection without waiting."""
        self._connection.close()


class Seat:
    """A server process; a context manager, at whose end it is gone."""

    def __init__(self, folder: Path, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("SEAT_")}
        self._client = httpx.Client(
            base_url=self.url, timeout=PATIENCE_S, trust_env=False, limits=httpx.Limits(max_keepalive_connections=0)
        )
        self._log = folder / "log"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, *command],
                cwd=ROOT,
                env={**inherited, "SEAT_PORT": str(self.port), **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._client.close()

    def get(self, path: str, **options: Any) -> httpx.Response:
        """Ask on a connection of its own."""
        return self.send("GET", path, **options)

    def send(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Ask in any way, on a connection of its own."""
        return self._client.request(method, path, **options)

    def post(self, file: bytes, **fields: Any) -> httpx.Response:
        """Transcribe on a connection of its own."""
        return self._client.send(self.request(file, **fields))

    def request(self, file: bytes, **fields: Any) -> httpx.Request:
        """A request as the openai SDK sends bytes; not sent yet."""
        return self._client.build_request(
            "POST",
            TRANSCRIPTIONS,
            data={"model": "whisper-1", **fields},
            files={"file": ("upload", file, "application/octet-stream")},
        )

    def begin(self, file: bytes) -> Pending:
        """Send all of a request; its answer can be waited for later."""
        return Pending(self.port, self.request(file))

    def begin_half(self, file: bytes, **headers: str) -> socket.socket:
        """Send half of an upload, the head included, and no more of it."""
        request = self.request(file)
        head = "".join(f"{name}: {value}\r\n" for name, value in {**request.headers, **headers}.items())
        body = request.read()
        connection = socket.create_connection(("127.0.0.1", self.port), PATIENCE_S)
        connection.sendall(f"POST {TRANSCRIPTIONS} HTTP/1.1\r\n{head}\r\n".encode() + body[: len(body) // 2])
        return connection

    def exchange(self, request: bytes) -> bytes:
        """Send bytes as they are, and read what comes back until the connection closes."""
        with socket.create_connection(("127.0.0.1", self.port), PATIENCE_S) as connection:
            connection.sendall(request)
            return read_all(connection)

    def status(self, path: str) -> int:
        """The status of a path; 0 while nobody listens."""
        try:
            return self.get(path).status_code
        except httpx.TransportError:
            return 0

    def wait_for(self, path: str, status: int = 200, *, within_s: float = PATIENCE_S) -> Self:
        """Wait until a path answers with a status, and fail at once where the process has ended."""

        def answered() -> bool:
            if self.process.poll() is not None:
                message = f"the process ended with {self.process.returncode}:\n{self.log_text()}"
                raise RuntimeError(message)
            return self.status(path) == status

        until(answered, within_s=within_s, what=f"{path} answers {status}")
        return self

    def log_text(self) -> str:
        """All it has written so far."""
        return self._log.read_text(errors="replace")

    def log_lines(self, **facts: Any) -> list[dict[str, Any]]:
        """The log so far, as parsed; only lines that hold these facts. The last line may still be in the making."""
        whole = [json.loads(line) for line in self.log_text().split("\n")[:-1] if line.startswith("{")]
        return [line for line in whole if facts.items() <= line.items()]

    def request_lines(self, request_id: str) -> list[dict[str, Any]]:
        """The canonical lines of a request that has been answered."""
        facts = {"event": "request", "request_id": request_id}
        return until(lambda: self.log_lines(**facts), what=f"a line for {request_id}")

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Send a signal; do not wait."""
        self.process.send_signal(number)

    def exit_code(self, *, within_s: float = PATIENCE_S) -> int:
        """Wait for the process to end."""
        return self.process.wait(within_s)

    def resident_mib(self, name: str = "VmRSS") -> float:
        """Memory as the kernel counts it: VmRSS now, VmHWM at most since `forget_peak`."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(rf"{name}:\s+(\d+) kB", status)[1]) / 1024

    def forget_peak(self) -> None:
        """Let the kernel's high-water mark begin again at what is resident now."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")


class FakeSeat(Seat):
    """A seat with a fake model, that is told what to do by signs in its folder; see `tests.process.fake_seat`."""

    def __init__(self, folder: Path, *arguments: str, **environment: str) -> None:
        quick = {"SEAT_WINDOW_S": "4", "SEAT_WINDOW_CONTEXT_S": "1,1", "SEAT_WARMUP_SECONDS": "1"}
        super().__init__(folder, ["-m", "tests.process.fake_seat", str(folder), *arguments], {**quick, **environment})

    def sign(self, name: str) -> None:
        """Let what waits for this sign go on."""
        (self.folder / name).touch()

    def calls(self, did: str | None = "begin") -> list[dict[str, Any]]:
        """The calls of the model so far, without the warm-up: where each began, where each ended, or both for None."""
        journal = self.folder / "calls"
        written = journal.read_text().split("\n")[:-1] if journal.exists() else []
        return [call for call in map(json.loads, written) if did in (None, call["did"])]

    def words(self) -> list[list[str]]:
        """What the model was asked to hear so far, by window, in order."""
        return [words for call in self.calls() for words in call["said"]]

    def wait_for_words(self, *words: str) -> None:
        """Wait until the model has begun with a window of these words."""
        until(lambda: list(words) in self.words(), what=f"the model begins with {words}")
