"""Advisory locks that are held until the transaction ends.

PostgreSQL: an advisory lock. SQLite: nothing, since there is one writer.
"""

from sqlalchemy import text
from sqlalchemy.orm import Session

AUDIT, UPLOADS = 0x64706D617564, 0x64706D75706C
_LOCK = text("SELECT pg_advisory_xact_lock(:lock)")


def take(session: Session, lock: int) -> None:
    """Acquire a lock, waiting for it."""
    if session.get_bind().dialect.name == "postgresql":
        session.execute(_LOCK, {"lock": lock})
