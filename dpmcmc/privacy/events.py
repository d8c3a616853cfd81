"""Privacy events: all the ways in which the data may be accessed, as records.

An event documents one mechanism as mathematics; `dpmcmc.privacy.accountant` says what it costs.
Sensitivities are always the full change under the event's neighbouring relation, so a noise
multiplier is z = sigma / Delta. Events of different relations do not compose, and something that is
not in this vocabulary has no cost: both are refused.

Every event is a frozen dataclass of JSON-able fields with a discriminator `kind`.
"""

from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from dpmcmc.base.private import Neighbouring

MAX_DEPTH = 16
SMALLEST_NUMBER, LARGEST_NUMBER = 1e-100, 1e100
MAX_COUNT = 10**18  # runs or rows
ROUND_DOWN = 1.0 - 2.0**-50  # of a noise multiplier that was divided


class EventError(ValueError):
    """An unknown event, one with impossible numbers, or one of another neighbouring relation.

    message: of the event's own numbers and words. pointer: JSON pointer to what is wrong, from the
    event on.
    """

    def __init__(self, message: str, pointer: str = "") -> None:
        super().__init__(message)
        self.message, self.pointer = message, pointer


def check(condition: bool, message: str, pointer: str = "") -> None:
    """Raise EventError where the condition does not hold."""
    if not condition:
        raise EventError(message, pointer)


def _set_positive(event: object, name: str) -> None:
    """Check that a field is positive, and store it as a float, so that 2 and 2.0 are equal."""
    value = getattr(event, name)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    fits = number and SMALLEST_NUMBER <= value <= LARGEST_NUMBER
    check(fits, f"{name} must lie between 1e-100 and 1e100", f"/{name}")
    object.__setattr__(event, name, float(value))


def _set_relation(event: object) -> None:
    """Store the neighbouring relation as its enum. Raises EventError on an unknown one."""
    try:
        relation = Neighbouring(getattr(event, "neighbouring"))  # noqa: B009 - events differ in type
    except ValueError as error:
        raise EventError("unknown neighbouring relation", "/neighbouring") from error
    object.__setattr__(event, "neighbouring", relation)


def _check_count(value: int, name: str) -> None:
    """Raise EventError unless a count is a positive whole number."""
    integral = isinstance(value, int) and not isinstance(value, bool)
    check(integral and 1 <= value <= MAX_COUNT, f"{name} must be whole, from 1 to 1e18", f"/{name}")


def check_kind(event: object) -> None:
    """Raise EventError on what is no event of the vocabulary."""
    check(isinstance(event, KINDS), "this is not an event of the closed vocabulary")


def _check_event(event: object) -> None:
    """Raise EventError unless it is an event of bounded depth."""
    check_kind(event)
    check(_depth(event) < MAX_DEPTH, f"events nest at most {MAX_DEPTH} deep")


def _depth(event: object) -> int:
    """Return the nesting depth of an event."""
    inner = getattr(event, "events", None) or (getattr(event, "event", None),)
    return max((1 + _depth(event) for event in inner if event is not None), default=0)


def _check_subset(batch: int, rows: int) -> None:
    """Raise EventError unless 1 <= batch <= rows."""
    _check_count(batch, "batch")
    _check_count(rows, "rows")
    check(batch <= rows, "batch must not exceed rows", "/batch")


@dataclass(frozen=True, slots=True)
class Gaussian:
    """One release of a statistic plus N(0, sigma^2) noise.

    noise_multiplier: sigma / Delta, Delta the full L2 sensitivity under `neighbouring`.
    """

    noise_multiplier: float
    neighbouring: Neighbouring = Neighbouring.REPLACE_ONE
    kind: Literal["gaussian"] = field(default="gaussian", kw_only=True)

    def __post_init__(self) -> None:
        _set_positive(self, "noise_multiplier")
        _set_relation(self)


@dataclass(frozen=True, slots=True)
class Laplace:
    """One release of a statistic plus Laplace noise of scale b.

    noise_multiplier: b / Delta, Delta the full L1 sensitivity; pure epsilon is its inverse.
    """

    noise_multiplier: float
    neighbouring: Neighbouring = Neighbouring.REPLACE_ONE
    kind: Literal["laplace"] = field(default="laplace", kw_only=True)

    def __post_init__(self) -> None:
        _set_positive(self, "noise_multiplier")
        _set_relation(self)


@dataclass(frozen=True, slots=True)
class PureEpsilon:
    """Any epsilon-DP mechanism; the worst one is randomised response."""

    epsilon: float
    neighbouring: Neighbouring = Neighbouring.REPLACE_ONE
    kind: Literal["pure_epsilon"] = field(default="pure_epsilon", kw_only=True)

    def __post_init__(self) -> None:
        _set_positive(self, "epsilon")
        _set_relation(self)


@dataclass(frozen=True, slots=True)
class SmoothLaplace:
    """Laplace noise scaled by 2 S / epsilon, S a beta-smooth bound of the local sensitivity.

    beta <= epsilon / 2 and ln(1 / delta) (e^beta - 1) - beta <= epsilon / 2, one dimension;
    (epsilon, delta)-DP, never pure.
    Source: Nissim, Raskhodnikova & Smith 2007. Proof: docs/proofs/smooth_laplace.md.
    """

    epsilon: float
    delta: float
    neighbouring: Neighbouring = Neighbouring.REPLACE_ONE
    kind: Literal["smooth_laplace"] = field(default="smooth_laplace", kw_only=True)

    def __post_init__(self) -> None:
        _set_positive(self, "delta")
        _set_positive(self, "epsilon")
        _set_relation(self)
        check(self.delta < 1, "delta must be below 1", "/delta")


@dataclass(frozen=True, slots=True)
class WithoutReplacement:
    """An event on a fresh uniform subset of `batch` of the `rows` rows, which is never released.

    event: its base, a Gaussian, Laplace or PureEpsilon under replace-one.
    """

    event: "Event"
    batch: int
    rows: int
    kind: Literal["without_replacement"] = field(default="without_replacement", kw_only=True)

    def __post_init__(self) -> None:
        _check_subset(self.batch, self.rows)
        check(
            isinstance(self.event, Gaussian | Laplace | PureEpsilon),
            "sampling without replacement needs a gaussian, laplace or pure_epsilon base",
        )
        check(
            self.event.neighbouring == Neighbouring.REPLACE_ONE,
            "a sample without replacement costs less under replace_one only",
        )

    @property
    def neighbouring(self) -> Neighbouring:
        """Replace-one: the number of rows is public."""
        return Neighbouring.REPLACE_ONE


@dataclass(frozen=True, slots=True)
class PoissonSampled:
    """A Gaussian event on rows that were each kept with probability `rate`, add/remove."""

    event: Gaussian
    rate: float
    kind: Literal["poisson_sampled"] = field(default="poisson_sampled", kw_only=True)

    def __post_init__(self) -> None:
        _set_positive(self, "rate")
        check(self.rate <= 1, "rate must not exceed 1", "/rate")
        check(isinstance(self.event, Gaussian), "Poisson sampling needs a gaussian base")
        check(
            self.event.neighbouring == Neighbouring.ADD_REMOVE,
            "a Poisson sample costs less under add_remove only",
        )

    @property
    def neighbouring(self) -> Neighbouring:
        """Add/remove: the number of rows is private."""
        return Neighbouring.ADD_REMOVE


@dataclass(frozen=True, slots=True)
class Barker:
    """One DP Barker decision on a fresh subset of `batch` of the `rows` rows.

    Needs tempered ratios clipped to sqrt(batch) / rows, total noise variance 2 and the biased batch
    variance. Source: Heikkilä et al. 2019; thesis A, Theorem 8. Proof: docs/proofs/barker.md.
    """

    batch: int
    rows: int
    kind: Literal["barker"] = field(default="barker", kw_only=True)

    def __post_init__(self) -> None:
        _check_subset(self.batch, self.rows)
        check(self.batch > 5, "batch must be above 5", "/batch")

    @property
    def neighbouring(self) -> Neighbouring:
        """Replace-one: the number of rows is public."""
        return Neighbouring.REPLACE_ONE


@dataclass(frozen=True, slots=True)
class Repeat:
    """`count` runs of an event, each chosen after the earlier ones."""

    event: "Event"
    count: int
    kind: Literal["repeat"] = field(default="repeat", kw_only=True)

    def __post_init__(self) -> None:
        _check_event(self.event)
        _check_count(self.count, "count")

    @property
    def neighbouring(self) -> Neighbouring:
        """The relation of the repeated event."""
        return self.event.neighbouring


@dataclass(frozen=True, slots=True)
class Compose:
    """Events one after the other on the same rows, all under one relation."""

    events: tuple["Event", ...]
    kind: Literal["compose"] = field(default="compose", kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "events", tuple(self.events))
        for event in self.events:
            _check_event(event)
        check(bool(self.events), "a composition needs at least one event")
        relations = {event.neighbouring for event in self.events}
        check(len(relations) == 1, "events of different neighbouring relations do not compose")

    @property
    def neighbouring(self) -> Neighbouring:
        """The one relation of all the events."""
        return self.events[0].neighbouring


@dataclass(frozen=True, slots=True)
class Parallel:
    """Events on disjoint parts, one each; the assignment of rows was fixed in advance, replace-one.

    Proof: docs/proofs/parallel.md (thesis B, section 6.4).
    """

    events: tuple["Event", ...]
    kind: Literal["parallel"] = field(default="parallel", kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "events", tuple(self.events))
        for event in self.events:
            _check_event(event)
        check(bool(self.events), "a parallel composition needs at least one event")
        check(
            all(event.neighbouring == Neighbouring.REPLACE_ONE for event in self.events),
            "parts that are fixed side by side can share one price under replace_one only",
        )

    @property
    def neighbouring(self) -> Neighbouring:
        """Replace-one: a row stays with its holder."""
        return Neighbouring.REPLACE_ONE


Event: TypeAlias = (
    Gaussian
    | Laplace
    | PureEpsilon
    | SmoothLaplace
    | WithoutReplacement
    | PoissonSampled
    | Barker
    | Repeat
    | Compose
    | Parallel
)

KINDS = (
    Gaussian,
    Laplace,
    PureEpsilon,
    SmoothLaplace,
    WithoutReplacement,
    PoissonSampled,
    Barker,
    Repeat,
    Compose,
    Parallel,
)


def of_units(event: Event, rows: int) -> Event:
    """Return the event on units of up to `rows` rows each, of an event on single rows.

    A replaced unit is at most so many replaced rows, so that sums move at most so many times as
    far. Parts in parallel become a sequence, as a unit may have rows in each. Rounded up.
    Proof: docs/proofs/units.md. Raises EventError where none is known: of rows drawn at random, and
    of noise that depends on the rows.
    """
    if rows == 1:
        return event
    _check_count(rows, "rows")
    match event:
        case Gaussian() | Laplace():
            check(event.neighbouring is Neighbouring.REPLACE_ONE, "units are replaced, not added")
            return replace(event, noise_multiplier=event.noise_multiplier / rows * ROUND_DOWN)
        case PureEpsilon():
            check(event.neighbouring is Neighbouring.REPLACE_ONE, "units are replaced, not added")
            return replace(event, epsilon=event.epsilon * rows / ROUND_DOWN)
        case Repeat():
            return Repeat(of_units(event.event, rows), event.count)
        case Compose() | Parallel():
            return Compose(tuple(of_units(inner, rows) for inner in event.events))
        case _:
            raise EventError(f"no cost is known of {event.kind} for units of several rows")
