"""The database's clock: the one that all processes share."""

from datetime import UTC, datetime

from sqlalchemy import text
from sqlalchemy.orm import Session

SQLITE = text("SELECT strftime('%Y-%m-%dT%H:%M:%f', 'now')")
POSTGRESQL = text("SELECT clock_timestamp()")


def database_now(session: Session) -> datetime:
    """Return the present time of the database, in UTC."""
    if session.get_bind().dialect.name == "sqlite":
        return datetime.fromisoformat(str(session.scalar(SQLITE))).replace(tzinfo=UTC)
    moment: datetime = session.scalars(POSTGRESQL).one()
    return moment.astimezone(UTC)
