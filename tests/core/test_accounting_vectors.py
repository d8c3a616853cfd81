"""Every vector of a reference file within its tolerance, by shipped functions or tests/bounds.py.

VECTORS names the file; without it the shared reference. A group nobody computes fails.
Counterexamples and pins of other libraries are computed here: nothing shipped may rest on them.
"""

import functools
import json
import math
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpmcmc.base.private import Neighbouring
from dpmcmc.privacy import accountant, composition, conversions, quotes, rdp, subsampling
from dpmcmc.privacy.events import (
    Compose,
    Event,
    Gaussian,
    Laplace,
    PoissonSampled,
    PureEpsilon,
    Repeat,
    WithoutReplacement,
)
from dpmcmc.privacy.filter import FilterState, FilterTerms, entry_cost, mu_limit
from dpmcmc.privacy.gaussian import delta_of_mu, epsilon_of_mu
from dpmcmc.privacy.laplace import laplace_delta
from tests import bounds

ROOT = Path(__file__).resolve().parents[2]


class Inputs(dict[str, Any]):
    """A vector's inputs. seen: the names that were read."""

    def __init__(self, values: dict[str, Any]) -> None:
        super().__init__(values)
        self.seen: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        if name not in self:
            pytest.fail(f"the inputs have no {name!r}: {dict(self)}", pytrace=False)
        self.seen.add(name)
        return super().__getitem__(name)


def vector_file() -> Path:
    named = os.environ.get("VECTORS")
    shared = Path(os.environ.get("DPMCMC_SHARED", ROOT.parent / "shared"))
    return Path(named) if named else shared / "reference" / "accounting_vectors.json"


def vectors() -> list[dict[str, Any]]:
    path = vector_file()
    if not path.is_file() and "VECTORS" not in os.environ:
        return []
    loaded: list[dict[str, Any]] = json.loads(path.read_text())["vectors"]
    return loaded


def number(text: Any) -> float:
    """A decimal string, a number, or a ratio of two of them."""
    if isinstance(text, str) and "/" in text:
        top, bottom = text.split("/")
        return float(top) / float(bottom)
    return float(text)


def whole(text: Any) -> int:
    value = float(text)
    assert value == int(value)
    return int(value)


def get(inputs: Inputs, name: str) -> float:
    return number(inputs[name])


def rate(inputs: Inputs) -> tuple[int, int]:
    """A sampling rate as (batch, rows): what an event holds."""
    exact = Fraction(str(inputs["q"]))
    return exact.numerator, exact.denominator


def gaussian_entries(inputs: Inputs) -> Event:
    return Compose(
        tuple(
            Repeat(Gaussian(number(sigma) / number(sensitivity)), whole(count))
            for sensitivity, sigma, count in inputs["entries_sensitivity_sigma_count"]
        )
    )


def gaussian_curve(inputs: Inputs, convert: Callable[[float, float, float], float]) -> float:
    event = Repeat(Gaussian(get(inputs, "sigma_over_delta")), whole(inputs["count"]))
    return min(
        convert(accountant.rdp(event, number(order)), number(order), get(inputs, "delta"))
        for order in inputs["orders"]
    )


def penalty_multiplier(inputs: Inputs) -> float:
    return get(inputs, "tau") * get(inputs, "n") ** get(inputs, "alpha_exponent")


def hmc_multipliers(inputs: Inputs) -> tuple[float, float, int]:
    root = math.sqrt(get(inputs, "n"))
    return get(inputs, "tau_l") * root, get(inputs, "tau_g") * root, whole(inputs["L"])


def hmc_event(inputs: Inputs) -> Event:
    ratio, gradient, leapfrog = hmc_multipliers(inputs)
    steps = whole(inputs["k"])
    return Compose(
        (Repeat(Gaussian(ratio), steps), Repeat(Gaussian(gradient), steps * leapfrog + 1))
    )


def budget(inputs: Inputs) -> tuple[float, float]:
    return get(inputs, "epsilon"), get(inputs, "delta")


def rho_loose(inputs: Inputs) -> float:
    return bounds.zcdp_rho_loose(*budget(inputs))


def wor_gaussian(inputs: Inputs) -> Event:
    return WithoutReplacement(Gaussian(get(inputs, "sigma_over_replace_one_Delta")), *rate(inputs))


def wor_theorem_9(inputs: Inputs) -> float:
    q = whole(inputs["batch"]) / whole(inputs["n"])
    base = get(inputs, "tau")
    return subsampling.wor_rdp(lambda j: j / (2 * base), q, whole(inputs["alpha"]))


def barker(inputs: Inputs) -> float:
    batch, rows = whole(inputs["B"]), whole(inputs["n"])

    def one(order: int) -> float:
        loose = functools.partial(bounds.barker_base_rdp_loose, batch)
        return subsampling.wor_rdp(loose, batch / rows, order)

    return whole(inputs["k"]) * rdp.interpolated(one, get(inputs, "alpha"))


def blog_16(inputs: Inputs) -> float:
    entries = [(get(inputs, "epsilon"), whole(inputs["k"]))]
    return composition.advanced_epsilon_blog(entries, get(inputs, "beta"))


def basic(inputs: Inputs) -> tuple[float, float]:
    return bounds.basic_composition([(number(e), number(d)) for e, d in inputs["entries"]])


def filter_terms(inputs: Inputs) -> FilterTerms:
    branches = inputs["branches"]
    return FilterTerms(
        epsilon=get(inputs, "epsilon"),
        delta=get(inputs, "delta"),
        neighbouring=Neighbouring.REPLACE_ONE,
        gdp_weight=number(branches.get("gdp", 0)),
        renyi=tuple((number(order), number(w)) for order, w in branches.get("rdp", [])),
    )


def ledger_job(job: list[Any]) -> Event:
    kind, *values = job
    if kind == "gauss":
        return Gaussian(1 / math.sqrt(number(values[0])))
    if kind == "laplace":
        return Laplace(1 / number(values[0]))
    if kind == "pure":
        return PureEpsilon(number(values[0]))
    if kind == "wor_gauss":
        batch, rows = rate(Inputs({"q": values[0]}))
        step = WithoutReplacement(Gaussian(number(values[1])), batch, rows)
        return Repeat(step, whole(values[2]))
    raise AssertionError(f"unknown job {kind}")


def ledger_decisions(inputs: Inputs) -> list[bool]:
    terms = filter_terms(inputs)
    state = FilterState.empty(terms)
    decisions = []
    for job in inputs["jobs"]:
        after = state.add(entry_cost(terms, ledger_job(job)))
        decisions.append(terms.accepts(after))
        state = after if decisions[-1] else state
    return decisions


def filter_mu2(inputs: Inputs) -> float:
    terms = FilterTerms(*budget(inputs), gdp_weight=get(inputs, "weight"))
    return mu_limit(terms) ** 2


# -- counterexamples: what a naive hard stop would let through ------------------------------------


def any_epsilon(delta_of: Callable[[float], float], epsilon: float) -> float:
    """A symmetric profile below 0: delta(-e) = 1 - e^-e + e^-e delta(e)."""
    if epsilon >= 0:
        return delta_of(epsilon)
    return -math.expm1(epsilon) + math.exp(epsilon) * delta_of(-epsilon)


def response_delta(each: float) -> Callable[[float], float]:
    """One randomised response: (e^each - e^at)/(1 + e^each) from 0 on."""
    truth = 1 / (1 + math.exp(-each))
    return lambda at: any_epsilon(lambda e: max(0.0, -truth * math.expm1(e - each)), at)


def second_steps(inputs: Inputs) -> list[Callable[[float], float]]:
    """Readings of the alternative second step; the right one meets (epsilon, delta) by itself."""
    parameter = get(inputs, "alternative_parameter")
    text = inputs["step2"]
    if "subsampled" not in text:
        return [response_delta(parameter)]
    found = re.search(r"(?:q|rate|ratio)\s*=\s*([0-9.eE/-]*[0-9])", text)
    rates = [get(inputs, "q")] if "q" in inputs else [number(found[1])] if found else [parameter]
    widths = [parameter, 1 / parameter]
    widths += [get(inputs, name) for name in ("sigma", "mu") if name in inputs]
    return [
        profile
        for q in rates
        for mu in widths
        for profile in (wor_profile(mu, q), poisson_profile(mu, q), poisson_profile(mu, q, -1))
    ]


def wor_profile(mu: float, q: float) -> Callable[[float], float]:
    return lambda at: bounds.wor_delta(1 / mu, q, at)


def poisson_profile(mu: float, q: float, side: int = 1) -> Callable[[float], float]:
    """Add (side -1) or remove (side 1) under Poisson sampling, at any epsilon."""

    def remove(at: float) -> float:
        base = 1 + math.expm1(at) / q
        if base <= 0:
            return -math.expm1(at)
        return q * any_epsilon(lambda e: delta_of_mu(mu, e), math.log(base))

    def add(at: float) -> float:
        return -math.expm1(at) + math.exp(at) * remove(-at)

    return remove if side > 0 else add


def expected_over_gaussian_loss(
    mu: float, profile: Callable[[float], float], at: float, panels: int = 200
) -> float:
    """E[profile(at - L)], L ~ N(mu^2/2, mu^2); the profile has kinks, hence many short panels."""
    nodes, weights = np.polynomial.legendre.leggauss(6)
    edges = np.linspace(-12.0, 40.0, panels + 1)
    half = 0.5 * np.diff(edges)
    x = (edges[:-1, None] + half[:, None] * (nodes + 1)).ravel()
    w = (half[:, None] * weights).ravel() * np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
    values = [profile(at - (0.5 * mu * mu + mu * point)) for point in x]
    return float(w @ np.array(values))


def overshoot(inputs: Inputs) -> float:
    epsilon, delta = budget(inputs)
    first, second = get(inputs, "mu_1"), get(inputs, "mu_2")

    def gaussian(at: float) -> float:
        return any_epsilon(lambda e: delta_of_mu(second, e), at)

    def alone(profile: Callable[[float], float]) -> float:
        return abs(expected_over_gaussian_loss(first, profile, epsilon) / delta - 1)

    readings = second_steps(inputs)
    other = readings[0] if len(readings) == 1 else min(readings, key=alone)

    def adaptive(at: float) -> float:
        return max(gaussian(at), other(at))

    return expected_over_gaussian_loss(first, adaptive, epsilon, panels=8000) / delta


def mironov_weights(inputs: Inputs) -> float:
    """Sum over a grid of (1 - 1/a)^(a - 1)/a: the delta each order's branch really uses."""
    return math.fsum((1 - 1 / a) ** (a - 1) / a for a in orders_of(str(inputs["orders"])))


def orders_of(text: str) -> list[float]:
    """`2..64 (all integers)`, `2..1024 (powers of two)`, `2^1..2^10`, or a list."""
    powers = "power" in text or "^" in text
    plain = re.sub(r"(\d+)\^(\d+)", lambda m: str(int(m[1]) ** int(m[2])), text.split("(")[0])
    named = [float(a) for a in re.findall(r"\d+(?:\.\d+)?(?!\d)", plain.replace("..", " .. "))]
    if ".." not in plain and not powers:
        return named
    low, high = min(named), max(named)
    whole_orders = (2.0**k for k in range(1, 64)) if powers else map(float, range(2, 5000))
    return [a for a in whole_orders if low <= a <= high]


# -- pins of what other libraries answer ---------------------------------------------------------


def library_trap(inputs: Inputs) -> dict[str, Any]:
    if "event" in inputs:
        return event_trap(inputs)
    what = inputs["what"]
    if "Opacus" in what:
        return opacus_trap(what)
    return round_off_trap(what)


def event_trap(inputs: Inputs) -> dict[str, float]:
    from dp_accounting import GaussianDpEvent, NeighboringRelation
    from dp_accounting.pld import PLDAccountant
    from dp_accounting.rdp import RdpAccountant

    multiplier = float(re.findall(r"\(([0-9.eE+-]+)\)", inputs["event"])[0])
    delta = get(inputs, "delta")
    relations = {
        "REPLACE_ONE": NeighboringRelation.REPLACE_ONE,
        "ADD_OR_REMOVE_ONE": NeighboringRelation.ADD_OR_REMOVE_ONE,
    }
    relation = relations[inputs["relation"]]
    event = GaussianDpEvent(multiplier)
    return {
        "RdpAccountant": RdpAccountant(neighboring_relation=relation)
        .compose(event)
        .get_epsilon(delta),
        "PLDAccountant": PLDAccountant(relation).compose(event).get_epsilon(delta),
        "exact if nm=sigma/Delta_replace": epsilon_of_mu(1 / multiplier, delta),
        "exact if nm=sigma/C (Delta_replace=2C)": epsilon_of_mu(2 / multiplier, delta),
    }


def round_off_trap(what: str) -> dict[str, float]:
    from dp_accounting.pld import privacy_loss_distribution as pld

    sigma, count, delta = (
        float(re.findall(rf"{name}\(([0-9.eE+-]+)\)", what)[0])
        for name in ("from_gaussian_mechanism", "self_compose", "get_epsilon_for_delta")
    )
    library = pld.from_gaussian_mechanism(sigma).self_compose(int(count))
    found = library.get_epsilon_for_delta(delta)
    exact = accountant.epsilon(Repeat(Gaussian(sigma), int(count)), delta)
    lost = delta < 1e-9 and found < exact
    return {"dp_accounting": UnderReport(exact) if lost else found, "exact": exact}


@dataclass(frozen=True)
class UnderReport:
    """A value lost in round-off. Its size is the processor's; that it is below `exact` is not."""

    exact: float


def opacus_trap(what: str) -> dict[str, Any]:
    from dp_accounting.pld import privacy_loss_distribution as pld

    q, sigma, delta = (
        float(re.findall(rf"{name}\s*=\s*([0-9.eE+-]+)", what)[0])
        for name in ("q", "sigma", "delta")
    )
    steps = int(re.findall(r"(\d+)\s+steps", what)[0])
    limit = q * math.sqrt(steps * math.expm1(1 / sigma**2))
    event = Repeat(PoissonSampled(Gaussian(sigma, Neighbouring.ADD_REMOVE), q), steps)
    library = pld.from_gaussian_mechanism(sigma, sampling_prob=q).self_compose(steps)
    return {
        "opacus_gdp": epsilon_of_mu(limit, delta),
        "dp_accounting_PLD": library.get_epsilon_for_delta(delta),
        "prv_accountant_interval": accountant.epsilon(event, delta),
    }


GROUPS: dict[str, Callable[[Inputs], Any]] = {
    "gauss_delta": lambda i: accountant.delta(gaussian_entries(i), get(i, "epsilon")),
    "gauss_eps": lambda i: accountant.epsilon(gaussian_entries(i), get(i, "delta")),
    "analytic_gaussian_sigma": lambda i: (
        get(i, "sensitivity") * accountant.noise_multiplier_for(*budget(i), 1)
    ),
    "zcdp_eps_loose": lambda i: conversions.zcdp_epsilon_loose(get(i, "rho"), get(i, "delta")),
    "zcdp_eps_cks": lambda i: conversions.zcdp_epsilon(get(i, "rho"), get(i, "delta")),
    "zcdp_rho_loose": rho_loose,
    "zcdp_rho_cks": lambda i: conversions.zcdp_rho(*budget(i)),
    "rdp_gauss_eps_cks_grid": lambda i: gaussian_curve(i, conversions.rdp_epsilon),
    "rdp_gauss_eps_mironov_grid": lambda i: gaussian_curve(i, conversions.rdp_epsilon_mironov),
    "laplace_delta": lambda i: laplace_delta(
        get(i, "pure_epsilon_each"), whole(i["count"]), get(i, "epsilon")
    ),
    "laplace_rdp": lambda i: rdp.rdp_laplace(get(i, "pure_epsilon"), get(i, "alpha")),
    "wor_rdp_thm9": wor_theorem_9,
    "wor_rdp_thm27_gauss": lambda i: bounds.wor_rdp_gaussian_differences(
        get(i, "sigma_over_replace_one_Delta"), get(i, "q"), whole(i["alpha"])
    ),
    "wor_rdp_profile_gauss": lambda i: accountant.rdp(wor_gaussian(i), get(i, "alpha")),
    "wor_pld_eps": lambda i: quotes.quote(
        Repeat(wor_gaussian(i), whole(i["count"])), get(i, "delta")
    ).notions["pld"],
    "barker_eps_prime": lambda i: bounds.barker_base_rdp_loose(whole(i["B"]), get(i, "alpha")),
    "barker_eps_prime_tight": lambda i: subsampling.barker_base_rdp(whole(i["B"]), get(i, "alpha")),
    "barker_rdp": barker,
    "penalty_k_zcdp": lambda i: accountant.num_steps_for_rho(rho_loose(i), penalty_multiplier(i)),
    "penalty_k_cks": lambda i: accountant.num_steps_for_rho(
        conversions.zcdp_rho(*budget(i)), penalty_multiplier(i)
    ),
    "penalty_k_tight": lambda i: accountant.num_steps_for(*budget(i), penalty_multiplier(i)),
    "hmc_k_zcdp": lambda i: accountant.num_trajectories_for_rho(rho_loose(i), *hmc_multipliers(i)),
    "hmc_k_tight": lambda i: accountant.num_trajectories_for(*budget(i), *hmc_multipliers(i)),
    "hmc_pld_mean": lambda i: accountant.zcdp_rho(hmc_event(i)),
    "basic_composition_eps": lambda i: basic(i)[0],
    "basic_composition_delta": lambda i: basic(i)[1],
    "adv_composition_blog16": blog_16,
    "adv_composition_blog18_delta": lambda i: bounds.advanced_delta(
        get(i, "delta"), whole(i["k"]), get(i, "beta")
    ),
    "adv_composition_drv": lambda i: composition.advanced_epsilon(
        [(get(i, "epsilon"), whole(i["k"]))], get(i, "beta")
    ),
    "optimal_composition_delta": lambda i: composition.optimal_delta(
        get(i, "epsilon"), get(i, "delta"), whole(i["k"]), get(i, "epsilon_global")
    ),
    "subsample_adp_eps": lambda i: subsampling.amplified_epsilon(get(i, "epsilon"), get(i, "r")),
    "subsample_rdp_claim24": lambda i: bounds.wor_rdp_convex(
        get(i, "rho"), get(i, "r"), get(i, "alpha")
    ),
    "sgm_rdp_int": lambda i: accountant.rdp(
        PoissonSampled(Gaussian(get(i, "sigma"), Neighbouring.ADD_REMOVE), get(i, "q")),
        get(i, "alpha"),
    ),
    "pure_dp_gdp_mu": lambda i: accountant.gdp_mu(PureEpsilon(get(i, "epsilon"))),
    "natural_pld_filter_overshoot": overshoot,
    "gdp_filter_budget_mu2": filter_mu2,
    "rdp_filter_budget": lambda i: conversions.rdp_budget(
        get(i, "epsilon"), get(i, "weight") * get(i, "delta"), get(i, "alpha")
    ),
    "mironov_exists_order_weight_sum": mironov_weights,
    "ledger_scenario": ledger_decisions,
    "lib_trap": library_trap,
}


def agrees(found: Any, expected: Any, tolerance: dict[str, float]) -> bool:
    if isinstance(expected, dict):
        return all(agrees(pinned(found, key), value, tolerance) for key, value in expected.items())
    if isinstance(found, UnderReport):
        return bool(expected < found.exact)
    if isinstance(expected, list) and isinstance(found, float):
        low, high = expected
        return bool(low <= found <= high)
    if isinstance(expected, list):
        return bool(found == expected)
    room = tolerance.get("rel", 0.0) * abs(expected) + tolerance.get("abs", 0.0)
    return bool(found == expected or abs(found - expected) <= room)


def pinned(found: dict[str, Any], key: str) -> Any:
    """The library's own version is part of a key's name."""
    return found[next(name for name in found if key == name or key.startswith(f"{name}_0"))]


@pytest.mark.parametrize("vector", vectors(), ids=lambda vector: str(vector["id"]))
def test_vector(vector: dict[str, Any]) -> None:
    compute = GROUPS.get(vector["group"])
    assert compute is not None, f"nothing computes the group {vector['group']}"
    inputs = Inputs(vector["inputs"])
    found = compute(inputs)
    told = (
        f"{found} in place of {vector['expected']}; not read: {sorted(set(inputs) - inputs.seen)}"
    )
    assert agrees(found, vector["expected"], vector["tolerance"]), told


def test_vector_file_is_read() -> None:
    if not vectors():
        pytest.skip("the shared reference vectors are not there")
    assert {vector["group"] for vector in vectors()} <= set(GROUPS)
