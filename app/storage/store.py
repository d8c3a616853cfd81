"""The interface of stores of encrypted files: a folder, or object storage.

Names are flat. A file is there in full or not at all, and is never overwritten. What is given to a
store is ciphertext already.
"""

from contextlib import AbstractContextManager
from typing import Protocol


class Sink(Protocol):
    """A writable binary stream."""

    def write(self, data: bytes, /) -> object:
        """Append data."""


class Source(Protocol):
    """A readable binary stream. size: of the whole file."""

    @property
    def size(self) -> int:
        """Size of the whole file in bytes."""

    def read(self, size: int, /) -> bytes:
        """Return the next `size` bytes, fewer only at the end."""

    def skip(self, size: int, /) -> None:
        """Leave out the next `size` bytes."""


class Store(Protocol):
    """A store of files. All methods raise StoreAwayError where it is unreachable.

    cheap_bytes: a file of so many bytes is read in a moment.
    """

    cheap_bytes: int

    def write(self, name: str) -> AbstractContextManager[Sink]:
        """Write a new file, complete at the end of the block or absent. Raises FileExistsError."""

    def read(self, name: str, start: int = 0) -> AbstractContextManager[Source]:
        """Open a file at a byte. Raises FileNotFoundError and FileRefusedError."""

    def delete(self, name: str) -> None:
        """Delete a file and every version of it. Idempotent.

        Raises VersionsKeptError where copies stay.
        """

    def sweep(self, wanted: set[str], suffix: str, older_than: float) -> int:
        """Delete files with the suffix that are not in `wanted`, and unfinished ones.

        older_than: Unix time; younger ones stay. Returns how many were deleted.
        """

    def check(self) -> None:
        """Check within seconds that the store is usable."""
