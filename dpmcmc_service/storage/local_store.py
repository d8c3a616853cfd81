"""Encrypted files in a folder."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dpmcmc_service.storage.durable import TEMPORARY, durable_file, sync_folder
from dpmcmc_service.storage.errors import StoreAwayError
from dpmcmc_service.storage.store import Sink, Source


@contextmanager
def _works() -> Iterator[None]:
    """What the disk refuses, without what it was asked. The name alone is told apart."""
    try:
        yield
    except (FileNotFoundError, FileExistsError):
        raise
    except OSError as error:
        why = errno.errorcode.get(error.errno or 0, "unknown")
        raise StoreAwayError(f"the folder of datasets failed: {why}") from None


class LocalStore:
    """A folder, readable for its owner only. Files appear under their name when they are whole."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    @contextmanager
    def write(self, name: str) -> Iterator[Sink]:
        """Write a new file beside its name, and move it there when it is whole."""
        with _works(), durable_file(self._folder / name, overwrite=False) as file:
            yield file

    @contextmanager
    def read(self, name: str) -> Iterator[Source]:
        """Open a file."""
        with _works(), (self._folder / name).open("rb") as file:
            yield file

    def delete(self, name: str) -> None:
        """Delete a file, and have the folder's entry on the disk."""
        with _works():
            (self._folder / name).unlink(missing_ok=True)
            sync_folder(self._folder)

    def sweep(self, wanted: set[str], suffix: str, older_than: float) -> int:
        """Delete old files that nobody wants, temporary ones as well."""
        deleted = 0
        with _works():
            for path in self._folder.iterdir():
                ours = path.name.endswith((suffix, TEMPORARY)) and path.name not in wanted
                if ours and path.stat().st_mtime < older_than:
                    path.unlink(missing_ok=True)
                    deleted += 1
        return deleted

    def check(self) -> None:
        """Raise StoreAwayError where the folder cannot be written to."""
        if not os.access(self._folder, os.W_OK):
            raise StoreAwayError("the folder of datasets cannot be written to")
