"""A hub on the loopback with one model, for `huggingface_hub` to fetch from. Knows the hub's API; tests nothing."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMIT = "89abcdef0123456789abcdef0123456789abcdef"
"""Its newest revision."""
REPOSITORY = "owner/model"
FILE = "model.nemo"


class Hub(BaseHTTPRequestHandler):
    """What the hub answers about a model, and its file."""

    protocol_version = "HTTP/1.1"

    def __init__(self, content: bytes, licence: str | None, promised: str, *request: object) -> None:
        self.content = content
        self.licence = licence
        self.promised = promised
        super().__init__(*request)

    def do_GET(self) -> None:
        """Tell about the model, or send its file."""
        path = self.path.partition("?")[0]
        if path in {f"/api/models/{REPOSITORY}", f"/api/models/{REPOSITORY}/revision/{COMMIT}"}:
            lfs = {"sha256": self.promised, "size": len(self.content), "pointerSize": 134}
            files = [{"rfilename": "README.md", "size": 9}, {"rfilename": FILE, "size": len(self.content), "lfs": lfs}]
            told = {"id": REPOSITORY, "sha": COMMIT, "siblings": files, "cardData": {"license": self.licence}}
            self.answer(200, json.dumps(told).encode(), {"content-type": "application/json"})
        elif path == f"/{REPOSITORY}/resolve/{COMMIT}/{FILE}":
            self.answer(200, self.content, {"etag": f'"{self.promised}"', "x-repo-commit": COMMIT})
        else:
            self.answer(404, b"{}", {"x-error-code": "RepoNotFound"})

    def do_HEAD(self) -> None:
        """The same, without the file."""
        self.do_GET()

    def answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        """Send one answer; its head alone where that was asked for."""
        self.send_response(status)
        for name, value in {**headers, "content-length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *_facts: object) -> None:
        """Say nothing."""


@contextmanager
def hub(content: bytes, *, licence: str | None = "cc-by-4.0", promised: str | None = None) -> Iterator[str]:
    """Where a hub answers.

    Args:
        content: The checkpoint.
        licence: What the model's page names.
        promised: The digest that the hub tells; None for the true one.
    """
    handler = partial(Hub, content, licence, promised or hashlib.sha256(content).hexdigest())
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()
