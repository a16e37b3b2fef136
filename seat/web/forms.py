"""Read a multipart form as it arrives. Knows parts, limits and the fields of a transcription; no audio.

Litestar's own form reading answers 500 to a file part without a name, buffers before it counts, and keeps unknown
fields.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final, cast

from litestar import Request
from multipart import MultipartError, MultipartSegment, ParserLimitReached, PushMultipartParser, parse_options_header

from seat.errors import ClientDisconnected, DiskFull, MalformedForm, MissingField, TooManyParts, UploadTooLarge

FILE = "file"
"""The part that holds the audio, with or without a file name."""

MAX_PARTS: Final = 1000
"""Parts in one form; the openai SDK sends a handful, a list of keywords a few hundred."""

MAX_HEAD_BYTES: Final = 4 * 1024
"""Bytes in one line of a part's head: a file name of 255 characters is the longest."""

MAX_FIELD_BYTES: Final = 64 * 1024
"""Bytes in all text fields that are kept: a thousand times that, were it for each, is memory."""

IN_MEMORY_BYTES: Final = 1024 * 1024
"""Bytes of a file that stay in memory; the rest goes to the disk, in blocks of this size."""

LISTED: Final = re.compile(r"\[[0-9]*\]$")
"""Behind the name of a list's field, as OpenAI writes it, or with the item's number, as PHP and others do."""

FORM_SLACK_BYTES: Final = 4 * 1024 * 1024
"""Bytes that text fields and boundaries may add to the file before the body as a whole is too large."""


@dataclass(kw_only=True, slots=True)
class Form:
    """What a form holds, as text; the file stays where it was spooled."""

    file: BinaryIO
    """The audio, whole; at its beginning."""
    fields: dict[str, list[str]] = field(default_factory=dict)
    """Values by field name without what is `LISTED`, in the order they came."""

    def last(self, name: str) -> str | None:
        """The last value of a field, or None where it is absent or empty."""
        values = self.fields.get(name)
        return values[-1] or None if values else None


@asynccontextmanager
async def read_form(
    request: Request[Any, Any, Any], known: frozenset[str], *, limit_mib: int, within_s: float
) -> AsyncIterator[Form]:
    """Read the body of a request as a form with one file; the file is gone when the context is left.

    Args:
        request: A request whose body has not been read.
        known: Names of the fields to keep, without what is `LISTED`; others are read past.
        limit_mib: MiB that the file may have.
        within_s: Seconds in which all of it must arrive: who stands still keeps a place, and the process from ending.

    Raises:
        MalformedForm: The body is not a multipart form, ends early, or does not go on.
        MissingField: There is no file.
        UploadTooLarge: The file is too large; found while it arrives.
        TooManyParts: There are too many parts, or too much in text fields or in a part's head.
        DiskFull: There is no room for the file.
    """
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    if kind != "multipart/form-data":
        raise MissingField(param=FILE, sentence="Send the audio as the 'file' part of a multipart/form-data form.")
    if not options.get("boundary"):
        raise MalformedForm(reason="its content type names no boundary")
    limit = limit_mib * 1024 * 1024
    if (request.content_length or 0) > limit + FORM_SLACK_BYTES:
        raise UploadTooLarge(limit_mib=limit_mib)
    with _spooled() as spool:
        reader = _FormReader(spool, known, limit_mib)
        try:
            with PushMultipartParser(
                options["boundary"],
                max_segment_count=MAX_PARTS,
                max_header_size=MAX_HEAD_BYTES,
                header_charset="latin-1",  # takes any bytes: file names are not read, and may be in any encoding
            ) as parser:
                received = 0
                async for chunk in _body(request, within_s):
                    received += len(chunk)
                    if received > limit + FORM_SLACK_BYTES:  # in parts that are read past, or around all parts
                        raise UploadTooLarge(limit_mib=limit_mib)
                    for event in parser.parse(chunk):
                        await reader.take(event)
        except ParserLimitReached as fault:
            raise TooManyParts(limit=f"{MAX_PARTS} parts with heads of {MAX_HEAD_BYTES // 1024} KiB") from fault
        except MultipartError as fault:
            raise MalformedForm(reason="it is cut off, or its boundaries are wrong") from fault
        yield await reader.form()


@contextmanager
def _spooled() -> Iterator[BinaryIO]:
    """A file that stays in memory while it is small."""
    spool = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY_BYTES)  # noqa: SIM115  closed below
    try:
        yield cast("BinaryIO", spool)
    finally:
        with suppress(OSError):  # closing writes what is buffered; on a full disk that fails again, and nobody wants it
            spool.close()


async def _body(request: Request[Any, Any, Any], within_s: float) -> AsyncIterator[bytes]:
    until = asyncio.get_running_loop().time() + within_s
    while True:
        try:
            async with asyncio.timeout_at(until):
                message = await request.receive()
        except TimeoutError as fault:
            raise MalformedForm(reason=f"it did not arrive within {within_s:g} seconds") from fault
        if message["type"] != "http.request":
            raise ClientDisconnected
        if message["body"]:
            yield message["body"]
        if not message["more_body"]:
            return


class _FormReader:
    """Collects a parser's events: a segment's head, its bytes in pieces, None at its end."""

    def __init__(self, spool: BinaryIO, known: frozenset[str], limit_mib: int) -> None:
        self._spool = spool
        self._known = known
        self._limit_mib = limit_mib
        self._fields: dict[str, list[str]] = {}
        self._name = ""
        self._block = bytearray()
        self._file_bytes = self._text_bytes = 0
        self._has_file = False

    async def take(self, event: MultipartSegment | bytes | bytearray | None) -> None:
        if isinstance(event, MultipartSegment):
            self._name = LISTED.sub("", event.name)
            if self._name == FILE and self._has_file:
                raise MalformedForm(reason="it holds more than one file")
            self._has_file |= self._name == FILE
        elif event is None:
            await self._end()
        elif self._name == FILE:
            await self._take_file(event)
        elif self._name in self._known:
            self._block += event
            self._text_bytes += len(event)
            if self._text_bytes > MAX_FIELD_BYTES:
                raise TooManyParts(limit=f"{MAX_FIELD_BYTES // 1024} KiB in text fields")

    async def _take_file(self, piece: bytes | bytearray) -> None:
        self._file_bytes += len(piece)
        if self._file_bytes > self._limit_mib * 1024 * 1024:
            raise UploadTooLarge(limit_mib=self._limit_mib)
        self._block += piece
        if len(self._block) >= IN_MEMORY_BYTES:
            block, self._block = self._block, bytearray()
            await self._write(block)

    async def _write(self, block: bytearray, *, flush: bool = False) -> None:
        def write() -> None:
            self._spool.write(block)
            if flush:
                self._spool.flush()

        try:
            if self._file_bytes <= IN_MEMORY_BYTES:
                write()
            else:
                await asyncio.to_thread(write)
        except OSError as fault:
            raise DiskFull from fault

    async def _end(self) -> None:
        block, self._block = self._block, bytearray()
        if self._name == FILE:
            await self._write(block, flush=True)
        elif self._name in self._known:
            self._fields.setdefault(self._name, []).append(block.decode(errors="replace"))

    async def form(self) -> Form:
        if not self._has_file:
            raise MissingField(param=FILE)
        self._spool.seek(0)
        return Form(file=self._spool, fields=self._fields)
