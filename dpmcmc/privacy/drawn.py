"""Metering of noise: which of a planned composition's events were drawn, in the planned order.

A run that may stop early takes its randomness from a `Metered` source. The door to noise asks it
before each draw, so that nothing beyond the plan is drawn, and what it counted is what is paid.
Proof: docs/proofs/filter.md, section 6.
"""

import numpy as np
from numpy.typing import NDArray

from dpmcmc.privacy.events import Compose, Event, EventError, Gaussian, Repeat
from dpmcmc.privacy.noise import RandomSource, Shape

MOST_STEPS = 1000  # of a composition that may stop early


def steps(event: Event) -> tuple[Gaussian, ...]:
    """Return a composition's Gaussian events in their order.

    Raises EventError where it is made of anything else, or of more than MOST_STEPS.
    """
    match event:
        case Gaussian():
            return (event,)
        case Repeat(event=inner, count=count) if count <= MOST_STEPS:
            repeated = steps(inner) * count
        case Compose(events=events):
            repeated = tuple(step for inner in events for step in steps(inner))
        case _:
            raise EventError("only a short composition of Gaussian events can be drawn in part")
    if len(repeated) > MOST_STEPS:
        raise EventError("only a short composition of Gaussian events can be drawn in part")
    return repeated


def begins(planned: Event, drawn: Event) -> bool:
    """Return whether the drawn events are a prefix of the planned composition."""
    try:
        some, every = steps(drawn), steps(planned)
    except EventError:
        return False
    return every[: len(some)] == some


class Metered:
    """A source of randomness that permits only the planned noise, in order, and counts it.

    planned: the event that is paid for. Raises EventError where it is none that `steps` takes.
    """

    def __init__(self, random: RandomSource, planned: Event) -> None:
        self._random, self._planned = random, steps(planned)
        self._count = 0

    def admit(self, noise_multiplier: float, shape: Shape) -> None:
        """Count one draw of a vector, before it is made.

        Raises ValueError where it is not the next of the plan: then nothing is drawn.
        """
        due = self._planned[self._count : self._count + 1]
        if len(shape) != 1 or not due or due[0].noise_multiplier != noise_multiplier:
            raise ValueError("this noise is not the next that was paid for")
        self._count += 1

    @property
    def drawn(self) -> Event | None:
        """The event drawn so far; None before the first draw."""
        return Compose(self._planned[: self._count]) if self._count else None

    @property
    def complete(self) -> bool:
        """Return whether all planned noise was drawn."""
        return self._count == len(self._planned)

    def normals(self, shape: Shape) -> NDArray[np.float64]:
        """Return normals of the wrapped source."""
        return self._random.normals(shape)

    def uniforms(self, shape: Shape) -> NDArray[np.float64]:
        """Return uniforms of the wrapped source."""
        return self._random.uniforms(shape)

    def integers(self, high: int, shape: Shape) -> NDArray[np.int64]:
        """Return integers of the wrapped source."""
        return self._random.integers(high, shape)

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return words of the wrapped source."""
        return self._random.words(count)
