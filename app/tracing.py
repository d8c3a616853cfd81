"""Tracing by OpenTelemetry, where a collector is configured (OTLP over HTTP).

Every span is made by hand. Its name is one of a few, and what it tells are public facts: no SQL, no
body, no key, no text of an exception. Uploads have no span, because their time depends on rows. The
others' times include those of blocks of attempts that are thrown away, so a collector is to be
trusted like the database. Where none is configured nothing of OpenTelemetry is imported.
"""

import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal
from uuid import UUID

from app.settings import Settings

Name = Literal[
    "request",
    "submit",
    "reserve",
    "enqueue",
    "run",
    "examine rows",
    "claim",
    "open rows",
    "store",
    "succeed",
]
FACTS = {
    "method": "http.request.method",
    "route": "http.route",
    "status": "http.response.status_code",
    "request": "dpmcmc.request.id",
    "job": "dpmcmc.job.id",
    "attempt": "dpmcmc.job.attempt",
    "outcome": "dpmcmc.job.outcome",
    "error": "error.type",
}
PARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
BATCH_MILLISECONDS = 500
EXPORT_SECONDS = 2
CLOSE_MILLISECONDS = 2000

_provider: Any = None
_tracer: Any = None


def configure(settings: Settings, role: str) -> None:
    """Export this process's spans to the collector. Call it after any fork."""
    global _provider, _tracer
    close()
    if not settings.otlp_endpoint:
        return
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    exporter = OTLPSpanExporter(
        endpoint=f"{settings.otlp_endpoint.rstrip('/')}/v1/traces",
        headers=_headers(settings.otlp_headers.get_secret_value()),
        timeout=EXPORT_SECONDS,
    )
    _provider = TracerProvider(
        resource=Resource({"service.name": f"dpmcmc-{role}"}), shutdown_on_exit=False
    )
    _provider.add_span_processor(
        BatchSpanProcessor(exporter, schedule_delay_millis=BATCH_MILLISECONDS)
    )
    _tracer = _provider.get_tracer("dpmcmc")


def _headers(text: str) -> dict[str, str]:
    """Return headers parsed from name=value pairs with commas."""
    pairs = (pair.partition("=") for pair in text.split(",") if "=" in pair)
    return {name.strip(): value.strip() for name, _, value in pairs}


def close() -> None:
    """Export remaining spans within a short time, and stop."""
    global _provider, _tracer
    provider, _provider, _tracer = _provider, None, None
    if provider is not None:

        def end() -> None:
            """Shut the exporter down."""
            provider.force_flush(CLOSE_MILLISECONDS)
            provider.shutdown()

        ending = threading.Thread(target=end, name="traces", daemon=True)
        ending.start()  # a collector that trickles would hold it
        ending.join(2 * CLOSE_MILLISECONDS / 1000)


@contextmanager
def span(
    name: Name, *, parent: str | None = None, start: int | None = None, **facts: Any
) -> Iterator[None]:
    """Open a span around the `with` block, below the current one or `parent`.

    start: when it began, in nanoseconds since 1970, if before the block. Of an exception that
    passes, the type alone is told.
    """
    if _tracer is None:
        yield
        return
    from opentelemetry import trace

    context = _context(parent) if parent else None
    opened = _tracer.start_span(name, context, attributes=_public(facts), start_time=start)
    try:
        with trace.use_span(opened, record_exception=False, set_status_on_exception=False):
            yield
    except BaseException as error:
        opened.set_attributes(_public({"error": type(error).__name__}))
        raise
    finally:
        opened.end()


def note(**facts: Any) -> None:
    """Add facts to the current span."""
    if _tracer is not None:
        from opentelemetry import trace

        trace.get_current_span().set_attributes(_public(facts))


def _public(facts: Mapping[str, Any]) -> dict[str, str | int]:
    """Return the facts by attribute name. Raises KeyError on a non-public one."""
    plain = {FACTS[name]: value for name, value in facts.items() if value is not None}
    return {name: str(v) if isinstance(v, UUID) else v for name, v in plain.items()}


def now() -> int:
    """Return the present time, as a span's `start`."""
    return time.time_ns()


def carrier() -> str | None:
    """Return the current span as a W3C traceparent, for another process."""
    if _tracer is None:
        return None
    from opentelemetry import trace

    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"


def _context(parent: str) -> Any:
    """Return the context of a traceparent, or None where it is invalid."""
    from opentelemetry import trace

    match = PARENT.fullmatch(parent)
    if match is None:
        return None
    trace_id, span_id, flags = (int(part, 16) for part in match.groups())
    remote = trace.SpanContext(trace_id, span_id, True, trace.TraceFlags(flags))
    return trace.set_span_in_context(trace.NonRecordingSpan(remote))
