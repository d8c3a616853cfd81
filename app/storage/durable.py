"""Atomic, durable files: complete or absent, also after a power failure."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

TEMPORARY = ".part"


def sync_folder(folder: Path) -> None:
    """Sync a folder's entries to disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _create(path: Path) -> int:
    """Create a new file of mode 0600, and return its descriptor."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)


@contextmanager
def durable_file(path: Path, *, overwrite: bool = True) -> Iterator[BinaryIO]:
    """Write a file (mode 0600) that appears once all of it is on disk.

    On an error nothing is left. overwrite=False: raises FileExistsError where the name is taken,
    also by somebody who was faster.
    """
    temporary = path.with_name(f"{path.name}.{uuid4().hex}{TEMPORARY}")
    handle = _create(temporary)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if overwrite:
            os.replace(temporary, path)
        else:
            os.link(temporary, path)
        sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)
