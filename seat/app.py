"""Put the parts together: settings and a way to load a recognizer in, an ASGI application out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from litestar import Litestar, Router
from litestar.di import Provide
from litestar.types import ASGIApp

from seat.recognizer import Recognizer
from seat.service import Service
from seat.settings import Settings
from seat.web.access import with_access_line
from seat.web.keys import require_key
from seat.web.linger import with_lingering
from seat.web.models import list_models, retrieve_model
from seat.web.probes import health, live, ready
from seat.web.problems import to_response
from seat.web.realtime import transcribe_in_realtime
from seat.web.stream import stream_audio
from seat.web.transcriptions import create_transcription


def build_app(
    settings: Settings,
    load_recognizer: Callable[[], Recognizer],
    on_failure: Callable[[BaseException], None] = lambda _fault: None,
) -> tuple[ASGIApp, Service]:
    """Compose one seat.

    Args:
        settings: What the operator asked for.
        load_recognizer: Called once, on the GPU thread, while HTTP already answers.
        on_failure: Called on the event loop where loading or warm-up raises, and where the device is lost later; the
            process is of no use then.

    Returns:
        The application, and the service behind it for whoever must stop it.
    """
    service = Service(settings, load_recognizer, on_failure)

    @asynccontextmanager
    async def lifespan(_app: Litestar) -> AsyncIterator[None]:
        async with service:
            yield

    app = Litestar(
        route_handlers=[
            Router("/", route_handlers=[create_transcription, list_models, retrieve_model], guards=[require_key]),
            stream_audio,
            transcribe_in_realtime,
            health,
            live,
            ready,
        ],
        dependencies={
            "service": Provide(lambda: service, sync_to_thread=False),
            "settings": Provide(lambda: settings, sync_to_thread=False),
        },
        exception_handlers={Exception: to_response},
        lifespan=[lifespan],
        openapi_config=None,
        logging_config=None,
        request_max_body_size=None,
    )
    app.state.settings = settings
    return with_lingering(with_access_line(app)), service
