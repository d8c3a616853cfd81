"""The planner's own choice: an algorithm that stands for whichever suits a job best."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoOptions:
    """Leave the algorithm to the planner, which says what it chose and why. See dpmcmc/choice.py.

    What is given here is kept for any algorithm that it chooses. whitening: see noisy_quadratic.
    """

    algorithm: Literal["auto"] = "auto"
    num_steps: int | None = None
    num_chains: int | None = None
    num_warmup: int | None = None
    whitening: str | None = None

    @property
    def clip_bound(self) -> None:
        """None: what is cut depends on the algorithm."""
