"""Quotes: the cost of mechanisms in every notion of differential privacy."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from app.services.errors import Fault, Refusal, invalid
from dpmcmc.privacy import quotes
from dpmcmc.privacy.events import Compose, Event, Parallel

MAX_EVENTS = 1000  # all together: equal ones are better said by a `repeat`
MAX_MECHANISMS = 32  # distinct ones; each costs computing time, repetitions of one do not


def quoted(events: Sequence[Event], delta: float) -> dict[str, Any] | Fault:
    """Return `quote`, or the fault of the events. Runs in a planner process."""
    try:
        return quote(events, delta)
    except Refusal as refusal:
        return refusal.errors[0]
    except (ValueError, OverflowError):
        return Fault("/events", "These events cannot be composed.")


def quote(events: Sequence[Event], delta: float) -> dict[str, Any]:
    """Return the quote of composed events as JSON values; None: no finite bound.

    Raises EventError where they do not compose, ValueError where delta is none, Refusal 422 where
    there are too many events or distinct mechanisms among them.
    """
    if sum(1 for event in events for _ in _within(event)) > MAX_EVENTS:
        raise invalid("/events", f"There are more than {MAX_EVENTS} events, inner ones included.")
    if _mechanisms(events) > MAX_MECHANISMS:
        raise invalid("/events", f"There are more than {MAX_MECHANISMS} distinct mechanisms.")
    event = events[0] if len(events) == 1 else Compose(tuple(events))
    answer: dict[str, Any] = _finite(asdict(quotes.quote(event, delta)))
    return answer


def _directly_inside(event: Event) -> list[Event]:
    """Return the events directly inside an event."""
    inner = getattr(event, "events", None) or (getattr(event, "event", None),)
    return [event for event in inner if event is not None]


def _within(event: Event) -> Iterator[Event]:
    """Yield an event and all events inside it."""
    yield event
    for inner in _directly_inside(event):
        yield from _within(inner)


def _mechanisms(events: Sequence[Event]) -> int:
    """Return the number of distinct mechanisms, those of parallel parts counted separately."""
    within = [inner for event in events for inner in _within(event)]
    parts = [part for inner in within if isinstance(inner, Parallel) for part in inner.events]
    leaves = [{leaf for leaf in _within(part) if not _directly_inside(leaf)} for part in parts]
    return sum(map(len, leaves)) + len({inner for inner in within if not _directly_inside(inner)})


def _finite(value: Any) -> Any:
    """Return the value with None in place of infinities."""
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
