"""Compiled kernels, kept on disk under a key of everything that machine code is made of.

Numba looks for changes in the file of the function itself, but kernels inline functions and
constants of other files: a mended fault would go on running as old machine code. So every version
of the package, of the compiler and of Python has a folder of its own.
"""

import hashlib
import os
import platform
import shutil
import tempfile
from pathlib import Path

import llvmlite
import numba

PACKAGE = Path(__file__).resolve().parents[2]
CACHES_KEPT = 4  # folders of other versions that are left in place, the newest


def key_of(package: Path) -> str:
    """Return 32 hex digits that change with any character of the package's sources.

    All of them count, so that no list of what kernels inline can be out of date.
    """
    digest = hashlib.sha256()
    versions = (numba.__version__, llvmlite.__version__, platform.python_version())
    digest.update(repr(versions).encode())
    for path in sorted(package.rglob("*.py")):
        digest.update(path.relative_to(package).as_posix().encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:32]


def cache_folder() -> Path:
    """Return a folder that can be written to, for this version alone.

    Below NUMBA_CACHE_DIR, else below the user's cache; where neither can be written to, one that
    this process alone uses.
    """
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dpmcmc"
    folder = Path(numba.config.CACHE_DIR or home) / key_of(PACKAGE)  # type: ignore[attr-defined]
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(folder)
    except OSError:
        return Path(tempfile.mkdtemp(prefix="dpmcmc-kernels-"))
    os.utime(folder)
    _forget(folder)
    return folder


def _forget(current: Path) -> None:
    """Delete what older versions have left, but for the newest few: somebody may still run them."""
    names = [path for path in current.parent.iterdir() if len(path.name) == len(current.name)]
    others = [path for path in names if path != current and path.is_dir()]
    for path in sorted(others, key=lambda path: path.stat().st_mtime, reverse=True)[CACHES_KEPT:]:
        shutil.rmtree(path, ignore_errors=True)


numba.config.CACHE_DIR = str(cache_folder())  # type: ignore[attr-defined]
