"""The cost of one event in every notion of privacy, side by side."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from dpmcmc.base.private import Neighbouring
from dpmcmc.privacy import composition, conversions, pld, subsampling
from dpmcmc.privacy.accountant import (
    ORDERS,
    WHOLE_ORDERS,
    all_gaussian,
    delta_after_failure,
    epsilon,
    epsilon_by_composition,
    epsilon_by_rdp,
)
from dpmcmc.privacy.costs import gdp_mu, known, pair_of, pure_epsilon, rdp, zcdp_rho
from dpmcmc.privacy.events import (
    Compose,
    Event,
    Gaussian,
    Parallel,
    PoissonSampled,
    Repeat,
    WithoutReplacement,
)
from dpmcmc.privacy.gaussian import check_delta, epsilon_of_mu


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """The cost of one event in every notion, at one delta. None: no bound in that notion.

    epsilon: the tightest. mu: GDP. rho: zCDP. pure_epsilon: at delta 0. rdp: (order, divergence).
    notions: epsilon at delta by each of NOTIONS.
    """

    neighbouring: Neighbouring
    delta: float
    epsilon: float
    mu: float | None
    rho: float | None
    pure_epsilon: float | None
    rdp: tuple[tuple[float, float], ...]
    notions: dict[str, float | None]


QUOTED_ORDERS = (1.5, 2.0, 3.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)


def quote(event: Event, delta: float) -> Quote:
    """Return the event's cost in every notion, for parameters fixed in advance.

    pld: composed profile (exact for Gaussian). gdp. rdp, rdp_mironov: best order, CKS and Mironov's
    conversion. zcdp, zcdp_loose: CKS and Bun & Steinke. basic, advanced (Dwork, Rothblum & Vadhan),
    advanced_blog (the blog's route 1: each step amplified, then Claims 16 and 18), optimal
    (Kairouz, Oh & Viswanath; one repeated event), rdp_unamplified (route 2: RDP that ignores
    sampling), moments (route 3: subsampled RDP at whole orders, Mironov's conversion).
    """
    check_delta(delta)
    known(event)
    event = pld.gathered(event)
    notions = {name: _finite_or_none(value) for name, value in _notions(event, delta)}
    curve = ((order, rdp(event, order)) for order in QUOTED_ORDERS)
    return Quote(
        neighbouring=event.neighbouring,
        delta=delta,
        epsilon=min([epsilon(event, delta), *(n for n in notions.values() if n is not None)]),
        mu=_finite_or_none(gdp_mu(event)),
        rho=_finite_or_none(zcdp_rho(event)),
        pure_epsilon=_finite_or_none(pure_epsilon(event)),
        rdp=tuple((order, rho) for order, rho in curve if rho < math.inf),
        notions=notions,
    )


def _finite_or_none(value: float) -> float | None:
    """Return a finite value; None where it is infinite."""
    return value if value < math.inf else None


def _notions(event: Event, delta: float) -> Iterator[tuple[str, float]]:
    """Yield (name, epsilon) of every notion."""
    mu, rho = gdp_mu(event), zcdp_rho(event)
    exact = all_gaussian(event)
    yield "gdp", epsilon_of_mu(mu, delta)
    yield "pld", epsilon_of_mu(mu, delta) if exact else epsilon_by_composition(event, delta)
    yield "rdp", epsilon_by_rdp(event, delta, ORDERS, conversions.rdp_epsilon)
    yield "rdp_mironov", epsilon_by_rdp(event, delta, ORDERS, conversions.rdp_epsilon_mironov)
    yield "zcdp", conversions.zcdp_epsilon(rho, delta)
    yield "zcdp_loose", conversions.zcdp_epsilon_loose(rho, delta)
    yield from _stepwise(event, delta)
    base = _unamplified(event)
    yield "rdp_unamplified", epsilon_by_rdp(base, delta, ORDERS, conversions.rdp_epsilon_mironov)
    yield "moments", epsilon_by_rdp(event, delta, WHOLE_ORDERS, conversions.rdp_epsilon_mironov)


def _unamplified(event: Event) -> Event:
    """Return the event with every subsampled part replaced by its base on all rows."""
    match event:
        case WithoutReplacement(event=inner) | PoissonSampled(event=inner):
            return (
                Gaussian(inner.noise_multiplier, event.neighbouring)
                if isinstance(inner, Gaussian)
                else inner
            )
        case Repeat(event=inner, count=count):
            return Repeat(_unamplified(inner), count)
        case Compose(events=events):
            return Compose(tuple(_unamplified(inner) for inner in events))
        case Parallel(events=events):
            return Parallel(tuple(_unamplified(inner) for inner in events))
        case _:
            return event


def _stepwise(event: Event, delta: float) -> Iterator[tuple[str, float]]:
    """Yield (name, epsilon) of stepwise compositions, delta shared evenly among steps."""
    parts = pld.leaves(event)
    rest = delta_after_failure(event, delta)
    if parts is None or rest == 0:
        yield from ((name, math.inf) for name in ("basic", "advanced", "advanced_blog", "optimal"))
        return
    approximate = sum(count for leaf, count in parts.items() if pair_of(leaf)[0] == math.inf)
    yield "basic", _basic(parts, rest / max(approximate, 1))
    entries = _entries(parts, rest / max(2 * approximate, 1))
    beta = rest / 2 if approximate else rest
    yield "advanced", composition.advanced_epsilon(entries, beta) if entries else math.inf
    yield "advanced_blog", composition.advanced_epsilon_blog(entries, beta) if entries else math.inf
    yield "optimal", _optimal(entries, rest / (2 * approximate) if approximate else 0.0, rest)


def _basic(parts: dict[Event, int], each: float) -> float:
    """Return epsilon by basic composition."""
    total = math.fsum(count * _step_epsilon(leaf, each) for leaf, count in parts.items())
    return total * (1 + 2.0**-50)


def _entries(parts: dict[Event, int], each: float) -> list[tuple[float, int]]:
    """Return (epsilon, count) of each kind of step at delta `each`; empty if one has none."""
    entries = [(_step_epsilon(leaf, each), count) for leaf, count in parts.items()]
    return entries if all(value < math.inf for value, _ in entries) else []


def _step_epsilon(leaf: Event, each: float) -> float:
    """Return the epsilon of one step, at delta `each` where it has no pure epsilon."""
    pure, _ = pair_of(leaf)
    if pure < math.inf:
        return pure
    if not 1e-300 <= each < 1:
        return math.inf
    match leaf:
        case Gaussian():
            return epsilon_of_mu(gdp_mu(leaf), each)
        case WithoutReplacement(event=inner, batch=batch, rows=rows):
            return _amplified_step(inner, batch / rows, each)
        case PoissonSampled(event=inner, rate=rate):
            return _amplified_step(inner, rate, each)
        case _:
            return epsilon_by_rdp(leaf, each, WHOLE_ORDERS, conversions.rdp_epsilon)


def _amplified_step(base: Event, rate: float, each: float) -> float:
    """Return the amplified epsilon of one subsampled step."""
    share = each / rate
    if share >= 1:
        return 0.0
    return subsampling.amplified_epsilon(epsilon_of_mu(gdp_mu(base), share), rate)


def _optimal(entries: list[tuple[float, int]], each: float, delta: float) -> float:
    """Return epsilon by optimal composition."""
    if len(entries) != 1 or entries[0][1] > composition.LARGEST_COUNT:
        return math.inf
    ((value, count),) = entries
    return composition.optimal_epsilon(value, each, count, delta)
