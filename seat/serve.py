"""Run one seat as a process: logs, server, signals, exit code. Knows Granian; nothing of what is served."""

from __future__ import annotations

import asyncio
import os
import signal
from functools import partial

from granian.constants import HTTPModes, Interfaces
from granian.log import LogLevels
from granian.server.embed import Server

from seat.app import build_app
from seat.errors import CannotStart
from seat.recognizer import Recognizer
from seat.settings import Settings
from seat.telemetry import configure_logging, log


def serve(settings: Settings) -> int:
    """Serve until a signal or a fault ends it.

    Returns:
        The process's exit code: 0 after a signal, 1 after a fault.
    """
    # OpenMP's threads spin between a model's operations, and take the cores from decoding and HTTP. Read when torch loads.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    configure_logging(settings.log_format)
    return asyncio.run(_serve(settings))


def load_nemo(settings: Settings) -> Recognizer:
    """Load the model that the settings name; imports torch and NeMo, on the thread that calls."""
    from seat.gpu import nemo

    return nemo.load(
        model=settings.model,
        model_id=settings.model_id,
        sha256=settings.model_sha256,
        device_name=settings.device,
        dtype_name=settings.dtype,
    )


async def _serve(settings: Settings) -> int:
    exit_code = 0

    def fail(fault: BaseException) -> None:
        nonlocal exit_code
        exit_code = 1
        log.error("cannot_start", reason=str(fault), exc_info=None if isinstance(fault, CannotStart) else fault)
        server.stop()

    def stop(name: str) -> None:
        log.info("stopping", signal=name)
        service.stop_admission()
        server.stop()

    app, service = build_app(settings, partial(load_nemo, settings), fail)
    server = Server(
        app,
        address=settings.host,
        port=settings.port,
        interface=Interfaces.ASGI,
        http=HTTPModes.auto,
        websockets=True,
        log_level=LogLevels.error,  # at warning it says that this class is experimental
        log_dictconfig={"handlers": {}, "loggers": {"_granian": {"propagate": True}}},
    )
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number.name)
    log.info("listening", address=settings.host, port=settings.port)
    await server.serve()
    return exit_code
