"""The price list: what mechanisms cost in every notion of differential privacy."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from app.jobs.errors import invalid
from dpmcmc.privacy import accountant
from dpmcmc.privacy.events import Compose, Event

MAX_MECHANISMS = 32  # distinct ones; each costs computing time, repetitions of one do not


def quote(events: Sequence[Event], delta: float) -> dict[str, Any]:
    """Quote events one after the other. JSON-able; None stands for what has no finite bound.

    Raises EventError where they do not compose, ValueError where delta is none, Refusal 422 where
    there are too many distinct mechanisms among them.
    """
    if len(_mechanisms(events)) > MAX_MECHANISMS:
        raise invalid("/events", f"There are more than {MAX_MECHANISMS} distinct mechanisms.")
    event = events[0] if len(events) == 1 else Compose(tuple(events))
    made: dict[str, Any] = _finite(asdict(accountant.quote(event, delta)))
    return made


def _mechanisms(events: Sequence[Event]) -> set[Event]:
    """The distinct events that hold no other event."""
    found: set[Event] = set()
    for event in events:
        inner = getattr(event, "events", None) or (getattr(event, "event", None),)
        held = [one for one in inner if one is not None]
        found |= _mechanisms(held) if held else {event}
    return found


def _finite(value: Any) -> Any:
    """The value with null in place of infinities."""
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
