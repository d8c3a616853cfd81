"""A store of encrypted files in a local folder."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from stat import S_ISREG
from typing import BinaryIO

from app.storage.durable import TEMPORARY, durable_file, sync_folder
from app.storage.errors import FileRefusedError, StoreAwayError, StoreFullError, is_full
from app.storage.store import Sink, Source

OF_ONE_FILE = frozenset({errno.EACCES, errno.EPERM, errno.EISDIR, errno.ELOOP, errno.EIO})
CHEAP_BYTES = 2**29


@contextmanager
def _works() -> Iterator[None]:
    """Translate OSErrors into store errors, without paths."""
    try:
        yield
    except (FileNotFoundError, FileExistsError):
        raise
    except OSError as error:
        if is_full(error):
            raise StoreFullError from None
        why = errno.errorcode.get(error.errno or 0, "unknown")
        raise StoreAwayError(f"the folder of datasets failed: {why}") from None


class _File:
    """An open file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        about = os.fstat(file.fileno())
        if not S_ISREG(about.st_mode):
            raise IsADirectoryError(errno.EISDIR, "not a file")
        self.size = about.st_size

    def read(self, size: int, /) -> bytes:
        """Return the next bytes."""
        return self._file.read(size)

    def skip(self, size: int, /) -> None:
        """Leave out the next bytes."""
        self._file.seek(size, os.SEEK_CUR)


def _without_waiting(path: str, flags: int) -> int:
    """Open a path without blocking, even where it is a pipe."""
    return os.open(path, flags | os.O_NONBLOCK)


class LocalStore:
    """A folder readable by its owner only. Files appear once they are complete."""

    cheap_bytes = CHEAP_BYTES

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    @contextmanager
    def write(self, name: str) -> Iterator[Sink]:
        """Write a new file beside its name, and rename it once complete."""
        with _works(), durable_file(self._folder / name, overwrite=False) as file:
            yield file

    @contextmanager
    def read(self, name: str, start: int = 0) -> Iterator[Source]:
        """Open a file at a byte offset."""
        with _works():
            try:
                with open(self._folder / name, "rb", opener=_without_waiting) as file:
                    opened = _File(file)
                    file.seek(start)
                    yield opened
            except OSError as error:
                if error.errno in OF_ONE_FILE:
                    why = errno.errorcode[error.errno]
                    raise FileRefusedError(f"a file of the folder failed: {why}") from None
                raise

    def delete(self, name: str) -> None:
        """Delete a file, and sync the folder."""
        with _works():
            (self._folder / name).unlink(missing_ok=True)
            sync_folder(self._folder)

    def sweep(self, wanted: set[str], suffix: str, older_than: float) -> int:
        """Delete old files that are not in `wanted`, temporary ones included."""
        deleted = 0
        with _works():
            for path in self._folder.iterdir():
                ours = path.name.endswith((suffix, TEMPORARY)) and path.name not in wanted
                if ours and path.stat().st_mtime < older_than:
                    path.unlink(missing_ok=True)
                    deleted += 1
        return deleted

    def check(self) -> None:
        """Raise StoreAwayError where the folder is not writable."""
        if not os.access(self._folder, os.W_OK):
            raise StoreAwayError("the folder of datasets cannot be written to")
