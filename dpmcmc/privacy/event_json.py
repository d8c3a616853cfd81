"""Events as JSON, stored in the ledger, and the digest that a permit refers to."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import MISSING, asdict
from dataclasses import fields as fields_of
from typing import Any

from dpmcmc.privacy.events import KINDS, MAX_DEPTH, Event, EventError, check, check_kind

_BY_NAME = {kind.__dataclass_fields__["kind"].default: kind for kind in KINDS}


def as_dict(event: Event) -> dict[str, Any]:
    """Return the event as JSON values, with its `kind`. Raises EventError on anything else."""
    check_kind(event)
    return asdict(event)


def from_dict(values: Mapping[str, Any]) -> Event:
    """Return the event that `as_dict` wrote. Raises EventError on an unknown kind or field."""
    return _from_dict(values, 0)


def _from_dict(values: object, depth: int) -> Event:
    """Return the event of a JSON object at this nesting depth."""
    check(depth <= MAX_DEPTH, f"events nest at most {MAX_DEPTH} deep")
    check(isinstance(values, Mapping), "an event is an object with a kind")
    fields = dict(values)  # type: ignore[call-overload]
    kind = _BY_NAME.get(str(fields.pop("kind", None)))
    if kind is None:
        raise EventError("unknown kind of event", "/kind")
    _check_fields(kind, fields)
    if "event" in fields:
        fields["event"] = _inner(fields["event"], depth, "/event")
    if "events" in fields:
        several = fields["events"]
        check(isinstance(several, list | tuple), "events must be a list", "/events")
        fields["events"] = tuple(
            _inner(event, depth, f"/events/{at}") for at, event in enumerate(several)
        )
    event: Event = kind(**fields)
    return event


def _inner(values: object, depth: int, pointer: str) -> Event:
    """Return a nested event. Raises EventError with its pointer."""
    try:
        return _from_dict(values, depth + 1)
    except EventError as error:
        raise EventError(str(error), pointer + error.pointer) from None


def _check_fields(kind: type[Any], given: Mapping[str, Any]) -> None:
    """Refuse fields that this kind of event lacks, and missing fields that it needs."""
    known = {field.name: field for field in fields_of(kind) if field.name != "kind"}
    for name in given:
        escaped = str(name).replace("~", "~0").replace("/", "~1")
        check(name in known, "this kind of event has no such field", f"/{escaped}")
    for name, field in known.items():
        check(name in given or field.default is not MISSING, "is needed", f"/{name}")


def digest(event: Event) -> str:
    """Return the SHA-256 (hex) of the event's canonical JSON: sorted keys, no spaces."""
    canonical = json.dumps(as_dict(event), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()
