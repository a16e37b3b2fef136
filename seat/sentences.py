"""Say what went wrong and what to do next, on a terminal. Knows errors and options; prints nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from seat.errors import RecognitionFailed, SeatError

NEXT_STEPS: Final[Mapping[str, str]] = {
    "invalid_audio": "See with a player, or with 'ffprobe', whether it holds sound.",
    "audio_too_long": "Or raise SEAT_MAX_AUDIO_S where the model runs; 0 is no limit.",
    "upload_too_large": "Send it in parts, or raise SEAT_MAX_UPLOAD_MIB where the server runs.",
    "exceeds_memory": "Or raise SEAT_MEM_CAP_MIB where the model runs.",
    "invalid_api_key": "Give the key with --api-key, or in SEAT_API_KEY.",
    "model_not_found": "Choose one with --model-name, or leave that out to take the first.",
    "model_loading": "Try again in a minute.",
    "queue_full": "Try again in a minute.",
    "too_many_sessions": "Try again in a minute, or raise SEAT_MAX_LIVE_SESSIONS where the server runs.",
    "gpu_stalled": "Try again in a minute; if it stays so, read the server's log.",
    "gpu_memory_limit": "Try again in a minute, or raise SEAT_MEM_CAP_MIB where the server runs.",
    "gpu_lost": "Try again when it is back.",
    "shutting_down": "Try again when it is back.",
    "deadline_exceeded": "Send it in parts, or raise SEAT_DEADLINE_S where the server runs.",
    "ModelUnavailable": "Name one with --model: 'demo', a path to a .nemo file, or 'owner/name' on Hugging Face.",
    "InvalidSettings": "Correct these options or variables, or leave them out.",
}
"""What to do, by an error's code, or by the name of its class where it has none."""


def sentence(fault: SeatError | OSError) -> str:
    """Say what happened and what to do next."""
    if not isinstance(fault, SeatError):
        said = f"{fault.strerror or fault or type(fault).__name__}."
        return said + (f" Check the name and the permissions of {fault.filename}." if fault.filename else "")
    if isinstance(fault, RecognitionFailed):
        cause = fault.__cause__
        return f"{fault} It raised {type(cause).__name__}: {cause}. Report that, with the file's format and length."
    key = getattr(fault, "reason", None) or fault.code or type(fault).__name__
    said = str(fault)
    return (said + ("\n" if "\n" in said else " ") + NEXT_STEPS.get(key, "")).rstrip()
