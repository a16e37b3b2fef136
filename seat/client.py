"""Ask a running server for transcripts. Knows OpenAI's audio API from the outside; no model, no terminal.

SeatError
└── NoTranscript                no transcript came back from a server
    ├── NoAddress               what was named cannot be an address
    ├── Unreachable             nothing answers at the address
    ├── TooSlow                 no answer within the time it was given
    ├── Unintelligible          what answers does not speak this API
    └── Refused                 the server said no, and why
"""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from types import TracebackType
from typing import IO, Any, BinaryIO, Final, Self, cast

import httpx

from seat.errors import SeatError

CONNECT_WITHIN_S: Final = 10.0
"""Seconds for a connection, and for each piece of an upload: what a network needs, not a model."""

ANSWER_WITHIN_S: Final = 3600.0
"""Seconds for an answer: longer than any deadline a server has by default."""

PATIENCE_S: Final = 120.0
"""Seconds that a server which says 'later' is asked again, in all: the largest model loads in less."""

LEAST_RETRY_AFTER_S: Final = 1.0
"""Seconds to wait where a server says 0: each try is the whole file."""

RETRY_AFTER_S: Final = 5.0
"""Seconds before asking again where the server does not say, or says it as a date."""

JSON: Final = frozenset({"json", "verbose_json"})
"""Formats that are an object with a text."""

MOST_PORTS: Final = 65_536
"""Ports are numbered in 16 bits."""

LATER: Final = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})
"""Statuses that mean: the same request can succeed later."""


class NoTranscript(SeatError):
    """No transcript came back from a server."""


class NoAddress(NoTranscript):
    """What was named cannot be an address."""

    def __init__(self, *, url: str, reason: str) -> None:
        super().__init__(f"'{url}' is no address: {reason}. Write it as http://HOST:PORT.")


class Unreachable(NoTranscript):
    """Nothing answers at the address."""

    def __init__(self, *, url: str, reason: str) -> None:
        super().__init__(
            f"No server answers at {url} ({reason}). Check the address, or start a seat there with 'seat serve'."
        )


class TooSlow(NoTranscript):
    """No answer within the time it was given."""

    def __init__(self, *, url: str, seconds: float) -> None:
        super().__init__(f"The server at {url} did not answer within {seconds:g} seconds. Send the file in parts.")


class Unintelligible(NoTranscript):
    """What answers does not speak this API."""

    def __init__(self, *, url: str, answer: str) -> None:
        super().__init__(
            f"{url} is not the address of a speech-to-text server: {answer}. "
            "Give the address up to and with '/v1', such as http://127.0.0.1:8300/v1."
        )


class Refused(NoTranscript):
    """The server said no, and why."""

    def __init__(self, *, status: int, message: str, reason: str | None, retry_after_s: float | None) -> None:
        super().__init__(message)
        self.status = status
        """The HTTP status."""
        self.reason = reason
        """The server's stable identifier of the fault, where it gave one; a seat's are the codes of `seat.errors`."""
        self.retry_after_s = retry_after_s
        """Seconds after which trying again makes sense; None where it does not."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """What a transcript should be."""

    model: str
    """One of the server's names."""
    response_format: str
    """One of `seat.formats.FORMATS`."""
    granularities: tuple[str, ...] = ()
    """Some of `seat.formats.GRANULARITIES`; none leaves it to the server."""


class Client:
    """One server; a context manager that owns its connections."""

    def __init__(
        self,
        url: str,
        *,
        api_key: str | None = None,
        timeout_s: float = ANSWER_WITHIN_S,
        wait: Callable[[str, float], None] = lambda _reason, seconds: time.sleep(seconds),
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """Prepare to ask; nothing is sent yet.

        Args:
            url: 'http://host:port', with or without '/v1'; without a scheme, http is meant.
            api_key: Sent as a bearer token, or None.
            timeout_s: Seconds to wait for an answer once a file has been sent.
            wait: Told why, in a sentence, and for how many seconds; returns when they are over.
            transport: What carries requests; where None the network, by a proxy that the environment may name.

        Raises:
            NoAddress: The url is none.
            Refused: The key could not be sent.
        """
        self.url = base_url(url)
        """The address of the API, with '/v1'."""
        self._root = self.url.removesuffix("/v1")
        self._timeout_s = timeout_s
        self._wait = wait
        self._http = httpx.Client(
            headers=authorization(api_key),
            timeout=httpx.Timeout(CONNECT_WITHIN_S, read=timeout_s),
            transport=transport,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def models(self) -> list[str]:
        """Names of the models the server has, at least one, in its order.

        Raises:
            NoTranscript: The server is not there, or refuses.
        """
        answer = self._read_json(self._ask("GET", self.url + "/models").text)
        try:
            names = [str(model["id"]) for model in answer["data"]]
        except (KeyError, TypeError) as fault:
            raise Unintelligible(url=self.url, answer="its list of models has no names") from fault
        if not names:
            raise Unintelligible(url=self.url, answer="its list of models is empty")
        return names

    def health(self) -> dict[str, Any]:
        """What a seat says about itself, ready or not.

        Raises:
            NoTranscript: The server is not there, or is no seat.
        """
        told = self._read_json(self._ask("GET", self._root + "/health").text)
        if missing := {"state", "model", "memory"} - told.keys():
            raise Unintelligible(url=self.url, answer=f"its /health has no {', '.join(sorted(missing))}")
        return told

    def ready(self) -> bool:
        """Whether a seat would transcribe now; False while it loads.

        Raises:
            NoTranscript: The server is not there, or is no seat.
        """
        try:
            self._ask("GET", self._root + "/health/ready")
        except Refused:
            return False
        return True

    def transcribe(
        self,
        file: BinaryIO,
        name: str,
        wish: Wish,
        on_upload: Callable[[int, int], None] = lambda _sent, _nbytes: None,
    ) -> str:
        """Send a file and return the body that comes back; while the server says 'later', ask again.

        Args:
            file: Seekable; it is sent from its beginning.
            name: What to call the file; servers other than a seat look at its ending.
            wish: By what model, and in what form.
            on_upload: Called with the bytes sent so far, and in all.

        Raises:
            Unintelligible: JSON was asked for, and no object with a text came back.
            NoTranscript: The server is not there, or refuses.
        """
        fields = {
            "model": wish.model,
            "response_format": wish.response_format,
            "timestamp_granularities[]": list(wish.granularities),
        }
        waited_s = 0.0
        while True:
            upload = cast("IO[bytes]", _Upload(file, on_upload))
            try:
                body = self._ask(
                    "POST", self.url + "/audio/transcriptions", data=fields, files={"file": (name, upload)}
                ).text
                break
            except Refused as refusal:
                if refusal.retry_after_s is None or waited_s + refusal.retry_after_s > PATIENCE_S:
                    raise
                self._wait(str(refusal), refusal.retry_after_s)
                waited_s += refusal.retry_after_s
        if wish.response_format in JSON and not isinstance(self._read_json(body).get("text"), str):
            raise Unintelligible(url=self.url, answer="its transcript has no text")
        return body

    def _ask(self, method: str, url: str, **content: Any) -> httpx.Response:  # noqa: ANN401  httpx's own arguments
        try:
            response = self._http.request(method, url, **content)
        except httpx.ReadTimeout as fault:
            raise TooSlow(url=self.url, seconds=self._timeout_s) from fault
        except httpx.HTTPError as fault:
            raise Unreachable(url=self.url, reason=str(fault) or type(fault).__name__) from fault
        if response.status_code != HTTPStatus.OK:
            raise _refusal(response, self.url)
        return response

    def _read_json(self, body: str) -> dict[str, Any]:
        try:
            answer = json.loads(body)
        except ValueError as fault:
            raise Unintelligible(url=self.url, answer="it does not answer in JSON") from fault
        if not isinstance(answer, dict):
            raise Unintelligible(url=self.url, answer="it does not answer with an object")
        return answer


class _Upload(io.BufferedIOBase):
    """A file that tells how far it has been read."""

    def __init__(self, file: BinaryIO, on_read: Callable[[int, int], None]) -> None:
        self._file = file
        self._on_read = on_read
        self._nbytes = file.seek(0, io.SEEK_END)
        file.seek(0)

    def read(self, nbytes: int | None = -1, /) -> bytes:
        data = self._file.read(-1 if nbytes is None else nbytes)
        self._on_read(self._file.tell(), self._nbytes)
        return data

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()


def authorization(api_key: str | None) -> dict[str, str]:
    """The header that shows a key; none where there is none.

    Raises:
        Refused: No header could hold the key. It is not repeated, as it would be by whoever tried to send it.
    """
    key = (api_key or "").strip()  # of a file that ends in a line feed
    if not (key.isascii() and key.isprintable()):
        message = "The key holds more than printable ASCII, and no header can hold that."
        raise Refused(status=HTTPStatus.UNAUTHORIZED, message=message, reason="invalid_api_key", retry_after_s=None)
    return {"Authorization": f"Bearer {key}"} if key else {}


def base_url(url: str) -> str:
    """Complete an address to that of the API: 'localhost:8300' is 'http://localhost:8300/v1'.

    Raises:
        NoAddress: It names no host, another port than there are, or another protocol than HTTP.
    """
    whole = (url if "://" in url else f"http://{url}").rstrip("/")
    whole = whole if whole.endswith("/v1") else f"{whole}/v1"
    try:
        parsed = httpx.URL(whole)
        parsed.raw_host.decode("ascii").encode("idna")  # as a socket will, whose error nobody translates
    except httpx.InvalidURL as fault:
        raise NoAddress(url=url, reason=str(fault).rstrip(".")) from fault
    except UnicodeError as fault:
        raise NoAddress(url=url, reason="no host can have such a name") from fault
    if parsed.scheme not in {"http", "https"}:
        raise NoAddress(url=url, reason=f"the protocol is '{parsed.scheme}', not http or https")
    if not parsed.host:
        raise NoAddress(url=url, reason="it names no host")
    if parsed.port is not None and not 0 <= parsed.port < MOST_PORTS:
        raise NoAddress(url=url, reason=f"there is no port {parsed.port}")
    return whole


def _refusal(response: httpx.Response, url: str) -> NoTranscript:
    """Read OpenAI's error object, or what other servers send in its place."""
    try:
        body = response.json()
    except ValueError:
        body = None
    fault = body.get("error", body) if isinstance(body, dict) else None
    if not isinstance(fault, dict):
        fault = {"message": fault} if fault else {}
    message, code = fault.get("message") or fault.get("detail"), fault.get("code")
    if code == "unknown_url" or (not message and response.status_code == HTTPStatus.NOT_FOUND):
        return Unintelligible(url=url, answer=f"it has no {response.request.url.path}")
    later = response.status_code in LATER and code != "insufficient_quota"
    return Refused(
        status=response.status_code,
        message=str(message or f"The server answered {response.status_code} {response.reason_phrase}."),
        reason="invalid_api_key" if response.status_code == HTTPStatus.UNAUTHORIZED else str(code) if code else None,
        retry_after_s=_seconds(response.headers.get("retry-after", "")) if later else None,
    )


def _seconds(retry_after: str) -> float:
    told = float(retry_after) if retry_after.isascii() and retry_after.isdigit() else RETRY_AFTER_S
    return max(told, LEAST_RETRY_AFTER_S)
