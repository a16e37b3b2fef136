"""Examine a seat: one that runs elsewhere, or one that is started in this process for it. Knows the order of checks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import httpx

from seat.client import Client, NoAddress, NoTranscript, Refused, Unreachable
from seat.doctor import findings, patient
from seat.doctor.findings import Finding
from seat.errors import CannotStart, CapTooSmall, ChecksumMismatch, DeviceUnavailable, InvalidSettings, SeatError
from seat.recognizer import MATRIX_ROWS, Examination, Recognizer
from seat.sentences import NEXT_STEPS
from seat.settings import Settings, deprecated, read

ASK_EVERY_S: Final = 0.1
"""Seconds between two looks whether a seat in this process has loaded."""

ANSWER_WITHIN_S: Final = 120.0
"""Seconds for a short clip: far more than a processor takes for it."""

LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
"""Hosts where what this process reads from the machine is about the seat, too."""


def understood(environment: dict[str, str], **overrides: object) -> tuple[Settings | None, Finding]:
    """Read the settings, and say whether every variable is one."""
    try:
        wanted = read(environment, **overrides)
    except InvalidSettings as fault:
        said = "; ".join(line.strip() for line in str(fault).splitlines()[1:])
        return None, findings.fail("environment", said, "Correct these variables, or leave them out.")
    return wanted, findings.environment(deprecated(environment))


def elsewhere(url: str, api_key: str | None, settings: Settings) -> Iterator[Finding]:
    """Examine a running seat. On this machine, what the machine tells about itself is looked at, too."""
    try:
        asking = Client(url, api_key=api_key, timeout_s=ANSWER_WITHIN_S)
    except NoAddress as fault:
        return (yield findings.fail("address", str(fault), "Give that of a seat, such as http://127.0.0.1:8300."))
    with asking as client:
        near = httpx.URL(client.url).host in LOOPBACK
        yield from _look(client, None, None, settings if near else None)
    return None


async def here(settings: Settings, load_recognizer: Callable[[], Recognizer]) -> list[Finding]:
    """Start a seat in this process, on a free port of the loopback, and examine it from inside and outside."""
    from seat.app import build_app
    from seat.serve import listen, make_server

    faults: list[BaseException] = []
    listener = listen("127.0.0.1", 0)
    port = listener.getsockname()[1]
    app, service = build_app(settings, load_recognizer, faults.append)
    server = make_server(app, listener)
    serving = asyncio.ensure_future(server.serve())
    try:
        while service.info is None and not faults:  # noqa: ASYNC110  see below
            await asyncio.sleep(ASK_EVERY_S)  # loading begins once the server runs, and has no event before
        if faults:
            return [not_started(faults[0])]
        examined = await service.examine()
        key = settings.named_keys[0][1].get_secret_value() if settings.api_keys else None

        def look() -> list[Finding]:
            with Client(
                f"http://127.0.0.1:{port}", api_key=key, timeout_s=ANSWER_WITHIN_S, transport=httpx.HTTPTransport()
            ) as client:
                return list(_look(client, settings.device, examined, settings))

        return await asyncio.to_thread(look)
    finally:
        server.stop()  # type: ignore[no-untyped-call]
        await asyncio.wait([serving])


def not_started(fault: BaseException) -> Finding:
    """Why no seat could be started, under the check that it belongs to."""
    said = f"it does not start: {fault}"
    match fault:
        case CapTooSmall():
            return findings.fail("room", said, f"Set SEAT_MEM_CAP_MIB={fault.need_mib} or more, or 0 for no cap.")
        case DeviceUnavailable():
            return findings.fail("device", said, "See whether 'nvidia-smi' shows the card here, and run it again.")
        case ChecksumMismatch():
            return findings.fail("model", said, "Fetch the model again with 'seat fetch', which prints its digest.")
        case CannotStart():
            return findings.fail("model", said, "Name a model with SEAT_MODEL; 'seat fetch' brings one from the hub.")
        case _:
            return findings.fail(
                "model", f"{said} ({type(fault).__name__})", "Report this, with what 'seat serve' logs."
            )


def _look(
    client: Client, asked: str | None, examined: Examination | None, machine: Settings | None
) -> Iterator[Finding]:
    """Go from one check to the next; where a seat does not answer or is not ready, the later ones cannot be made."""
    try:
        lines = patient.status_lines(client.url)
    except Unreachable as fault:
        said = f"nothing answers at {client.url}: {fault.__cause__}"
        return (yield findings.fail("address", said, "See whether it runs, and on which port."))
    yield findings.ok("address", f"{client.url} answers")
    yield findings.status_lines(lines)
    try:
        health = client.health()
    except NoTranscript as fault:
        return (yield findings.fail("state", str(fault), "Give the address of a seat, such as http://127.0.0.1:8300."))
    yield (state := findings.state(health))
    if state.level is findings.Level.FAIL:
        return None
    model, memory = health["model"], health["memory"]
    yield findings.device(asked, model, examined)
    yield findings.number_type(model)
    yield findings.versions(model, examined)
    yield findings.process(model, memory, examined)
    yield findings.room(memory, _free(model, machine) if machine else None)
    try:
        heard = patient.listen(client)
    except SeatError as fault:
        reason = fault.reason if isinstance(fault, Refused) else None
        next_step = NEXT_STEPS.get(reason or "", "Read the seat's log for this request.")
        return (yield findings.fail("words", str(fault), next_step))
    yield findings.words(model["id"], heard.said, heard.heard)
    yield findings.silence(heard.heard_in_silence)
    yield findings.clock(heard.first_s, heard.warm_s)
    yield findings.rate(model, heard.s_per_audio_s, *_matrix(model, examined))
    return None


def _free(model: dict[str, Any], settings: Settings) -> int | None:
    """What nobody takes of the card, or of the machine where no card computes."""
    if not str(model["device"]).startswith("cuda"):
        from seat.resident import available

        return available()
    from seat.gpu.device import card as read_card

    card = read_card(settings.device)
    return card.free if card else None


def _matrix(model: dict[str, Any], examined: Examination | None) -> tuple[float, str]:
    """The rate of a matrix product: where the weights lie, or on this processor where they lie in another process."""
    if examined is not None:
        return examined.matrix_flop_per_s, str(model["device"])
    import numpy as np

    side = np.ones((MATRIX_ROWS, MATRIX_ROWS), np.float32)
    began_at = time.perf_counter()
    side @ side
    return 2 * MATRIX_ROWS**3 / (time.perf_counter() - began_at), "cpu"
