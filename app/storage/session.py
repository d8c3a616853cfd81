"""Sessions: the only way in for everybody above. Readers cannot write; SQLite's writers take turns.

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
    """Read and write sessions of one database. Make it after a fork, never share it across one."""

    def __init__(self, url: str | URL) -> None:
        self.engine: Engine = engine_for(url)
        self._reader: Engine = engine_for(url, writes=False)
        self._write = sessionmaker(self.engine, expire_on_commit=False)
        self._read = sessionmaker(self._reader, expire_on_commit=False)

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A read-only transaction on one consistent snapshot."""
        with self._read() as session, session.begin():
            yield session

    @contextmanager
    def write(self) -> Iterator[Session]:
        """A durable write transaction: the disk has it before others see it or the block is left.

        SQLite: BEGIN IMMEDIATE, one writer at a time. PostgreSQL: READ COMMITTED; lock what a
        decision rests on.
        """
        with self._write() as session, session.begin():
            yield session

    @cached_property
    def installation(self) -> UUID:
        """The id of this database's installation: made by whoever asks first, and read once."""
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
