"""Python's garbage collector, which stops every thread of a process while it looks."""

import gc


def spare_what_is_loaded() -> None:
    """Have the collector leave alone what is there by now: modules, mostly, which stay anyway.

    A full collection looked through all of them, for a tenth of a second, and nobody was answered.
    """
    gc.collect()
    gc.freeze()
