"""Settings of Python's garbage collector, which pauses every thread of a process."""

import gc


def spare_what_is_loaded() -> None:
    """Exclude loaded modules from garbage collection, since they stay loaded.

    A full collection looked through all of them, for a tenth of a second, and nobody was answered.
    """
    gc.collect()
    gc.freeze()
