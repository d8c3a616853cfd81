"""How far a run is, on a terminal: from the steps that are done and the clock alone."""

import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any

LEAST_SECONDS = 2.0  # what takes less shows nothing
WIDTH = 30


def shown(blocks: Iterable[Any], steps: int, seconds: float, wanted: bool | None) -> Iterator[Any]:
    """Yield blocks, whose values are (chain, draw, ...), and draw a bar on stderr meanwhile.

    steps: draws of each chain in all. seconds: how long the run is expected to take. wanted: None
    where a bar is drawn on terminals alone, and for long runs alone.
    """
    if wanted is None:
        wanted = seconds > LEAST_SECONDS and sys.stderr.isatty()
    done, began = 0, time.monotonic()
    for block in blocks:
        yield block
        done += block.value.shape[1]
        if wanted:
            sys.stderr.write("\r" + _bar(done / steps, time.monotonic() - began))
            sys.stderr.flush()
    if wanted:
        sys.stderr.write("\n")


def _bar(share: float, elapsed: float) -> str:
    full = round(WIDTH * share)
    left = elapsed * (1.0 / share - 1.0)
    return f"[{'#' * full}{'.' * (WIDTH - full)}] {share:4.0%}  {left:4.0f} s left"
