"""Reading and writing the audit trail of administrative acts."""

from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from app import ledger
from app.ledger.audit import Act, AuditEntry
from app.services.accounts.caller import Caller
from app.services.context import Services
from app.services.cursors import Page, by_number, encode


def note(
    session: Session,
    caller: Caller | None,
    action: str,
    subject_id: UUID | None = None,
    *,
    user_id: UUID | None = None,
    **details: Any,
) -> None:
    """Record an act (caller None: of the service), as the transaction's last statement."""
    act = Act(
        action=action,
        actor_id=caller.id if caller else None,
        key_id=caller.key_id if caller else None,
        address=caller.address if caller else None,
        subject_id=subject_id,
        user_id=user_id,
        details=details,
    )
    ledger.audit.record(session, act)


def entries(
    services: Services, limit: int, cursor: str | None, action: str | None = None
) -> Page[AuditEntry]:
    """Return a page of the trail, oldest first. action: filter by one action."""
    after = by_number(cursor)
    with services.sessions.read() as session:
        rows = ledger.audit.entries(session, after, limit + 1, action)
    more = encode(rows[limit - 1].seq) if len(rows) > limit else None
    return Page(rows[:limit], more)


def verify(
    services: Services, caller: Caller, anchor: tuple[int, str] | None
) -> ledger.Verification:
    """Verify the trail's hash chain; the verification is recorded in it."""
    with services.sessions.read() as session:
        verification = ledger.audit.verify(session, anchor)
    with services.sessions.write() as session:
        note(session, caller, "audit.verify", ok=verification.ok, rows=verification.rows)
    return verification
