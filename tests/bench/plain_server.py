"""What one writes in an afternoon: NeMo's transcribe() behind one lock. The yardstick of `tests.bench.load`.

python -m tests.bench.plain_server PORT
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from contextlib import suppress
from typing import Annotated, Any

from granian.constants import Interfaces
from granian.server.embed import Server
from litestar import Litestar, get, post
from litestar.datastructures import UploadFile
from litestar.enums import RequestEncodingType
from litestar.params import Body

from seat.gpu.checkpoint import DEMO


async def main(port: int) -> None:
    """Load the bundled model and serve it until cancelled."""
    from nemo.collections.asr.models import ASRModel
    from omegaconf import open_dict

    model = ASRModel.restore_from(str(DEMO), map_location="cpu")
    with open_dict(model.cfg):
        model.cfg.validation_ds = {}
    lock = asyncio.Lock()

    def transcribe(content: bytes) -> str:
        with tempfile.NamedTemporaryFile(suffix=".wav") as file:
            file.write(content)
            file.flush()
            return str(model.transcribe([file.name], batch_size=1, timestamps=True, verbose=False)[0].text)

    @post("/v1/audio/transcriptions", status_code=200)
    async def create(
        data: Annotated[dict[str, Any], Body(media_type=RequestEncodingType.MULTI_PART)],
    ) -> dict[str, str]:
        upload: UploadFile = data["file"]
        content = await upload.read()
        async with lock:
            return {"text": await asyncio.to_thread(transcribe, content)}

    @get("/health/ready")
    async def ready() -> dict[str, bool]:
        return {"ready": True}

    app = Litestar([create, ready], openapi_config=None, logging_config=None)
    await Server(app, port=port, interface=Interfaces.ASGI).serve()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main(int(sys.argv[1])))
