"""Import large packages when they are first needed, one thread at a time.

Such packages import each other in circles: with two threads at once, one may see a module that is
not complete.
"""

import threading
from importlib import import_module
from typing import Any

_ONE_AT_A_TIME = threading.RLock()


def loaded(name: str) -> Any:
    """Return a module, and import it first if necessary."""
    with _ONE_AT_A_TIME:
        return import_module(name)
