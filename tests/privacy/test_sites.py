"""Privacy noise is drawn in one place, for registered sites: what was claimed, or refused."""

import ast
import inspect
import math
from pathlib import Path

import numpy as np
import pytest

import dpmcmc
from dpmcmc.base.errors import SpecError
from dpmcmc.fit.local import sample
from dpmcmc.inputs.options import DpPenaltySubsampledOptions, NoisyMeanOptions, Start
from dpmcmc.inputs.schema import BinaryColumn, NumberColumn, Schema
from dpmcmc.inputs.spec import JobSpec, ModelOptions, ModelSpec, PrivacySpec
from dpmcmc.kernels.arithmetic import noise as plain
from dpmcmc.kernels.arithmetic.rounding import noised
from dpmcmc.kernels.compiled import noise as kernel
from dpmcmc.planner import plan
from dpmcmc.privacy import sites
from dpmcmc.privacy.discrete import (
    discrete_gaussian,
    gaussian_noise,
    noisy_grid,
    noisy_sums,
    scale_of,
)
from dpmcmc.privacy.noise import RandomSource, SystemRandom
from dpmcmc.privacy.sites import LEAST_MULTIPLIER, MOST_MULTIPLIER, SITES, Site
from tests.privacy.other_draws import OTHER_DRAWS

PACKAGE = Path(dpmcmc.__file__).parent
SITE = sites.NOISY_MEAN
COUNT = 200_000
RANGE = np.geomspace(LEAST_MULTIPLIER, MOST_MULTIPLIER, 26)


class Draws(ast.NodeVisitor):
    """Which function draws: [(function, what it calls, names of its arguments)]."""

    def __init__(self, module):
        self.stack, self.found, self.module = [], [], module

    def visit_scope(self, node):
        self.stack.append(node.name)
        self.generic_visit(node)
        self.stack.pop()

    visit_FunctionDef = visit_ClassDef = visit_scope  # noqa: N815 - the names that ast looks for

    def visit_Call(self, node):
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        owner = getattr(node.func, "value", None)
        by = getattr(owner, "attr", getattr(owner, "id", ""))
        drawn = name in METHODS and "random" in by
        if drawn or name in DOORS or name in SOURCES:
            names = [getattr(argument, "id", None) for argument in node.args]
            self.found.append((f"{self.module}:{'.'.join(self.stack)}", name, names))
        self.generic_visit(node)


DOORS = ("gaussian_noise", "laplace_noise", "flips", "release_sums")
PASSES_ON = "dpmcmc.mechanisms.sums:release_sums"  # noise for the site that it is called with
SOURCES = ("discrete_gaussian", "discrete_laplace")
WITH_A_SEED = "inputs/schema.py"  # dummy rows, which are made of public facts
METHODS = {name for name, _ in inspect.getmembers(RandomSource, inspect.isfunction)}
METHODS -= {"__init__"}


def draws():
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        if parts[:2] == ("dpmcmc", "kernels") or parts[-2:] == ("privacy", "noise"):
            continue  # no source of randomness reaches the former; the latter is the source
        visitor = Draws(".".join(parts))
        visitor.visit(ast.parse(path.read_text()))
        found += visitor.found
    passed = [call for call in found if call[0] == PASSES_ON]
    assert [(name, names[1]) for _, name, names in passed] == [("gaussian_noise", "site")]
    return [call for call in found if call[0] != PASSES_ON]


@pytest.mark.longer
def test_the_tables_name_every_function_that_draws_and_no_other():
    noise = {where for where, name, _ in draws() if name in DOORS}
    assert noise == {site.caller for site in SITES}
    others = {where for where, name, _ in draws() if name in METHODS}
    assert others == set(OTHER_DRAWS)


def test_each_site_draws_for_itself_in_one_place():
    used = {}
    for where, name, names in draws():
        if name in DOORS:
            site = getattr(sites, names[1])
            assert site.caller == where
            assert site not in used.values()
            used[where] = site
    assert len(used) == len(SITES) == len({site.caller for site in SITES})


def test_nobody_goes_round_the_door():
    calls = [where for where, name, _ in draws() if name in SOURCES]
    assert calls == [
        "dpmcmc.privacy.discrete:gaussian_noise",
        "dpmcmc.privacy.discrete_laplace:laplace_noise",
    ]
    for path in PACKAGE.rglob("*.py"):
        assert "import random" not in path.read_text()
        assert path.read_text().count("default_rng") == (path == PACKAGE / WITH_A_SEED)


@pytest.mark.parametrize("site", SITES, ids=lambda site: site.caller)
def test_every_site_has_a_proof_and_a_range(site, repository):
    """Each rests on the page on sums, or on that on noise, which the former rests on."""
    proof = (repository / "docs" / "proofs" / site.proof).read_text()
    assert "(sums.md)" in proof or "gaussian_release.md" in proof
    assert LEAST_MULTIPLIER <= site.least < site.most <= MOST_MULTIPLIER


@pytest.mark.parametrize("dimension", [1, 100])
@pytest.mark.parametrize("multiplier", RANGE)
def test_noise_is_what_is_claimed_over_the_whole_range(multiplier, dimension):
    """Never less than the claim, and at most 1 % more; normal far into its tails."""
    noise = gaussian_noise(SystemRandom(), SITE, multiplier, (COUNT,))
    grid = noisy_grid(dimension, 0.3, multiplier)
    z = noised(0.0, grid, noise) / (0.3 * multiplier)
    assert (
        1.0 <= scale_of(multiplier, dimension).unit * scale_of(multiplier).sd / multiplier < 1.003
    )
    assert z.std() == pytest.approx(1.0, rel=0.01)
    assert abs(z.mean()) < 5 / math.sqrt(COUNT)
    assert np.mean(np.abs(z) > 3.0) == pytest.approx(0.0027, rel=0.35)
    assert np.abs(z).max() > 3.9
    assert len(np.unique(noise)) > 1000 or multiplier < 1e-3


def test_a_replaced_row_moves_the_integers_by_less_than_the_noise_was_made_for():
    """Sensitivity in cells, and 1.5 for rounding, times z is at most what the proof allows."""
    for z in RANGE:
        for d in (1, 7, 100):
            unit, sd = scale_of(z, d)
            moved = 1.0 / unit + 1.5 * math.sqrt(d)
            assert z * moved <= (1.0 - 2.0**-39) * math.sqrt(sd * sd - 16.0)


@pytest.mark.parametrize(
    "multiplier",
    [0.0, -1.0, math.nan, math.inf, 0.99 * LEAST_MULTIPLIER, 1.01 * MOST_MULTIPLIER, 2.0**42, 1e13],
)
def test_what_no_proof_covers_is_refused_where_noise_is_drawn(multiplier):
    with pytest.raises(ValueError, match="no proof covers"):
        gaussian_noise(SystemRandom(), SITE, multiplier, (1,))
    with pytest.raises(ValueError, match="no noise of this multiplier"):
        noisy_sums(np.zeros((1, 1)), 1.0, multiplier, np.zeros((1, 1), np.int64))


@pytest.mark.parametrize("sensitivity", [0.0, math.nan, math.inf, -1.0, 1e-300, 1e300])
def test_a_sensitivity_that_loses_the_noise_is_refused(sensitivity):
    with pytest.raises(ValueError, match="such a sensitivity"):
        noisy_sums(np.zeros((1, 1)), sensitivity, 1.0, np.ones((1, 1), np.int64))


@pytest.mark.parametrize("log2_sd", [0, 51, 62, 70, -3])
def test_draws_that_would_not_fit_are_refused(log2_sd):
    with pytest.raises(ValueError, match="log2_sd must"):
        discrete_gaussian(SystemRandom(), log2_sd, (1,))


def test_a_site_that_is_not_registered_gets_no_noise():
    with pytest.raises(ValueError, match="registered sites"):
        gaussian_noise(SystemRandom(), Site("somewhere", "Gaussian(z)", "dp_hmc.md"), 1.0, (1,))


def test_the_registry_is_asked_at_every_draw(monkeypatch):
    """With the registry empty no sampler and no release gives anything."""
    monkeypatch.setattr(sites, "SITES", ())
    with pytest.raises(ValueError, match="registered sites"):
        sample(
            **MEAN,
            sampler=NoisyMeanOptions(num_steps=2),
            noise_multiplier=1.0,
            accept_low_quality=True,
        )


MEAN = {
    "data": {"x": list(np.linspace(0.0, 1e5, 200))},
    "schema": Schema(columns=(NumberColumn(name="x", lower=0.0, upper=1e5),), rows=200),
    "model": ModelSpec(
        family="gaussian_mean", formula="~ x", options=ModelOptions(variances=(1.0,))
    ),
    "delta": 1e-6,
}


@pytest.mark.parametrize(
    ("multiplier", "shares"),
    [(2.8e8, (1e-9, 0.9)), (1e5, (1e-9, 0.9)), (1e9, (0.9,)), (2.8e8, (1e-9,)), (1e7, (1.0,))],
)
def test_a_mean_is_not_read_for_nothing(multiplier, shares):
    """A derived multiplier of 10^13 once left no noise, at a cost of epsilon 0."""
    options = NoisyMeanOptions(shares=shares, clip_bounds=(1e12, 1e-6)[-len(shares) :])
    known = ModelOptions(variances=(1e-12,))
    model = ModelSpec(family="gaussian_mean", formula="~ x", options=known)
    with pytest.raises(SpecError) as refused:
        sample(**{**MEAN, "model": model}, sampler=options, noise_multiplier=multiplier)
    assert refused.value.pointer.startswith("/privacy")


def test_a_derived_start_is_checked():
    """Of a batch of 2, a share of .01 and a multiplier of 10^9 it once followed as 10^16."""
    schema = Schema(
        columns=(
            NumberColumn(name="x", lower=-1, upper=1),
            BinaryColumn(name="y", categories=("a", "b")),
        ),
        rows=1_000_000,
    )
    spec = JobSpec(
        model=ModelSpec(family="logistic", formula="y ~ x"),
        sampler=DpPenaltySubsampledOptions(
            num_steps=1, num_chains=1, batch=2, start=Start(share=0.01)
        ),
        privacy=PrivacySpec(delta=1e-7, noise_multiplier=1e9),
    )
    with pytest.raises(SpecError, match="noise multiplier of"):
        plan(schema, spec)


def test_a_job_that_costs_nothing_is_refused():
    with pytest.raises(SpecError, match="costs epsilon 0"):
        sample(**MEAN, sampler=NoisyMeanOptions(num_steps=2), noise_multiplier=1e6)
    cheap = sample(
        **MEAN, sampler=NoisyMeanOptions(num_steps=2), noise_multiplier=1e5, accept_low_quality=True
    )
    assert cheap.cost.epsilon > 0.0


def test_the_door_checks_what_reaches_it(monkeypatch):
    """Whatever a plan lets through, the place that draws refuses."""
    monkeypatch.setattr("dpmcmc.planner.planning._check_noise", lambda _: None)
    monkeypatch.setattr("dpmcmc.planner.planning._check_cost", lambda _: None)
    options = NoisyMeanOptions(shares=(1e-9, 0.9), clip_bounds=(1e12, 1e-6), num_steps=2)
    with pytest.raises(ValueError, match="no proof covers"):
        sample(**MEAN, sampler=options, noise_multiplier=2.8e8, accept_low_quality=True)


@pytest.mark.parametrize("log2_sd", [8, 20, 46, 50])
@pytest.mark.parametrize("whole", [10, 40])
def test_noise_has_tails_beyond_those_of_floats(log2_sd, whole):
    """Box-Muller ends at 9.49 sds. Here the words that say 40 give 40."""
    no = (1 << plain.BITS) - 2  # as an answer to "one in m"; then a sign and bits of the rest
    tape = np.full(whole * whole + 2 * whole + 20, no)
    tape[whole] = 0  # the whole part ends here
    tape[whole + 2 + whole * (whole - 1)] = 0  # nothing but the whole part
    out = np.zeros(1, np.int64)
    assert kernel.discrete_gaussians(tape, log2_sd, out, 0)[0] == 1
    assert out[0] == whole << log2_sd
