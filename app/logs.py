"""Logging: one line per event with public facts, never rows, bodies or exception texts."""

import logging
import sys
import traceback
import warnings
from typing import TextIO

import structlog

NOISY = (  # the last ones would log bodies and signatures
    "uvicorn.access",
    "httpx",
    "celery.worker.strategy",
    "celery.app.trace",
    "numba",
    "alembic",
    "opentelemetry",
    "botocore",
    "urllib3",
)


def configure(form: str, level: str, stream: TextIO | None = None) -> None:
    """Send structlog's and the standard library's records to one stream, one line each."""
    shared: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last: structlog.types.Processor = (
        structlog.processors.JSONRenderer()
        if form == "json"
        else structlog.dev.ConsoleRenderer(colors=False)
    )
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, _without_exception],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, last],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for quiet in NOISY:
        logging.getLogger(quiet).setLevel("ERROR")


def _without_exception(
    _logger: object, _name: str, event: structlog.types.EventDict
) -> structlog.types.EventDict:
    """Replace exception texts of libraries by their type, as they may quote values."""
    record = event.get("_record")
    info = event.pop("exc_info", None) or (record.exc_info if record else None)
    if record is not None and info:
        record.exc_info = record.exc_text = None
        kind = info[0] if isinstance(info, tuple) else None
        event["event"] = str(record.msg).split("%", 1)[0].split("\n", 1)[0]
        event["exception"] = kind.__name__ if kind else "unknown"
    return event


def where(error: BaseException) -> str:
    """Return file and line of the innermost own frame of an exception."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if "site-packages" not in f.filename] or frames
    return f"{ours[-1].filename.rsplit('/', 1)[-1]}:{ours[-1].lineno}" if ours else "unknown"


def logger() -> structlog.stdlib.BoundLogger:
    """Return the logger."""
    bound: structlog.stdlib.BoundLogger = structlog.get_logger()
    return bound


def silence_warnings() -> None:
    """Suppress Python warnings, which may reveal values of rows."""
    warnings.simplefilter("ignore")
