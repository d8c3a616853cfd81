"""SQLite's write-ahead log: one process at a time gives it to a new file."""

import fcntl
import os
import sqlite3


def open_queue(database: str) -> int:
    """The lock file on which the writers of `database` queue, made where there is none."""
    return os.open(f"{database}-queue", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def use_wal(connection: sqlite3.Connection, database: str) -> None:
    """Have `connection` write ahead; wait for others that give the file its log just now.

    SQLite itself does not wait: it tells one of two that switch at once that the file is locked.
    Who holds the queue in order to write has switched before, so nobody waits for himself.
    """
    if connection.execute("PRAGMA journal_mode").fetchone() == ("wal",):
        return
    queue = open_queue(database)
    try:
        fcntl.flock(queue, fcntl.LOCK_EX)
        connection.execute("PRAGMA journal_mode=WAL")
    finally:
        os.close(queue)
