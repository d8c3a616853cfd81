"""Large packages that are imported when they are first needed, one thread at a time.

They import each other in circles, and of two threads that import them at once one may find a module
half made.
"""

import threading
from importlib import import_module
from typing import Any

_ONE_AT_A_TIME = threading.RLock()


def loaded(name: str) -> Any:
    """Return a module, imported where it was not."""
    with _ONE_AT_A_TIME:
        return import_module(name)
