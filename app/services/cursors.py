"""Pagination: a cursor encodes where the next page begins."""

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar
from uuid import UUID

from sqlalchemy import Select, tuple_
from sqlalchemy.orm import InstrumentedAttribute, Session

from app.services.errors import invalid

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    """One page. next_cursor: None on the last one."""

    items: Sequence[Item]
    next_cursor: str | None


def encode(*parts: object) -> str:
    """Return an opaque cursor."""
    return base64.urlsafe_b64encode("|".join(map(str, parts)).encode()).decode().rstrip("=")


def decode(cursor: str, parts: int) -> list[str]:
    """Return the parts of a cursor. Raises Refusal 422 where it is invalid."""
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        held = base64.b64decode(padded.encode("ascii"), altchars=b"-_", validate=True).decode()
    except (ValueError, binascii.Error):
        raise invalid("/query/cursor", "This is not a cursor of this list.") from None
    parts_held = held.split("|")
    if len(parts_held) != parts:
        raise invalid("/query/cursor", "This is not a cursor of this list.")
    return parts_held


def by_time(
    session: Session,
    query: Select[Item],
    created_at: InstrumentedAttribute[datetime],
    key: InstrumentedAttribute[UUID],
    limit: int,
    cursor: str | None,
) -> Page[Item]:
    """Return a page of rows, newest first."""
    if cursor is not None:
        query = query.where(tuple_(created_at, key) < tuple_(*_position(cursor)))
    rows = list(session.scalars(query.order_by(created_at.desc(), key.desc()).limit(limit + 1)))
    if len(rows) <= limit:
        return Page(rows, None)
    last = rows[limit - 1]
    return Page(rows[:limit], encode(getattr(last, created_at.key), getattr(last, key.key)))


def _position(cursor: str) -> tuple[datetime, UUID]:
    """Return the creation time and id in a cursor."""
    moment, key = decode(cursor, 2)
    try:
        at, key_id = datetime.fromisoformat(moment), UUID(key)
        if at.tzinfo is None:
            raise ValueError("naive")
    except ValueError:
        raise invalid("/query/cursor", "This is not a cursor of this list.") from None
    return at, key_id


def by_number(cursor: str | None) -> int:
    """Return the number in a cursor of a numbered list; 0 without a cursor."""
    if cursor is None:
        return 0
    (held,) = decode(cursor, 1)
    if not (held.isascii() and held.isdigit() and len(held) < 16):
        raise invalid("/query/cursor", "This is not a cursor of this list.")
    return int(held)
