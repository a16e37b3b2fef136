"""Read the environment once. Knows names, aliases and defaults; nothing of what they do."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, ValidationError

from seat.errors import InvalidSettings

PREFIX: Final = "SEAT_"

ALIASES: Final[Mapping[str, str]] = {
    "PARAKEET_MODEL": "model",
    "PARAKEET_DEVICE": "device",
    "PARAKEET_ATTENTION_MODE": "attention",
    "PARAKEET_AUTO_ATTN_THRESHOLD": "auto_attention_s",
    "PARAKEET_LOCAL_ATTN_CONTEXT": "local_context",
    "WINDOW_S": "window_s",
    "WARMUP_SECONDS": "warmup_seconds",
    "MEM_CAP_MIB": "mem_cap_mib",
    "CUDA_GRAPHS": "cuda_graphs",
    "PARAKEET_TORCH_COMPILE": "torch_compile",
    "PARAKEET_MAX_FILE_DURATION": "max_audio_s",
}
"""Names that earlier services read, so that their compose files work; the ``SEAT_`` name wins where both are set."""

DEPRECATED: Final = tuple(name for name in ALIASES if name.startswith("PARAKEET_"))
"""Those that name a model family rather than what they set: they work, and the log says what to write instead."""


def _split(value: object) -> object:
    """Turn 'a, b,' into ('a', 'b'); other values pass."""
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


_KEY_NAME = re.compile(r"[A-Za-z][\w.-]{0,31}", re.ASCII)
"""What may stand before the colon of 'NAME:KEY'."""

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
LanguageCode = Annotated[str, Field(pattern="^[a-z]{2,3}$")]
ChunkSeconds = Annotated[float, Field(ge=0.08, le=10)]
Frames = Annotated[int, Field(ge=1)]


class Settings(BaseModel):
    """Every setting of a seat. The environment's name of each is its own in capitals behind ``SEAT_``."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    host: str = "127.0.0.1"
    """Address to listen on."""
    port: Annotated[int, Field(ge=0, le=65535)] = 8300
    """Port to listen on."""
    model: str = "demo"
    """'demo', a path to a .nemo file, or 'owner/name' on Hugging Face with an optional '@REVISION' of 40 digits."""
    model_sha256: Annotated[str, Field(pattern=r"^[0-9a-fA-F]{64}$")] | None = None
    """The digest the checkpoint must have, or none."""
    model_aliases: Annotated[tuple[str, ...], BeforeValidator(_split)] = ("whisper-1", "ext-stt")
    """Further names that clients may use for the model."""
    model_languages: Annotated[tuple[LanguageCode, ...], BeforeValidator(_split)] = ()
    """ISO 639-1 codes of what the model speaks, the usual one first. Not set, they are those of its published card
    where the seat knows it, else English."""
    device: Annotated[str, Field(pattern=r"^(auto|cpu|cuda(:\d+)?)$")] = "auto"
    """'auto', 'cpu', 'cuda' or 'cuda:N'. Asked for by name, CUDA must answer."""
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Number type of the encoder; 'auto' is bfloat16 on a card that computes in it, and float32 elsewhere."""
    mem_cap_mib: Annotated[int, Field(ge=0)] | None = None
    """MiB that the whole process may take: of the card, or resident where there is none; 0 for no limit. Not set, it is
    3840 on a card, and no limit on a CPU."""
    mem_return: bool = True
    """Whether memory that a batch leaves unused goes back to the driver after every batch; else only where the next one
    would not fit, and with CUDA graphs never."""
    cuda_graphs: bool = False
    """Decode with CUDA graphs; only together with ``SEAT_MEM_RETURN=0``."""
    cuda_graphs_batch: Annotated[int, Field(ge=1)] = 16
    """Windows that one batch may hold with CUDA graphs: every replay computes so many, whatever the batch holds."""
    torch_compile: bool = False
    """Compile the encoder's layers, for a minute at the start; only with ``SEAT_ATTENTION=full``, else skipped."""
    idle_release_s: Seconds = 0.0
    """Seconds without work after which the weights leave the card, until the next request; 0 for never."""
    attention: Literal["full", "local", "auto"] = "full"
    """How far a frame sees: its whole window, or ``local_context`` frames; 'auto' is local for long windows."""
    auto_attention_s: Seconds = 300.0
    """Seconds of the longest window to which 'auto' gives full attention."""
    local_context: Annotated[tuple[Frames, Frames], BeforeValidator(_split)] = (128, 128)
    """Encoder frames of 80 ms that local attention sees, as 'left,right'."""
    window_s: Annotated[float, Field(ge=2, le=600)] = 15.0
    """Seconds of audio that one window answers for."""
    window_context_s: Annotated[tuple[Seconds, Seconds], BeforeValidator(_split)] = (3.0, 2.0)
    """Seconds of audio that a window hears before and after its own part, as 'left,right'."""
    window_join: Literal["independent", "carried"] = "independent"
    """Windows of a file side by side, or one after the other with the decoder going on from each to the next."""
    warmup_seconds: Annotated[tuple[Seconds, ...], BeforeValidator(_split)] = (1.0, 8.0)
    """Lengths to run before the seat is ready; the longest window is always added."""
    max_audio_s: Seconds = 3600.0
    """Seconds of audio that one request may hold; 0 for no limit."""
    max_upload_mib: Annotated[int, Field(ge=1)] = 1024
    """MiB that one request may hold."""
    max_batch_s: Annotated[float, Field(gt=0)] = 60.0
    """Seconds of audio that one batch may hold, padding included; one window always fits."""
    max_requests: Annotated[int, Field(ge=1)] = 128
    """Transcriptions that may be inside at the same time, from the upload's end to the answer."""
    max_queue_audio_s: Annotated[float, Field(gt=0)] = 36_000.0
    """Seconds of audio that may wait for the GPU thread."""
    max_decoded_mib: Annotated[int, Field(ge=1)] = 2048
    """MiB of decoded audio, 2 a minute, that all requests may hold together; the one that holds some for longest may
    hold more."""
    live_window_s: Annotated[tuple[Seconds, ChunkSeconds, Seconds], BeforeValidator(_split)] = (5.6, 1.04, 1.04)
    """Seconds of a live window, as 'left,chunk,right': words come out a chunk and the right context after their end."""
    max_live_sessions: Annotated[int, Field(ge=0)] = 64
    """Live sessions that may be open at the same time; 0 for none."""
    max_live_s: Seconds = 3600.0
    """Seconds that a live session may last; 0 for no limit."""
    max_live_wait_s: Annotated[float, Field(ge=1)] = 30.0
    """Seconds of audio of a live session that may wait to be heard; then no more is read until some has been."""
    decoders: Annotated[int, Field(ge=1)] = 2
    """Files that are decoded at the same time."""
    api_keys: Annotated[tuple[SecretStr, ...], Field(min_length=1), BeforeValidator(_split)] = ()
    """Keys that clients must show; none for an open seat. 'NAME:KEY' gives a key the name that the log calls it by."""
    cors_origins: Annotated[tuple[str, ...], BeforeValidator(_split)] = ()
    """Origins whose pages may call the API from a browser, such as 'https://app.example'; '*' for any."""
    deadline_s: Annotated[float, Field(gt=0)] = 600.0
    """Seconds after which a request is answered with 504, or with 503 where the model hangs."""
    stall_s: Annotated[float, Field(gt=0)] = 120.0
    """Seconds in one call of the model after which the seat is not ready; after twice that it is not live."""
    drain_s: Seconds = 30.0
    """Seconds that requests whose upload has ended get to finish when the seat is told to stop."""
    log_format: Literal["auto", "json", "console"] = "auto"
    """'auto' is readable on a terminal and JSON elsewhere."""

    @property
    def named_keys(self) -> tuple[tuple[str, SecretStr], ...]:
        """Each key with its name; one without is called by its place, from 'key1'."""
        return tuple(_named(key, f"key{place}") for place, key in enumerate(self.api_keys, 1))

    @property
    def url(self) -> str:
        """Where a client on this machine finds the seat."""
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    @property
    def model_id(self) -> str:
        """The name clients use: 'demo', the stem of a file, or 'owner/name'."""
        if self.model.endswith(".nemo"):
            return Path(self.model).stem
        return self.model.partition("@")[0]

    @property
    def served_models(self) -> tuple[str, ...]:
        """The model's own name and its aliases, each once."""
        return tuple(dict.fromkeys((self.model_id, *self.model_aliases)))


def _named(entry: SecretStr, otherwise: str) -> tuple[str, SecretStr]:
    whole = entry.get_secret_value().strip()  # as what comes in a header is
    name, colon, key = whole.partition(":")
    return (name, SecretStr(key.strip())) if colon and _KEY_NAME.fullmatch(name) else (otherwise, SecretStr(whole))


def read(environment: Mapping[str, str] = os.environ, **overrides: object) -> Settings:
    """Read and check the settings.

    Args:
        environment: Variables by name. Empty ones count as absent; ones that begin with 'SEAT_' must be known.
        **overrides: Settings by field name that win over the environment; None means not given.

    Raises:
        InvalidSettings: A name is unknown, or a value is not usable; all problems are named at once.
    """
    names = dict(ALIASES) | {PREFIX + f.upper(): f for f in Settings.model_fields}
    values: dict[str, object] = {field: environment[name] for name, field in names.items() if environment.get(name)}
    values |= {field: value for field, value in overrides.items() if value is not None}
    problems = list(_unknown(environment, names))
    try:
        settings = Settings.model_validate(values)
        problems += _contradictions(settings)
    except ValidationError as fault:
        problems += [_told(values, str(e["loc"][0]), e["type"], e["msg"]) for e in fault.errors()]
    if problems:
        raise InvalidSettings(problems=problems)
    return settings


def _told(values: Mapping[str, object], field: str, kind: str, message: str) -> str:
    """What is wrong with a setting, with all that was written for it."""
    few, many = "There is a value too few", "There are values too many"
    said = {"missing": few, "too_short": few, "too_long": many}.get(kind, message)
    return f"{PREFIX}{field.upper()}={values[field]!r}: {said}"


def of_command_line(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment without the client's own key, ``SEAT_API_KEY``, which is no setting of a seat."""
    return {name: value for name, value in environment.items() if name != "SEAT_API_KEY"}


def deprecated(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The deprecated names that an environment sets, with the name to write instead of each."""
    return {name: PREFIX + ALIASES[name].upper() for name in DEPRECATED if environment.get(name)}


def _contradictions(settings: Settings) -> Iterator[str]:
    if settings.cuda_graphs and (settings.mem_return or settings.idle_release_s):
        yield (
            "SEAT_CUDA_GRAPHS=1 needs SEAT_MEM_RETURN=0 and SEAT_IDLE_RELEASE_S=0: a graph keeps the addresses it was "
            "captured with, and once memory has gone back to the driver the next replay is an illegal access"
        )
    for name, key in settings.named_keys:
        if not key:
            yield f"SEAT_API_KEYS: there is no key behind '{name}:', and whoever knew that would be let in"
        if not (key.get_secret_value().isascii() and key.get_secret_value().isprintable()):
            yield f"SEAT_API_KEYS: '{name}' holds more than printable ASCII, and no client could send it in a header"
    if settings.max_live_wait_s < sum(settings.live_window_s[1:]):
        yield "SEAT_MAX_LIVE_WAIT_S must hold at least the chunk and the right context of SEAT_LIVE_WINDOW_S"
    if settings.cuda_graphs and sum(settings.live_window_s) > settings.window_s + sum(settings.window_context_s):
        yield "SEAT_CUDA_GRAPHS=1 captures the longest window, and SEAT_LIVE_WINDOW_S must not be longer"
    if settings.cuda_graphs and settings.mem_cap_mib == 0:
        yield (
            "SEAT_CUDA_GRAPHS=1 needs a cap, not SEAT_MEM_CAP_MIB=0: without one the allocator meets a full card by "
            "giving memory back to the driver"
        )


def _unknown(environment: Mapping[str, str], names: Mapping[str, str]) -> Iterator[str]:
    for name in environment:
        if name.startswith(PREFIX) and name not in names:
            nearest = difflib.get_close_matches(name, names, n=1)
            yield f"{name} is not a setting" + (f"; did you mean {nearest[0]}?" if nearest else "")
