"""Lines of a report, each with what it must not pass."""

import sys
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Line:
    """A figure. most: what it must not pass; None where it is only told."""

    name: str
    found: float
    most: float | None
    unit: str

    @property
    def passed(self) -> bool:
        """Whether it is kept."""
        return self.most is None or self.found <= self.most

    def __str__(self) -> str:
        aim = "" if self.most is None else f"  at most {self.most:g}"
        mark = "" if self.passed else "  MISSED"
        return f"{self.found:10.2f} {self.unit:<7} {self.name}{aim}{mark}"


def say(line: object) -> None:
    """Say it at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
