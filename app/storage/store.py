"""Where the encrypted files lie: what a folder and an object store both do.

Names are flat. A file is there in full or not at all, and is never overwritten. What is given to a
store is ciphertext already.
"""

from contextlib import AbstractContextManager
from typing import Protocol


class Sink(Protocol):
    """Takes bytes."""

    def write(self, data: bytes, /) -> object:
        """Append."""


class Source(Protocol):
    """Gives bytes. size: of the whole file, wherever reading began."""

    @property
    def size(self) -> int:
        """Of the whole file."""

    def read(self, size: int, /) -> bytes:
        """The next bytes: as many as asked for, fewer only at the end."""


class Store(Protocol):
    """A place for files. All of it raises StoreAwayError where the place cannot be reached.

    cheap_bytes: a file of so many bytes is read in a moment.
    """

    cheap_bytes: int

    def write(self, name: str) -> AbstractContextManager[Sink]:
        """A new file: there once the block is left, or nothing is. Raises FileExistsError."""

    def read(self, name: str, start: int = 0) -> AbstractContextManager[Source]:
        """A file's content from a byte on. Raises FileNotFoundError and FileRefusedError."""

    def delete(self, name: str) -> None:
        """Delete a file and every copy of it that the place keeps. Idempotent.

        Raises VersionsKeptError where copies stay.
        """

    def sweep(self, wanted: set[str], suffix: str, older_than: float) -> int:
        """Delete files with the suffix that nobody wants, and what was never finished.

        older_than: Unix time; younger ones stay. Returns how many were deleted.
        """

    def check(self) -> None:
        """Look, within a few seconds, whether the place can be used."""
