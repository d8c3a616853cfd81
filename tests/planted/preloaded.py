"""A process that has imported what no bug is in, and forks for each run of pytest.

It is run as a script by `runner`, so that nothing of the tree that it lies in is imported: a fork
imports the project from the tree that it is given. Each line that it reads is a JSON object with
that tree, pytest's arguments, the environment and the seconds that the run may take. It answers
each by a line with the exit code, or with `late`. What pytest says is in `said.txt` of the tree.
"""

import contextlib
import importlib
import json
import os
import signal
import sys
import time

MODULES = (
    *("pytest", "numpy", "numba", "scipy.stats", "scipy.optimize", "scipy.special", "scipy.linalg"),
    *("hypothesis", "cryptography.hazmat.primitives.ciphers", "formulaic", "xarray", "dacite"),
    *("fastapi", "pydantic_settings", "sqlalchemy.orm", "alembic", "httpx", "celery", "pyarrow"),
)


def main() -> None:
    """Answer until there are no more lines."""
    sys.path.pop(0)  # the folder of this file
    for name in MODULES:
        importlib.import_module(name)
    for line in sys.stdin:
        asked = json.loads(line)
        child = os.fork()
        if child == 0:
            run(**asked)
        sys.stdout.write(f"{waited(child, asked['seconds'])}\n")
        sys.stdout.flush()


def run(tree: str, words: list[str], environment: dict[str, str], seconds: float) -> None:
    """Become a run of pytest in a tree."""
    import numba
    import pytest

    os.setsid()
    os.chdir(tree)
    said = os.open("said.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for opened, standard in ((nothing, 0), (said, 1), (said, 2)):
        os.dup2(opened, standard)
    os.environ.update(environment)
    numba.config.reload_config()
    sys.path.insert(0, tree)
    code = 3  # pytest's own fault, where main raises
    try:
        code = int(pytest.main(words))
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def waited(child: int, seconds: float) -> int | str:
    """Return the exit code of a run, or `late` after these seconds. All that it started ends."""
    deadline, code = time.monotonic() + seconds, None
    while code is None and time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
        else:
            time.sleep(0.01)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    if code is None:
        os.waitpid(child, 0)
    return "late" if code is None else code


if __name__ == "__main__":
    main()
