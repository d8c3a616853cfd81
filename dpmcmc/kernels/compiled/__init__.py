"""Compiled kernels, cached on disk under a key of all sources, the compiler and Python.

Numba detects changes in the file of the function itself, but kernels inline functions and constants
of other files, so that a changed source could still run as old machine code. So every version of
the package, of the compiler and of Python has its own folder.
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
    """Return 32 hex digits that depend on every character of the package's sources."""
    digest = hashlib.sha256()
    versions = (numba.__version__, llvmlite.__version__, platform.python_version())
    digest.update(repr(versions).encode())
    for path in sorted(package.rglob("*.py")):
        digest.update(path.relative_to(package).as_posix().encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:32]


def cache_folder() -> Path:
    """Return a writable folder for this version alone.

    It is in NUMBA_CACHE_DIR, else in the user's cache; if neither is writable, a temporary one.
    """
    user_cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dpmcmc"
    folder = Path(numba.config.CACHE_DIR or user_cache) / key_of(PACKAGE)  # type: ignore[attr-defined]
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
    """Delete the folders of other versions except the newest few, which may still be in use."""
    names = [path for path in current.parent.iterdir() if len(path.name) == len(current.name)]
    others = [path for path in names if path != current and path.is_dir()]
    for path in sorted(others, key=lambda path: path.stat().st_mtime, reverse=True)[CACHES_KEPT:]:
        shutil.rmtree(path, ignore_errors=True)


numba.config.CACHE_DIR = str(cache_folder())  # type: ignore[attr-defined]
