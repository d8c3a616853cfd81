"""A part of many checks: CI makes another one for each commit, as all of them take too long."""

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def part_of(items: Sequence[T], part: str) -> list[T]:
    """Return every n-th of the items from the k-th on. part: "k/n"."""
    first, step = map(int, part.split("/"))
    return list(items[first % step :: step])
