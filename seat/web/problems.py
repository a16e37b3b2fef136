"""Turn every error into a status and OpenAI's error object. Knows both tables; raises nothing itself."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

from litestar import MediaType, Request, Response
from litestar.exceptions import HTTPException

from seat import errors
from seat.telemetry import log, note

CLIENT_CLOSED_REQUEST: Final = 499
"""nginx's status for a client that hung up; only ever read in a log."""

STATUSES: Final[dict[type[errors.SeatError], int]] = {
    errors.InvalidRequest: 400,
    errors.AudioTooLong: 413,
    errors.UploadTooLarge: 413,
    errors.ExceedsMemory: 413,
    errors.TooManyParts: 413,
    errors.ModelNotFound: 404,
    errors.InvalidApiKey: 401,
    errors.Unavailable: 503,
    errors.ClientDisconnected: CLIENT_CLOSED_REQUEST,
    errors.DeadlineExceeded: 504,
    errors.RecognitionFailed: 500,
}
"""Statuses by class; a class without a row has the row of its nearest base class."""

ROUTING_CODES: Final = {404: "unknown_url", 405: "method_not_allowed"}
"""Codes for what the framework refuses before one of our handlers is reached."""

_UNEXPECTED = "The server had an error while processing your request."


def status_of(fault: errors.SeatError) -> int:
    """The HTTP status of one of our errors."""
    return next((STATUSES[base] for base in type(fault).__mro__ if base in STATUSES), 500)


def to_response(request: Request[Any, Any, Any], fault: Exception) -> Response[dict[str, Any]]:
    """Answer any exception, the framework's included, in OpenAI's shape."""
    headers: dict[str, str] = {}
    if isinstance(fault, HTTPException) and fault.status_code < HTTPStatus.INTERNAL_SERVER_ERROR:
        status, code = fault.status_code, ROUTING_CODES.get(fault.status_code, "invalid_request")
        message = f"{HTTPStatus(status).phrase}: {request.method} {request.scope['path']}."
        headers.update(fault.headers or {})
        body = {"message": message, "type": _type_of(status), "param": None, "code": code}
    else:
        status, body = described(fault)
        if isinstance(fault, errors.Unavailable):
            headers["retry-after"] = str(fault.retry_after_s)
        if isinstance(fault, errors.InvalidApiKey):
            headers["www-authenticate"] = "Bearer"
    note(error=body["code"])
    return Response({"error": body}, status_code=status, media_type=MediaType.JSON, headers=headers)


def described(fault: Exception) -> tuple[int, dict[str, Any]]:
    """Status and error object of an exception; one that is not ours, or is our fault, is logged."""
    ours = isinstance(fault, errors.SeatError)
    status = status_of(fault) if isinstance(fault, errors.SeatError) else HTTPStatus.INTERNAL_SERVER_ERROR.value
    if status == HTTPStatus.INTERNAL_SERVER_ERROR:
        log.error("fault", exc_info=fault)
    message, param = (str(fault), getattr(fault, "param", None)) if ours else (_UNEXPECTED, None)
    code = fault.code if isinstance(fault, errors.SeatError) else "internal_error"
    return status, {"message": message, "type": _type_of(status), "param": param, "code": code}


def _type_of(status: int) -> str:
    return "invalid_request_error" if status < HTTPStatus.INTERNAL_SERVER_ERROR else "server_error"
