"""Turn every error into a status and OpenAI's error object. Knows both tables; raises nothing itself."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from litestar import MediaType, Request, Response
from litestar.exceptions import HTTPException

from seat import errors
from seat.telemetry import log, note

CLIENT_CLOSED_REQUEST: Final = 499
"""nginx's status for a client that hung up, in the log; who reads an answer all the same is told 400."""

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

RETRY: Final = "x-should-retry"
"""Header by which the openai SDK lets itself be told, whatever the status."""

HOPELESS: Final = (errors.RecognitionFailed, errors.DeadlineExceeded)
"""The same audio will fail again, or take as long again."""

_UNEXPECTED = "The server had an error while processing your request."


def status_of(fault: errors.SeatError) -> int:
    """The HTTP status of one of our errors."""
    return next((STATUSES[base] for base in type(fault).__mro__ if base in STATUSES), 500)


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """What is told about an error."""

    status: int
    """Of the answer, where it is still to be sent."""
    error: dict[str, str | None]
    """OpenAI's object."""
    headers: dict[str, str]
    """What helps a client to go on."""

    @property
    def code(self) -> str | None:
        """For programs."""
        return self.error["code"]


def problem_of(fault: Exception) -> Problem:
    """What to tell about any exception but those of the framework; what nobody foresaw goes into the log."""
    if isinstance(fault, errors.SeatError):
        status, message, param, code = status_of(fault), str(fault), fault.param, fault.code
    else:
        status, message, param, code = 500, _UNEXPECTED, None, errors.INTERNAL_ERROR
    if status == HTTPStatus.INTERNAL_SERVER_ERROR:
        log.error("fault", exc_info=fault)
    return _problem(status, message, param, code, _hints(fault))


def to_response(request: Request[Any, Any, Any], fault: Exception) -> Response[dict[str, Any]]:
    """Answer any exception, the framework's included, in OpenAI's shape."""
    if isinstance(fault, HTTPException) and fault.status_code < HTTPStatus.INTERNAL_SERVER_ERROR:
        status = fault.status_code
        message = f"{HTTPStatus(status).phrase}: {request.method} {request.scope['path']}."
        code = ROUTING_CODES.get(status, "invalid_request")
        problem = _problem(status, message, None, code, dict(fault.headers or {}))
    else:
        problem = problem_of(fault)
    note(error=problem.code)
    return Response(
        {"error": problem.error}, status_code=problem.status, media_type=MediaType.JSON, headers=problem.headers
    )


def _hints(fault: Exception) -> dict[str, str]:
    """Whether and when to try again. By its status alone, the openai SDK would upload a hopeless file three times."""
    if isinstance(fault, errors.Unavailable):
        return {"retry-after": str(fault.retry_after_s), RETRY: "true"}
    if isinstance(fault, HOPELESS):
        return {RETRY: "false"}
    if isinstance(fault, errors.InvalidApiKey):
        return {"www-authenticate": "Bearer"}
    return {}


def _problem(status: int, message: str, param: str | None, code: str | None, headers: dict[str, str]) -> Problem:
    message = message.encode(errors="replace").decode()  # JSON may bring half a character, which no answer can repeat
    error = {"message": message, "type": _type_of(status), "param": param, "code": code}
    return Problem(status=status, error=error, headers=headers)


def _type_of(status: int) -> str:
    return "invalid_request_error" if status < HTTPStatus.INTERNAL_SERVER_ERROR else "server_error"
