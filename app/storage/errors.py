"""Errors of storage. No message contains a value of a row."""

import errno

from sqlalchemy.exc import DBAPIError

FULL = (errno.ENOSPC, errno.EDQUOT)
SQLITE_FULL, POSTGRESQL_FULL = 13, "53100"


class IngestError(ValueError):
    """An upload is invalid. Shown only to the admin who uploads.

    code: stable snake_case word. pointer: JSON pointer into the metadata, or "/file".
    problems: every (pointer, message) found, the first one being this error's own; messages hold
    counts and declared names only.
    """

    def __init__(
        self,
        code: str,
        pointer: str,
        message: str,
        problems: tuple[tuple[str, str], ...] = (),
    ) -> None:
        super().__init__(f"{code} at {pointer}: {message}")
        self.code = code
        self.pointer = pointer
        self.message = message
        self.problems = problems or ((pointer, message),)


class SourceError(RuntimeError):
    """A source cannot be read. For its admin; without address, credentials or values.

    code: not_offered, source_unavailable, source_changed or stopped. pointer: below the source in
    the request's body. reason: a type of failure for the log, beyond the message.
    """

    def __init__(self, code: str, pointer: str, message: str, reason: str = "") -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.pointer = pointer
        self.message = message
        self.reason = reason or message


class DatasetFileError(RuntimeError):
    """An encrypted file is missing, truncated, modified, or of another dataset or schema."""


class StoreError(RuntimeError):
    """The store of encrypted files failed.

    reason: a type of failure or the store's own code for it; nothing of a file's content.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class StoreAwayError(StoreError):
    """The store is unreachable, full or refuses access: retry, no partial result exists."""


class StoreFullError(StoreAwayError):
    """The disk of the store is full."""

    def __init__(self) -> None:
        super().__init__("the disk is full")


def is_full(error: BaseException) -> bool:
    """Return whether an error means that a disk is full."""
    if isinstance(error, DBAPIError):
        code = getattr(error.orig, "sqlite_errorcode", None)
        return code == SQLITE_FULL or getattr(error.orig, "sqlstate", None) == POSTGRESQL_FULL
    return isinstance(error, StoreFullError) or getattr(error, "errno", None) in FULL


class FileRefusedError(StoreError):
    """The store is reachable but refuses or cannot deliver one file."""


class VersionsKeptError(StoreError):
    """A file is deleted, but the store keeps older versions that we may not delete."""
