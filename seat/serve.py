"""Run one seat as a process: logs, server, signals, exit code. Knows Granian; nothing of what is served."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from functools import partial
from importlib import resources
from typing import Any

from granian._granian import SocketHolder
from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP2Settings
from granian.log import LogLevels
from granian.server.embed import Server

from seat.app import build_app
from seat.errors import AddressUnusable, CannotStart
from seat.gauges import publish
from seat.recognizer import Recognizer
from seat.service import State
from seat.settings import Settings, deprecated
from seat.telemetry import configure_logging, log
from seat.telemetry.providers import Outlets, set_up
from seat.watch import watch
from seat.web.underway import UnderWay

WAITING_CONNECTIONS = 1024
"""Connections that the kernel keeps until they are accepted."""

OPEN_CONNECTIONS = 4096
"""Connections that are served at once. Granian's default, 128, lets as many idle ones starve the probes; what work may
wait is limited by the settings, not here."""

CLOSE_WITHIN_S = 8.0
"""Seconds that the server gets to end by itself once nobody is served any more; five are the model's thread's."""

LOST_DRAIN_S = 3.0
"""Seconds to finish once the device is lost: who needs the model is answered by then, and others wait in vain."""

LEAVE_S = 5.0
"""Seconds for threads to end once all is told, of which one may hang in a card's driver."""

FLUSH_S = 0.2
"""Seconds for the last answers to leave before connections are told to close: some HTTP/2 clients read no further."""

MOST_HEADERS = 64 * 1024
"""Bytes of headers over HTTP/2, unpacked: its compression makes 16 MiB, which Granian would take, of 4 kB."""

PEER_OPTIONS = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 60_000),
)
"""What ends a connection after a minute where its client has vanished without a packet. By itself Linux waits two hours
if nothing is to be said, and a quarter of one if something is. A silent client stays, as its kernel answers; one that
takes nothing of a long answer for a minute does not."""


def load_nemo(settings: Settings) -> Recognizer:
    """Load the model that the settings name; imports torch and NeMo, on the thread that calls."""
    # Both are read as torch loads. OpenMP's threads spin between a model's operations and take the cores from decoding
    # and HTTP. oneDNN keeps a kernel for each shape it met, up to 1,024: under bursts, whose batches are all of other
    # shapes, the process grew by 4.8 MiB a minute. With 64 a request takes as long, of a new length or of an old one.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
    from seat.gpu import nemo

    return nemo.load(
        model=settings.model,
        model_id=settings.model_id,
        sha256=settings.model_sha256,
        device_name=settings.device,
        dtype_name=settings.dtype,
        mem_cap_mib=settings.mem_cap_mib,
        options=nemo.Options(
            attention=settings.attention,
            auto_attention_s=settings.auto_attention_s,
            local_context=settings.local_context,
            cuda_graphs=settings.cuda_graphs,
            torch_compile=settings.torch_compile,
        ),
    )


def serve(settings: Settings, load_recognizer: Callable[[Settings], Recognizer] = load_nemo) -> int:
    """Serve until a signal or a fault ends it.

    Args:
        settings: What the operator asked for.
        load_recognizer: Called with the settings, once, on the GPU thread.

    Returns:
        The process's exit code: 0 after a signal, 1 after a fault.
    """
    configure_logging(settings.log_format)
    for name, instead in deprecated().items():
        log.warning("deprecated_name", name=name, instead=instead)
    try:
        listener = listen(settings.host, settings.port)
        outlets = set_up(os.environ)
    except CannotStart as fault:
        log.error("cannot_start", reason=str(fault))
        return 1

    async def served() -> int:
        try:
            exit_code = await _serve(settings, partial(load_recognizer, settings), outlets, listener)
        finally:
            outlets.shut_down()
        _leave_within(LEAVE_S, exit_code)
        return exit_code

    return asyncio.run(served())


def freeze() -> None:
    """Take what is there out of the collector's sight, once a model is warm: most of it stays for good.

    NeMo and torch are 711,000 objects: a full collection walks them in 0.37 s, and holds the GIL, so the loop stops.
    """
    gc.collect()
    gc.freeze()


def listen(host: str, port: int) -> socket.socket:
    """Listen on an address; 0 is any free port. Granian would silently share a taken one with whoever has it.

    Raises:
        AddressUnusable: It is taken, or not ours.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        both = family is socket.AF_INET6 and socket.has_dualstack_ipv6()  # '::' is every address, IPv4's included
        listener = socket.create_server((host, port), family=family, backlog=WAITING_CONNECTIONS, dualstack_ipv6=both)
    except OSError as fault:
        reason = str(fault.strerror or fault).partition(" (while ")[0]  # what follows is the address once more
        raise AddressUnusable(host=host, port=port, reason=reason) from fault
    listener.settimeout(0)
    for level, option, value in PEER_OPTIONS:
        listener.setsockopt(level, option, value)
    return listener


class _Server(Server):
    """Granian's on a socket of ours: what it accepts inherits the options, and it has none of its own for them."""

    def __init__(self, listener: socket.socket, app: Callable[..., Any], **options: Any) -> None:  # noqa: ANN401  Granian's
        super().__init__(app, **options)
        self._listener = listener

    def _init_shared_socket(self) -> None:
        described = self._listener.detach(), False, WAITING_CONNECTIONS  # False: it is no unix socket
        self._shd = SocketHolder(*described)  # type: ignore[assignment, call-arg]  # its stub has neither


def _example(settings: Settings, port: int) -> str:
    """A command to paste that has a bundled clip transcribed."""
    clip = resources.files("seat") / "demo" / "clips" / "call.flac"
    key = "-H 'Authorization: Bearer KEY' " if settings.api_keys else ""
    url = settings.model_copy(update={"port": port}).url  # 0 is any free one
    return f"curl {url}/v1/audio/transcriptions {key}-F model={settings.model_id} -F file=@{clip}"


def make_server(app: Callable[..., Any], listener: socket.socket) -> Server:
    """A server of an application, in this process and on this event loop; it accepts nothing yet."""
    return _Server(
        listener,
        app,
        interface=Interfaces.ASGI,
        http=HTTPModes.auto,
        websockets=True,
        backlog=WAITING_CONNECTIONS,
        backpressure=OPEN_CONNECTIONS,
        http2_settings=HTTP2Settings(max_headers_size=MOST_HEADERS),
        log_level=LogLevels.error,  # at warning it says that this class is experimental
        log_dictconfig={"handlers": {}, "loggers": {"_granian": {"propagate": True}}},
    )


async def _serve(
    settings: Settings, load_recognizer: Callable[[], Recognizer], outlets: Outlets, listener: socket.socket
) -> int:
    exit_code = 0
    leaving: asyncio.Future[Any] | None = None
    lost = asyncio.Event()

    def fail(fault: BaseException) -> None:
        nonlocal exit_code
        exit_code = 1
        trace = None if isinstance(fault, CannotStart) else fault
        if service.info is None:
            log.error("cannot_start", reason=str(fault), exc_info=trace)
        else:
            log.error("device_lost", reason=str(fault), exc_info=trace)
        lost.set()
        leave()

    def stop(name: str) -> None:
        log.info("stopping", signal=name)
        leave()

    def leave() -> None:
        nonlocal leaving
        service.stop_admission()
        leaving = leaving or asyncio.gather(close(), give_up())

    async def close() -> None:
        await service.drain_streams()  # Granian breaks off open websockets at once, and without a word
        await under_way.finished()  # until then new connections are told 503, after that none are accepted
        await asyncio.sleep(FLUSH_S)
        server.stop()  # type: ignore[no-untyped-call]
        await under_way.finished()
        await leave_rest()  # half the head of a request, or HTTP/2 that answers no ping

    async def give_up() -> None:
        after_s = await _drain(settings.drain_s, lost)
        log.warning("drain_ended", after_s=after_s, cut_off=len(under_way))
        await leave_rest()

    async def leave_rest() -> None:
        await under_way.cut_off()
        await asyncio.wait([serving], timeout=CLOSE_WITHIN_S)
        serving.cancel()

    app, service = build_app(settings, load_recognizer, fail, outlets.exposition, freeze)
    publish(service, settings.device)
    under_way, port = UnderWay(), listener.getsockname()[1]
    server = make_server(under_way.watching(app), listener)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number.name)
    log.info("listening", address=settings.host, port=port, try_it=_example(settings, port))
    serving = asyncio.ensure_future(server.serve())
    watching = asyncio.create_task(watch(lambda: service.state is State.STALLED), name="watch")
    await asyncio.wait([serving])
    watching.cancel()
    if not serving.cancelled():
        serving.result()
    return exit_code


async def _drain(drain_s: float, lost: asyncio.Event) -> float:
    """Wait for so many seconds, or for a few once the device is lost; returns how many it were."""
    began_at = time.monotonic()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(drain_s):
            await lost.wait()
            await asyncio.sleep(LOST_DRAIN_S)
    return round(time.monotonic() - began_at, 1)


def _leave_within(seconds: float, exit_code: int) -> None:
    """End the process though a thread may hang: asyncio and the interpreter would wait for it without a limit."""

    def leave() -> None:
        log.warning("threads_left", after_s=seconds)
        os._exit(exit_code)

    over = threading.Timer(seconds, leave)
    over.daemon = True
    over.start()
