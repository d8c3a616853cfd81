"""The price list: what mechanisms cost in every notion of differential privacy."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from dpmcmc.privacy import accountant
from dpmcmc.privacy.events import Compose, Event


def quote(events: Sequence[Event], delta: float) -> dict[str, Any]:
    """Quote events one after the other. JSON-able; None stands for what has no finite bound.

    Raises EventError where they do not compose, ValueError where delta is none.
    """
    event = events[0] if len(events) == 1 else Compose(tuple(events))
    made: dict[str, Any] = _finite(asdict(accountant.quote(event, delta)))
    return made


def _finite(value: Any) -> Any:
    """The value with null in place of infinities."""
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
