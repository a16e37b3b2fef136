"""Say what can go wrong, once. Knows sentences and machine-readable codes; no HTTP, no torch.

    SeatError
    ├── InvalidRequest              the client must change something
    │   ├── MissingField            a form field is absent or empty
    │   ├── MalformedForm           the body is not the form it claims to be
    │   ├── UnsupportedValue        a field holds a value this seat does not know
    │   ├── InvalidValue            a field holds a number or an object that makes no sense
    │   ├── NotTranslated           this model does not translate
    │   ├── UndecodableAudio        the file holds no audio that can be read
    │   ├── AudioTooLong            more audio than this seat accepts
    │   ├── UploadTooLarge          more bytes than this seat accepts
    │   ├── ExceedsMemory           a stretch that no free memory under the cap could ever hold
    │   ├── TooManyParts            more form parts than this seat reads
    │   ├── InvalidEvent            a message of a live session that is none
    │   ├── NothingToCommit         a live turn ended before it began
    │   ├── SlowReader              a live client that does not read what is said to it
    │   ├── ModelNotFound           no model of that name here
    │   └── InvalidApiKey           no key, or one that is not known
    ├── Unavailable                 the same request can succeed later
    │   ├── ModelLoading            the seat has not warmed up yet
    │   ├── DiskFull                there is no room for the upload
    │   ├── QueueFull               as much work waits as may wait
    │   ├── TooManySessions         as many live sessions are open as may be
    │   ├── TooManyStrangers        as many live clients as may have not shown a key yet
    │   ├── Stalled                 the GPU thread does not come back
    │   ├── MemoryLimit             it would take more memory than the seat may have now
    │   ├── DeviceLost              the card's state is gone, and this process ends
    │   └── ShuttingDown            the seat is about to stop
    ├── ClientDisconnected          nobody waits for the answer any more
    ├── DeadlineExceeded            the answer would have come too late
    ├── RecognitionFailed           the model raised on this audio
    └── CannotStart                 the process must end; never an answer over HTTP
        ├── InvalidSettings         the environment asks for what does not exist
        ├── AddressUnusable         the address cannot be listened on
        ├── DeviceUnavailable       the device asked for does not answer
        ├── CapTooSmall             the memory cap cannot hold the model at work
        ├── CardFull                others have taken the memory that the cap would allow
        ├── GraphsUnavailable       CUDA graphs were asked for, and are not what runs
        ├── ModelUnavailable        the weights cannot be found or read
        └── ChecksumMismatch        the weights are not the ones that were pinned

A class takes facts and builds its own sentence. ``param`` names the form field at fault, ``code`` is for
programs, and stable.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

INTERNAL_ERROR = "internal_error"
"""The code of what nobody foresaw, which has no class."""

LONGEST_ECHO = 100
"""Characters of what a client sent that a sentence repeats at most."""


def shortened(value: str) -> str:
    """The beginning of what a client sent, for a sentence about it."""
    return value if len(value) <= LONGEST_ECHO else value[:LONGEST_ECHO] + "…"


class SeatError(Exception):
    """Anything the seat says about itself or about a request."""

    code: ClassVar[str | None] = None
    """A stable identifier for programs, or None where the kind of error says it all."""

    param: str | None = None
    """The form field at fault, or None."""


class InvalidRequest(SeatError):
    """The client must change the request; sending it again unchanged is pointless."""


class MissingField(InvalidRequest):
    """A form field is absent or empty."""

    code = "missing_required_parameter"

    def __init__(self, *, param: str, sentence: str | None = None) -> None:
        super().__init__(sentence or f"Missing required parameter: '{param}'.")
        self.param = param


class MalformedForm(InvalidRequest):
    """The body is not the multipart form it claims to be."""

    code = "invalid_form"

    def __init__(self, *, reason: str) -> None:
        super().__init__(f"The request body is not a readable multipart/form-data form: {reason}.")


class UnsupportedValue(InvalidRequest):
    """A field holds a value this seat does not know."""

    code = "unsupported_value"

    def __init__(self, *, param: str, value: str, supported: Iterable[str], beside: str | None = None) -> None:
        known = ", ".join(f"'{name}'" for name in supported)
        where = f"'{param}' together with '{beside}'" if beside else f"'{param}'"
        super().__init__(
            f"Unsupported value: '{shortened(value)}' is not supported for {where}. Supported values are: {known}."
        )
        self.param = param


class InvalidValue(InvalidRequest):
    """A field holds a number or an object that makes no sense."""

    code = "invalid_value"

    def __init__(self, *, param: str, reason: str) -> None:
        super().__init__(f"Invalid value for '{param}': {reason}.")
        self.param = param


class NotTranslated(InvalidRequest):
    """A model that hears other languages than English writes them down as they are."""

    code = "unsupported_value"
    param = "model"

    def __init__(self, *, spoken: Iterable[str]) -> None:
        super().__init__(
            f"This model does not translate: it writes down what it hears, in {', '.join(spoken)}. "
            "Use /v1/audio/transcriptions."
        )


class UndecodableAudio(InvalidRequest):
    """The file holds no audio that can be read."""

    code = "invalid_audio"
    param = "file"

    def __init__(self, *, reason: str) -> None:
        super().__init__(f"The audio file could not be decoded: {reason}.")


class AudioTooLong(InvalidRequest):
    """More audio than ``SEAT_MAX_AUDIO_S``. Found while decoding, so only a lower bound of the duration is known."""

    code = "audio_too_long"
    param = "file"

    def __init__(self, *, limit_s: float) -> None:
        super().__init__(f"The audio is longer than the {limit_s:g} seconds this server accepts. Send it in parts.")


class UploadTooLarge(InvalidRequest):
    """More bytes than ``SEAT_MAX_UPLOAD_MIB``."""

    code = "upload_too_large"
    param = "file"

    def __init__(self, *, limit_mib: int) -> None:
        super().__init__(f"The upload is larger than the {limit_mib} MiB this server accepts.")


class ExceedsMemory(InvalidRequest):
    """A stretch of audio that does not fit under the memory cap, even where nothing else runs."""

    code = "exceeds_memory"
    param = "file"

    def __init__(self, *, audio_s: float, need_mib: int, room_mib: int) -> None:
        super().__init__(
            f"Recognizing {audio_s:.0f} seconds at once takes {need_mib} MiB, and this server's memory limit leaves "
            f"{room_mib} MiB. Send shorter audio."
        )


class TooManyParts(InvalidRequest):
    """More form parts, or larger text fields, than a transcription request can need."""

    code = "too_many_parts"

    def __init__(self, *, limit: str) -> None:
        super().__init__(f"The form is larger than this server reads: at most {limit}.")


class InvalidEvent(InvalidRequest):
    """A message of a live session that is not one the seat knows; the session goes on."""

    code = "invalid_event"

    def __init__(self, *, reason: str, param: str | None = None) -> None:
        super().__init__(f"The message is not one that this server understands: {reason}.")
        self.param = param


class NothingToCommit(InvalidRequest):
    """The end of a turn of which next to nothing has come."""

    code = "input_audio_buffer_commit_empty"

    def __init__(self, *, least_ms: int, buffered_ms: float) -> None:
        super().__init__(
            f"The input audio buffer is too small to be committed: it holds {buffered_ms:.2f} ms of audio, "
            f"and at least {least_ms} ms are needed."
        )


class SlowReader(InvalidRequest):
    """A live client that does not read: nothing is dropped, so the session ends."""

    code = "slow_reader"

    def __init__(self, *, seconds: float) -> None:
        super().__init__(f"The client has read nothing for {seconds:g} seconds.")


class ModelNotFound(InvalidRequest):
    """No model of that name here."""

    code = "model_not_found"
    param = "model"

    def __init__(self, *, model: str, served: Iterable[str]) -> None:
        names = ", ".join(f"'{name}'" for name in served)
        super().__init__(f"The model '{shortened(model)}' does not exist on this server. It serves {names}.")


class InvalidApiKey(InvalidRequest):
    """No key, or one that is not known. The sentence never repeats what was sent."""

    code = "invalid_api_key"

    def __init__(self, *, given: bool) -> None:
        super().__init__(
            "Incorrect API key provided."
            if given
            else "You did not provide an API key. Send it in the Authorization header: 'Authorization: Bearer KEY'."
        )


class Unavailable(SeatError):
    """The same request can succeed later."""

    def __init__(self, sentence: str, *, retry_after_s: int) -> None:
        super().__init__(sentence)
        self.retry_after_s = retry_after_s
        """Whole seconds after which trying again makes sense, at most 120: the openai SDK gives up above that."""


class ModelLoading(Unavailable):
    """The seat has not warmed up yet."""

    code = "model_loading"

    def __init__(self) -> None:
        super().__init__("The model is still loading.", retry_after_s=5)


class DiskFull(Unavailable):
    """There is no room for the upload where temporary files go."""

    code = "disk_full"

    def __init__(self) -> None:
        super().__init__("The server has no room for the upload.", retry_after_s=30)


class QueueFull(Unavailable):
    """As much work waits as may wait."""

    code = "queue_full"

    def __init__(self, *, waiting: str, retry_after_s: int) -> None:
        super().__init__(f"The queue is full: {waiting} are waiting.", retry_after_s=retry_after_s)


class TooManySessions(Unavailable):
    """As many live sessions are open as ``SEAT_MAX_LIVE_SESSIONS`` allows."""

    code = "too_many_sessions"

    def __init__(self, *, limit: int) -> None:
        super().__init__(f"This server has {limit} live sessions open, as many as it may.", retry_after_s=5)


class TooManyStrangers(Unavailable):
    """As many live clients as may at once have not shown a key yet."""

    code = "too_many_sessions"

    def __init__(self) -> None:
        super().__init__(
            "Too many clients have not shown a key yet. Show it in a header or as a subprotocol.", retry_after_s=5
        )


class Stalled(Unavailable):
    """The GPU thread has been in one call for longer than ``SEAT_STALL_S``."""

    code = "gpu_stalled"

    def __init__(self) -> None:
        super().__init__("The model does not respond.", retry_after_s=60)


class MemoryLimit(Unavailable):
    """It would take more memory than the seat may have now; the cause, where an allocation failed, is chained."""

    code = "gpu_memory_limit"

    def __init__(self) -> None:
        super().__init__("The server has not enough memory for this audio right now.", retry_after_s=10)


class DeviceLost(Unavailable):
    """A fault after which nothing can be computed in this process; it ends, and its supervisor starts another."""

    code = "gpu_lost"

    def __init__(self) -> None:
        super().__init__("The graphics card failed; the server restarts.", retry_after_s=60)


class ShuttingDown(Unavailable):
    """The seat is about to stop."""

    code = "shutting_down"

    def __init__(self) -> None:
        super().__init__("The server is shutting down.", retry_after_s=5)


class ClientDisconnected(SeatError):
    """Nobody waits for the answer any more."""

    code = "client_disconnected"

    def __init__(self) -> None:
        super().__init__("The request broke off before its end: the connection was closed, or a chunk is wrong.")


class DeadlineExceeded(SeatError):
    """The request waited longer than its deadline."""

    code = "deadline_exceeded"

    def __init__(self, *, deadline_s: float) -> None:
        super().__init__(f"The transcription did not finish within {deadline_s:g} seconds.")


class RecognitionFailed(SeatError):
    """The model raised on this audio; the cause is chained."""

    code = "recognition_failed"

    def __init__(self) -> None:
        super().__init__("The model failed on this audio.")


class CannotStart(SeatError):
    """The process must end; the sentence says what to do."""


class InvalidSettings(CannotStart):
    """The environment asks for what does not exist."""

    def __init__(self, *, problems: Iterable[str]) -> None:
        super().__init__("The settings are not usable:\n" + "\n".join(f"  {problem}" for problem in problems))


class AddressUnusable(CannotStart):
    """The address cannot be listened on."""

    def __init__(self, *, host: str, port: int, reason: str) -> None:
        super().__init__(f"SEAT_HOST={host} and SEAT_PORT={port} cannot be listened on: {reason}")


class DeviceUnavailable(CannotStart):
    """The device asked for does not answer."""

    def __init__(self, *, device: str, reason: str) -> None:
        super().__init__(
            f"SEAT_DEVICE={device} was asked for, but {reason}. Make the card visible to this process, "
            "or set SEAT_DEVICE=cpu to run on the processor."
        )


class CapTooSmall(CannotStart):
    """The memory cap cannot hold the model at work."""

    def __init__(self, *, cap_mib: int, need_mib: int, what: str) -> None:
        super().__init__(f"SEAT_MEM_CAP_MIB={cap_mib} cannot hold {what}; {need_mib} would do.")
        self.need_mib = need_mib
        """MiB that would do."""


class CardFull(CannotStart):
    """Others have taken the memory that the cap would allow."""

    def __init__(self, *, free_mib: int, need_mib: int, what: str) -> None:
        super().__init__(
            f"The card has {free_mib} MiB free, and {what} takes about {need_mib} MiB more. 'seat room' tells who has "
            "the rest: end a neighbour or make it smaller."
        )


class GraphsUnavailable(CannotStart):
    """CUDA graphs were asked for, and the decoder runs without them or with parts of them."""

    def __init__(self, *, mode: str) -> None:
        super().__init__(
            f"SEAT_CUDA_GRAPHS=1 was asked for, but the decoder's mode in force is '{mode}' and not 'full_graph': that "
            "takes a card, a driver of CUDA 12.6 and the package cuda-python. SEAT_CUDA_GRAPHS=0 starts without."
        )


class ModelUnavailable(CannotStart):
    """The weights cannot be found or read."""

    def __init__(self, *, model: str, reason: str) -> None:
        super().__init__(f"The model '{model}' cannot be loaded: {reason}.")


class ChecksumMismatch(CannotStart):
    """The weights are not the ones that were pinned."""

    def __init__(self, *, path: str, expected: str, actual: str) -> None:
        super().__init__(
            f"{path} has the SHA-256 {actual}, but SEAT_MODEL_SHA256 asks for {expected}. Nothing was loaded."
        )
