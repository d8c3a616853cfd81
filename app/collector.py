"""Settings of Python's garbage collector, which pauses every thread of a process."""

import gc

# by how many more objects are made than freed before young ones are looked through; at Python's own
# 700 that took a twentieth of the API's time under load
YOUNG = 10_000


def spare_what_is_loaded() -> None:
    """Exclude loaded modules from garbage collection, since they stay loaded; collect less often.

    A full collection looked through all of them, for a tenth of a second, and nobody was answered.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG)
