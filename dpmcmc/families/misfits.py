"""What is said of rows that do not fit a model, and the families that suit them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

# how shares of rows deviate along a predictive distribution, with a sign: more at the upper end; at
# both ends; of rows whose long tail lies above
Shape = tuple[Literal["slope", "spread", "skew", ""], int]
MORE_BELOW: Shape = ("slope", -1)
WIDE: Shape = ("spread", 1)
NARROW: Shape = ("spread", -1)
RIGHT: Shape = ("skew", 1)
LEFT: Shape = ("skew", -1)
Kind = Literal["", "counts", "cases", "numbers", "times"]
LESS = "vary less than the model's, so that its intervals are wider than they need be"
# where no family offers more
USUAL: Mapping[tuple[Kind, Shape], str] = {
    ("counts", WIDE): "counts vary more than the model's",
    ("counts", NARROW): f"counts {LESS}",
    ("cases", WIDE): "cases vary more than the model's, as trials of a row that hang together do:"
    " add what they have in common; intervals are wider by that as they are",
    ("cases", NARROW): f"cases {LESS}",
    ("numbers", WIDE): "residuals have shorter tails than the model's, as those of a bounded"
    " response have",
    ("numbers", NARROW): "residuals have longer tails than the model's",
    ("numbers", LEFT): "residuals are skewed to the left: try a power of the response",
}


@dataclass(frozen=True, slots=True)
class Misfits:
    """What one family has to say of misfits, in words, by their shape.

    kind: of its responses. offers: what this family has room for, where another one of a kind does
    not fit.
    """

    kind: Kind = ""
    offers: Mapping[tuple[Kind, Shape], str] = field(default_factory=dict)


NOTHING = Misfits()
