"""Refusals of requests: a stable code, a fixed sentence, and the faults of the body.

No refusal is ever a function of private rows, apart from an upload's, which only its admin sees.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a request. pointer: JSON pointer into its body."""

    pointer: str
    message: str


@dataclass(slots=True)
class Refusal(Exception):  # noqa: N818 - an answer, not an error
    """A request is refused. status: HTTP status. extra: further public members."""

    status: int
    code: str
    detail: str
    errors: Sequence[Fault] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.code


def not_found(what: str) -> Refusal:
    """Return Refusal 404: it does not exist, or the caller may not see it."""
    return Refusal(404, "not_found", f"There is no such {what}.")


def invalid(pointer: str, message: str) -> Refusal:
    """Return Refusal 422 with one fault."""
    return Refusal(422, "invalid_request", "The request is not valid.", [Fault(pointer, message)])
