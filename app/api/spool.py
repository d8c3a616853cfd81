"""Temporary encrypted files for uploads in progress; the key is only in memory."""

import io
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

from app.storage.errors import StoreFullError, is_full

BLOCK = 16


@contextmanager
def _room() -> Iterator[None]:
    """Translate a full disk into Refusal 507."""
    try:
        yield
    except OSError as error:
        if is_full(error):
            raise StoreFullError from None
        raise


class Spool(io.RawIOBase):
    """A seekable temporary file, encrypted under a key in memory.

    AES-256-CTR under a fresh key for each spool. Written from start to end, then read anywhere.
    Raises StoreFullError where the disk has no room.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        super().__init__()
        with _room():
            self._file: IO[bytes] = tempfile.TemporaryFile(  # noqa: SIM115 - closed by `close`
                dir=folder, buffering=0
            )
        self._key = os.urandom(32)
        self._writer = self._stream(0)
        self._at = 0
        self.size = 0

    def _stream(self, block: int) -> Any:
        """Return the cipher positioned at a block."""
        counter = block.to_bytes(BLOCK, "big")
        return Cipher(AES(self._key), CTR(counter)).encryptor()

    def write(self, data: Any, /) -> int:
        """Append data."""
        sealed = self._writer.update(bytes(data))
        with _room():
            while sealed:
                sealed = sealed[self._file.write(sealed) :]
        self.size += len(data)
        return len(data)

    def readinto(self, buffer: Any, /) -> int:
        """Read into a buffer from the current position."""
        offset = self._at % BLOCK
        sealed = os.pread(self._file.fileno(), len(buffer), self._at)
        stream = self._stream(self._at // BLOCK)
        stream.update(bytes(offset))
        buffer[: len(sealed)] = stream.update(sealed)
        self._at += len(sealed)
        return len(sealed)

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Set the position of the next read."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def tell(self) -> int:
        """Return the position of the next read."""
        return self._at

    def readable(self) -> bool:
        """Return True."""
        return True

    def writable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def close(self) -> None:
        """Delete the key and the file."""
        if not self.closed:
            self._key = b""
            self._file.close()
        super().close()
