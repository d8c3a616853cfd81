"""Sessions: the only way in for everybody above. Readers cannot write; SQLite's writers take turns.

A use case opens one session, and the `with` block is its one transaction: committed at the end,
rolled back on any error. Nothing below the use cases commits.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager

from sqlalchemy import Engine
from sqlalchemy.engine import URL
from sqlalchemy.orm import Session, sessionmaker

from app.storage.direct import Direct, direct_on
from app.storage.engine import EARLY_RELEASE, direct_engine_for, engine_for, sync_log
from app.storage.prepared import execute

_COMMIT_AND_FLUSH_LOG = "COMMIT; SELECT pg_logical_emit_message(true, 'dpmcmc', '')"


class SessionFactory:
    """Read and write sessions of one database. Make it after a fork, never share it across one."""

    def __init__(self, url: str | URL) -> None:
        self.engine: Engine = engine_for(url)
        self._reader: Engine = engine_for(url, writes=False)
        self._direct: Engine = direct_engine_for(url, self.engine)
        self._write = sessionmaker(self.engine, expire_on_commit=False)
        early = self.engine.execution_options(**{EARLY_RELEASE: True})
        told = {EARLY_RELEASE: early.dialect.name == "postgresql"}
        self._debit = sessionmaker(early, expire_on_commit=False, info=told)
        self._read = sessionmaker(self._reader, expire_on_commit=False)

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A read-only transaction on one consistent snapshot."""
        with self._read() as session, session.begin():
            yield session

    @contextmanager
    def write(self) -> Iterator[Session]:
        """A durable write transaction: once the block is left, the disk has it.

        SQLite: BEGIN IMMEDIATE, one writer at a time. PostgreSQL: READ COMMITTED; lock what a
        decision rests on.
        """
        with self._write() as session, session.begin():
            yield session

    @contextmanager
    def debit(self) -> Iterator[Session]:
        """`write`, for transactions that debit a ledger: others need not wait for this disk.

        Locks are given back when the commit is in the log but not yet on the disk; the block is
        left only once the disk has it. Later commits lie later in the same log, so a crash loses a
        suffix that nobody was told of, as it would without this. Do not store or show releases in
        one: others can see a commit here that a crash still takes back. See docs/adr/0005.
        """
        with self._debit() as session, session.begin():
            yield session
            if session.info[EARLY_RELEASE]:
                _commit_and_flush_log(session)
        if self.engine.dialect.name == "sqlite":
            sync_log(self.engine)

    @contextmanager
    def direct(self) -> Iterator[Direct]:
        """`debit`, without a session: for submissions, which all wait for the same row."""
        with closing(self._direct.raw_connection()) as connection:
            transaction = direct_on(self._direct, connection)
            yield transaction
            transaction.commit()
        if self.engine.dialect.name == "sqlite":
            sync_log(self.engine)

    def dispose(self) -> None:
        """Close every connection."""
        for engine in (self.engine, self._reader, self._direct):
            engine.dispose()


def _commit_and_flush_log(session: Session) -> None:
    """PostgreSQL: commit, then wait until the disk has every commit so far, in one round trip.

    The second statement is a transaction of its own that writes nothing but to the log, and whose
    commit is synchronous again.
    """
    session.flush()
    done = execute(session.connection(), _COMMIT_AND_FLUSH_LOG)
    if done.statusmessage != "COMMIT":
        raise RuntimeError("the transaction had failed before its commit")
