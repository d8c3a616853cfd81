"""SQLite's write-ahead log mode, set by one process at a time."""

import contextlib
import fcntl
import os
import sqlite3
import stat


def open_queue(database: str) -> int:
    """Open the lock file that queues writers of a database, creating it if missing."""
    return os.open(f"{database}-queue", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def private(database: str) -> None:
    """Restrict a database file and its log to their owner, whatever the umask.

    SQLite gives a new log the mode of the file beside it.
    """
    # Only what is not there yet is opened: closing any handle of a file drops the locks that SQLite
    # holds on it in this process, and the next one to leave would delete the log from under us.
    with contextlib.suppress(FileNotFoundError, FileExistsError):  # its folder is not there yet
        os.close(os.open(database, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    for file in (database, f"{database}-wal", f"{database}-shm"):
        with contextlib.suppress(FileNotFoundError, PermissionError):
            if stat.S_IMODE(os.stat(file).st_mode) & 0o077:
                os.chmod(file, 0o600)


def use_wal(connection: sqlite3.Connection, database: str) -> None:
    """Switch a connection to write-ahead logging, waiting for concurrent switches.

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
