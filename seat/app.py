"""Put the parts together: settings and a way to load a recognizer in, an ASGI application out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from litestar import Litestar, Router
from litestar.config.cors import CORSConfig
from litestar.di import Provide
from litestar.types import ASGIApp

from seat.recognizer import Recognizer
from seat.service import Service
from seat.settings import Settings
from seat.web.access import with_access_line
from seat.web.docs import docs, openapi_json
from seat.web.headers import with_security_headers
from seat.web.keys import require_key
from seat.web.linger import with_lingering
from seat.web.metrics import metrics
from seat.web.models import list_models, retrieve_model
from seat.web.page import show_page
from seat.web.probes import health, live, ready
from seat.web.problems import to_response
from seat.web.realtime import transcribe_in_realtime
from seat.web.recent import Recent, list_recent
from seat.web.sockets import Lobby
from seat.web.stream import stream_audio
from seat.web.transcriptions import create_transcription, create_translation
from seat.web.underway import with_last_words


def build_app(
    settings: Settings,
    load_recognizer: Callable[[], Recognizer],
    on_failure: Callable[[BaseException], None] = lambda _fault: None,
    exposition: Callable[[], bytes] = bytes,
    on_warm: Callable[[], None] = lambda: None,
) -> tuple[ASGIApp, Service]:
    """Compose one seat.

    Args:
        settings: What the operator asked for.
        load_recognizer: Called once, on the GPU thread, while HTTP already answers.
        on_failure: Called on the event loop where loading or warm-up raises, and where the device is lost later; the
            process is of no use then.
        exposition: Writes all metrics for Prometheus; called on a thread. Nothing is measured without.
        on_warm: As for `Service`.

    Returns:
        The application, and the service behind it for whoever must stop it.
    """
    service, recent, lobby = Service(settings, load_recognizer, on_failure, on_warm), Recent(), Lobby()

    @asynccontextmanager
    async def lifespan(_app: Litestar) -> AsyncIterator[None]:
        async with service:
            yield

    app = Litestar(
        route_handlers=[
            Router(
                "/",
                route_handlers=[create_transcription, create_translation, list_models, retrieve_model],
                guards=[require_key],
            ),
            stream_audio,
            transcribe_in_realtime,
            health,
            live,
            ready,
            openapi_json,
            docs,
            metrics,
            list_recent,
            show_page,
        ],
        dependencies={
            "service": Provide(lambda: service, sync_to_thread=False),
            "settings": Provide(lambda: settings, sync_to_thread=False),
            "exposition": Provide(lambda: exposition, sync_to_thread=False),
            "recent": Provide(lambda: recent, sync_to_thread=False),
            "lobby": Provide(lambda: lobby, sync_to_thread=False),
        },
        cors_config=_cors(settings),
        exception_handlers={Exception: to_response},
        lifespan=[lifespan],
        openapi_config=None,
        logging_config=None,
        request_max_body_size=None,
    )
    app.state.settings = settings
    return with_lingering(with_access_line(with_security_headers(with_last_words(app)), recent)), service


def _cors(settings: Settings) -> CORSConfig | None:
    """What browsers may do with pages of other origins; without one, they refuse by themselves."""
    if not settings.cors_origins:
        return None
    return CORSConfig(allow_origins=list(settings.cors_origins), expose_headers=["x-request-id", "retry-after"])
