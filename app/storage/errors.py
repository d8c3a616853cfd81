"""What storage refuses. No message holds a value of a row."""

import errno

from sqlalchemy.exc import DBAPIError

FULL = (errno.ENOSPC, errno.EDQUOT)
SQLITE_FULL, POSTGRESQL_FULL = 13, "53100"


class IngestError(ValueError):
    """An upload that cannot be taken. Shown to the admin who uploads, and to nobody else.

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
    """A source cannot be read. For its admin; it holds no address, credential or value.

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
    """An encrypted file is missing, cut, changed, or of another dataset or schema."""


class StoreError(RuntimeError):
    """The place of the encrypted files did not do what it was asked.

    reason: a type of failure or the store's own code for it; nothing of a file's content.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class StoreAwayError(StoreError):
    """It cannot be reached, is full or refuses us: worth trying again, nothing is half done."""


class StoreFullError(StoreAwayError):
    """There is no room left where files are kept."""

    def __init__(self) -> None:
        super().__init__("the disk is full")


def is_full(error: BaseException) -> bool:
    """Whether an error of a file or of the database says that a disk is full."""
    if isinstance(error, DBAPIError):
        code = getattr(error.orig, "sqlite_errorcode", None)
        return code == SQLITE_FULL or getattr(error.orig, "sqlstate", None) == POSTGRESQL_FULL
    return isinstance(error, StoreFullError) or getattr(error, "errno", None) in FULL


class FileRefusedError(StoreError):
    """The place can be reached and does not give one of its files: closed to us, or broken."""


class VersionsKeptError(StoreError):
    """A file is deleted, but its place keeps older versions that it does not let us delete."""
