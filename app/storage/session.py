"""Database sessions: read-only snapshots, and serialised durable writes.

A use case opens one session, and the `with` block is its one transaction: committed at the end,
rolled back on any error. Nothing below the use cases commits.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from uuid import UUID, uuid4

from sqlalchemy import Engine, select
from sqlalchemy.engine import URL
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session, sessionmaker

from app.storage.engine import engine_for
from app.storage.rows import InstallationRow


class SessionFactory:
    """Read and write sessions of one database. Create it after a fork."""

    def __init__(self, url: str | URL) -> None:
        self.engine: Engine = engine_for(url)
        self._reader: Engine = engine_for(url, writes=False)
        self._write = sessionmaker(self.engine, expire_on_commit=False)
        self._read = sessionmaker(self._reader, expire_on_commit=False)

    @contextmanager
    def read(self) -> Iterator[Session]:
        """Yield a read-only transaction on a consistent snapshot."""
        with self._read() as session, session.begin():
            yield session

    @contextmanager
    def write(self) -> Iterator[Session]:
        """Yield a write transaction, durable when the block ends.

        SQLite: BEGIN IMMEDIATE, one writer at a time. PostgreSQL: READ COMMITTED; lock what a
        decision rests on.
        """
        with self._write() as session, session.begin():
            yield session

    @cached_property
    def installation(self) -> UUID:
        """Return the installation's id, created at first use and cached."""
        known = select(InstallationRow.id)
        with self.read() as session:
            identifier = session.scalar(known)
        if identifier is not None:
            return identifier
        with suppress(IntegrityError), self.write() as session:  # somebody was faster
            session.add(InstallationRow(id=uuid4()))
        with self.read() as session:
            return session.scalars(known).one()

    def dispose(self) -> None:
        """Close every connection."""
        for engine in (self.engine, self._reader):
            engine.dispose()
