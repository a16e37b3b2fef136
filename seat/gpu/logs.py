"""Bring the logs of NeMo, lightning and OneLogger under our roof. Knows their loggers; no model.

NeMo 3.0.0 replaces `warnings.showwarning`, writes to both standard streams by handlers of its own, and keeps every
record for ever in memory handlers without a target. After `adopt` its warnings reach the root logger like
everybody's, once.
"""

from __future__ import annotations

import logging
import warnings

_NOISY = r"(nemo|lightning|torch|torchmetrics|transformers|lhotse|pydub|nv_one_logger|jupyter_client|datasets)(\.|$)"
"""Modules whose deprecation notices about each other nobody here can act on."""


def hush() -> None:
    """Keep OneLogger's and others' notices about themselves out of the log. Call before NeMo is imported."""
    logging.getLogger("nv_one_logger").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module=_NOISY)


def adopt() -> None:
    """Remove the handlers of NeMo and lightning, and let their warnings propagate. Call after NeMo is imported."""
    from nemo.utils import lightning_logger_patch
    from nemo.utils import logging as nemo_logging

    logger = nemo_logging._logger  # noqa: SLF001  no public way to its handlers
    for handler in list(logger.handlers):
        logger.removeHandler(handler)
    nemo_logging._handlers.clear()  # noqa: SLF001
    logger.propagate = True
    logger.setLevel(
        logging.ERROR
    )  # until the checkpoint is restored: its training configuration is printed as a warning
    nemo_logging.captureWarnings(capture=False)
    logging.captureWarnings(capture=True)

    for name in ("lightning.pytorch", "lightning.fabric", "pytorch_lightning"):
        lightning = logging.getLogger(name)
        lightning.handlers.clear()
        lightning.propagate = True
        lightning.setLevel(logging.WARNING)
    lightning_logger_patch.HANDLERS.clear()
