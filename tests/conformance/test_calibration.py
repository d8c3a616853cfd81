"""Every sampler's own step leaves the posterior invariant, and 10 % in its penalty would show.

Chains start at exact draws of the posterior; after some steps their ranks must still be uniform at
p > 0.001. With the penalty (of Barker's test: the variance of its noise) 10 % too small or too
large, the same chains must fail. All randomness is fixed, so nothing here fails by chance.
"""

import itertools
import math

import numba
import numpy as np
import pytest
from scipy.stats import chisquare

from dpmcmc.families.rowwise import RowTarget
from dpmcmc.inputs.options import ComponentProposal, Proposal
from dpmcmc.kernels.arithmetic import rules
from dpmcmc.privacy import discrete
from dpmcmc.samplers import SAMPLERS, dp_barker, dp_penalty_subsampled, hamiltonian, minibatch
from dpmcmc.samplers.minibatch import batches
from experiments import stepped
from experiments.stepped import Stepped
from tests.conformance.toys import FAMILIES, ToyTarget, toy_p_value
from tests.sources import Seeded

PASSES = 0.001
SIX = {"x": np.linspace(-1, 1, 6), "y": [0, 1, 1, 0, 1, 1], "counts": [1] * 6}
KINDS = {"x": [1, 1, -1, -1], "y": [1, 0, 1, 0], "counts": [700, 300, 400, 600], "tempering": 0.005}
TEN_TIMES = {**KINDS, "counts": [10 * count for count in KINDS["counts"]], "tempering": 0.1}
FULL = {"proposal": Proposal(kind="full", scale=1.0, shape="normal")}
WEAK = {
    "mass": (1.0,),
    "gradient_clip": 0.05,
    "gradient_noise_multiplier": 0.5,
}
# case: rows, sampler, options, noise multiplier, chains, steps
CASES = {
    "full": (SIX, "dp_penalty", FULL, 1.5, 120_000, 40),
    "component": (SIX, "dp_penalty", {"proposal": Proposal(scale=1.2)}, 1.5, 60_000, 40),
    "own component": (
        SIX,
        "dp_penalty_component",
        {"proposal": ComponentProposal(scale=1.0, shape="normal")},
        1.5,
        120_000,
        40,
    ),
    "guided": (
        SIX,
        "dp_penalty_guided",
        {"proposal": ComponentProposal(scale=1.0, shape="normal")},
        1.5,
        100_000,
        60,
    ),
    "subsampled": (KINDS, "dp_penalty_subsampled", {**FULL, "batch": 500}, 60.0, 60_000, 50),
    "hmc": (SIX, "dp_hmc", {**WEAK, "step_size": 0.35}, 1.5, 60_000, 40),
    "mala": (SIX, "dp_mala", {**WEAK, "step_size": 1.0}, 1.5, 90_000, 50),
}
BARKER = (KINDS, "dp_barker", {"batch": 500, "scale": 1.3}, 1.0, 120_000, 30)
ROWS_OF_A_BATCH = (
    TEN_TIMES,
    "dp_penalty_subsampled",
    {"proposal": Proposal(kind="full", scale=0.14, shape="normal"), "batch": 2000},
    0.5,
    60_000,
    30,
)


def p_value(case, **how):
    return toy_p_value(*case, Seeded(1), **how)


def put_penalty(monkeypatch, factor):
    """The penalty times `factor`, in every sampler."""

    def other(seen, s, prior, uniform):
        return np.log(uniform) < seen + prior - 0.5 * factor * s * s

    monkeypatch.setattr(rules, "accepts", other)
    for walk in ("penalty_walk", "hamiltonian_walk"):  # not compiled
        monkeypatch.setattr(RowTarget, walk, getattr(Stepped, walk))


@pytest.fixture(autouse=True)
def quick_noise(monkeypatch):
    """Rounded normals for the noise; exact noise is tested elsewhere."""

    def rounded(random, log2_sd, shape):
        return np.rint(2.0**log2_sd * random.normals(shape)).astype(np.int64)

    monkeypatch.setattr(discrete, "discrete_gaussian", rounded)


@pytest.fixture
def by_kinds(monkeypatch):
    """Batches of ToyTarget: how many rows of each kind, of a uniform subset."""

    def counted(random, rows, batch, chains):
        times, rest = divmod(rows, sum(KINDS["counts"]))
        assert rest == 0
        kinds = [times * count for count in KINDS["counts"]]
        return random.rng.multivariate_hypergeometric(kinds, batch, size=chains, method="marginals")

    monkeypatch.setattr(minibatch, "batches", counted)


toys = pytest.mark.usefixtures("by_kinds")


@pytest.mark.parametrize("name", [name for name, one in SAMPLERS.items() if one.exact])
def test_every_sampler_is_calibrated_here(name):
    assert name in {case[1] for case in (*CASES.values(), BARKER)}
    assert name in FAMILY_OPTIONS


@pytest.mark.slow
@toys
@pytest.mark.parametrize("case", CASES)
def test_every_step_leaves_the_posterior_invariant(case):
    assert p_value(CASES[case]) > PASSES


@pytest.mark.parametrize("case", ["hmc", "mala"])
def test_whatever_gradients_lean_on_leaves_the_posterior_invariant(monkeypatch, case):
    """Something far from the posterior (docs/proofs/dp_hmc.md)."""

    def elsewhere(dimension):
        return np.full(dimension, 0.7), -1.5 * np.eye(dimension), np.full(dimension, -0.4)

    monkeypatch.setattr(hamiltonian, "_no_control_variate", elsewhere)
    assert p_value(CASES[case]) > PASSES


@pytest.mark.slow
@toys
@pytest.mark.parametrize("factor", [0.9, 1.1])
@pytest.mark.parametrize("case", CASES)
def test_a_tenth_of_the_penalty_would_show(monkeypatch, case, factor):
    put_penalty(monkeypatch, factor)
    assert p_value(CASES[case]) < PASSES


@pytest.mark.parametrize("case", ["guided", "hmc", "mala"])
def test_what_a_chain_carries_survives_the_end_of_a_block(case):
    assert p_value((*CASES[case][:4], 40_000, 20), block=1) > PASSES


@toys
def test_the_noise_of_a_batch_is_corrected_for():
    assert p_value(ROWS_OF_A_BATCH) > PASSES


@toys
@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_a_tenth_of_the_correction_for_a_batch_would_show(monkeypatch, factor):
    def wrong(rule, *args):
        return rules.penalty(rule._replace(part=factor * rule.part), *args)

    monkeypatch.setitem(stepped.RULES, rules.PENALTY, (wrong, stepped.penalty_accepts))
    assert p_value(ROWS_OF_A_BATCH) < PASSES


@toys
def test_good_gradients_keep_the_posterior_too():
    options = {**WEAK, "gradient_clip": 1.0, "step_size": 0.35}
    assert p_value((SIX, "dp_hmc", options, 1.5, 40_000, 20)) > PASSES


@toys
def test_barker_keeps_the_posterior():
    assert p_value(BARKER) > PASSES


@pytest.mark.longer
@toys
@pytest.mark.parametrize("variance", [1.8, 2.2])
def test_a_tenth_of_the_variance_of_barkers_noise_would_show(monkeypatch, variance):
    def wrong(rule, *args):
        fixed = (rule.unit * rule.sd) ** 2
        other = max(fixed + variance - dp_barker.VARIANCE, 1e-12)
        found, cells = rules.barker(rule, *args)
        return found, math.sqrt(other / fixed) * cells

    monkeypatch.setitem(stepped.RULES, rules.BARKER, (wrong, stepped.barker_accepts))
    assert p_value(BARKER) < PASSES


@toys
def test_a_tenth_of_barkers_ratio_would_show(monkeypatch):
    def wrong(rule, *args):
        larger = rule._replace(scale=1.1 * rule.scale, part=rule.part / 1.1**2)
        return rules.barker(larger, *args)

    def decided(rule, seen, cells, widths, priors, others):
        return stepped.barker_accepts(rule, seen, cells, widths, 1.1 * priors, others)

    monkeypatch.setitem(stepped.RULES, rules.BARKER, (wrong, decided))
    assert p_value(BARKER) < PASSES


# sampler: options, noise multiplier, rows, tempering, chains, steps on every family
HALF = {"proposal": Proposal(kind="full", scale=0.5, shape="normal")}
FAMILY_OPTIONS = {
    "dp_penalty": (HALF, 0.4, 12, 0.7, 40_000, 20),
    "dp_penalty_component": ({"proposal": ComponentProposal(scale=0.6)}, 0.4, 12, 1.0, 40_000, 20),
    "dp_penalty_guided": ({"proposal": ComponentProposal(scale=0.5)}, 0.4, 12, 0.7, 40_000, 20),
    "dp_penalty_subsampled": ({**HALF, "batch": 100}, 0.5, 300, 0.05, 5000, 20),
    "dp_barker": ({"batch": 100, "scale": 0.12}, 0.1, 300, 0.05, 5000, 40),
    "dp_hmc": ({**WEAK, "gradient_clip": 0.5, "step_size": 0.15}, 0.4, 12, 0.7, 30_000, 15),
    "dp_mala": ({**WEAK, "gradient_clip": 0.5, "step_size": 0.3}, 0.4, 12, 1.0, 40_000, 20),
}


@pytest.mark.slow
@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="the kernels need the compiler")
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", SAMPLERS)
def test_every_step_leaves_other_posteriors_invariant(name, family):
    """Off-centre intervals that depend on the position, tempered; theta and rows simulated."""
    options, multiplier, rows, tempering, chains, steps = FAMILY_OPTIONS[name]
    problem = FAMILIES[family](np.random.default_rng(5), rows, tempering)
    if "mass" in options:
        options = {**options, "mass": (1.0,) * len(problem.box)}
    assert problem.p_value(name, options, multiplier, chains, steps, Seeded(6)) > PASSES


ADAPT = {"proposal": ComponentProposal(scale=0.6, adapt=True, stretch=4.0)}
FITTED = {
    "dp_penalty_component": (ADAPT, 1.0, 20_000),
    "dp_penalty_guided": (ADAPT, 1.0, 20_000),
    "dp_penalty_subsampled": ({**ADAPT, "batch": 100}, 0.5, 4000),
    "dp_barker": ({"batch": 100, "scale": 0.3, "adapt": True}, 0.1, 4000),
}


@pytest.mark.slow
@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="the kernels need the compiler")
@pytest.mark.parametrize("name", FITTED)
def test_moves_fitted_in_the_warm_up_keep_the_posterior(monkeypatch, name):
    """A level and a slope that are correlated, so that moves come to be slanted.

    Barker moves of one coefficient have an interval of its own, which makes them the cheaper ones.
    """
    options, multiplier, chains = FITTED[name]
    rows, tempering = (300, 0.2) if "batch" in options else (60, 1.0)
    problem = FAMILIES["logistic"](np.random.default_rng(5), rows, tempering, least=0.4)
    how = {"warmup": 16, "fitted": "axes" if name == "dp_barker" else "slanted"}
    found = problem.p_value(name, options, multiplier, chains, 46, Seeded(6), **how)
    assert found > PASSES
    if name == "dp_penalty_component":
        put_penalty(monkeypatch, 1.1)
        assert problem.p_value(name, options, multiplier, 80_000, 46, Seeded(6), **how) < PASSES


@pytest.mark.parametrize("batch", [2, 3, 5])
def test_batches_are_uniform_subsets(batch):
    drawn = batches(Seeded(4), 5, batch, 12_000)
    assert drawn.shape == (12_000, batch)
    assert all(len(set(rows)) == batch for rows in drawn[:200].tolist())
    masks = (1 << np.sort(drawn, axis=1)).sum(axis=1)
    counts = np.unique(masks, return_counts=True)[1]
    assert len(counts) == math.comb(5, batch)
    assert batch == 5 or chisquare(counts).pvalue > 1e-4


def statistic(rule, ratios, others):
    """What noise is added to, for a batch of these ratios (b,) in an interval around 0."""
    ratios = np.asarray(ratios)
    width, found = 2.0 * np.abs(ratios).max(), stepped.RULES[rule.kind][0]
    return found(rule, ratios.sum(), (ratios**2).sum(), width, others)[0]


def test_no_row_of_a_batch_moves_the_statistic_further_than_its_sensitivity():
    found, batch, target = 0.0, 5, ToyTarget([1.0], [1], [12], 1)
    rule = dp_penalty_subsampled.rule_of(3.0, batch, target)
    allowed = rules.penalty(rule, 0.0, 0.0, 2.0, None)[1] / rule.unit
    for values in itertools.product((-1.0, 0.0, 1.0), repeat=batch - 1):
        for one, other in ((-1.0, 1.0), (0.0, 1.0), (-1.0, 0.0)):
            pair = [statistic(rule, [*values, v], None) for v in (one, other)]
            change = abs(pair[0] - pair[1])
            assert change <= allowed
            found = max(found, change / allowed)
    assert found > 0.99


@pytest.mark.parametrize(("g", "fixed"), [(0.9, 0.8), (0.4, 1.7), (1.45, 0.2)])
@pytest.mark.parametrize("batch", [10, 1000])
def test_no_row_of_a_batch_moves_barkers_statistic_further_than_its_sensitivity(
    monkeypatch, batch, g, fixed
):
    """Half of a batch at either end is where the variance and its root are the largest."""
    rows = 4 * batch
    room = dp_barker.Room(g, dp_barker.part_of(batch, rows), fixed)
    monkeypatch.setattr(dp_barker, "widest_room", lambda *_: room)
    rule = dp_barker.rule_of(1.0, batch, ToyTarget([1.0], [1], [rows], 1))
    most, worst = 0.5 * rule.widest, 0.0
    for high in range(0, batch, max(1, batch // 100)):
        for clamped in (-100.0, 0.0, 100.0):
            pair = [
                statistic(
                    rule, most * np.repeat([1.0, -1.0], [count, batch - count]), (clamped, 0.0)
                )
                for count in (high, high + 1)
            ]
            worst = max(worst, abs(pair[0] - pair[1]))
    assert worst <= dp_barker.sensitivity(room.g, room.part, room.fixed, batch)
    assert worst > 0.25 * dp_barker.sensitivity(room.g, room.part, room.fixed, batch)


def test_barker_rejects_what_its_noise_does_not_cover():
    rule = dp_barker.rule_of(1.0, 10, ToyTarget([1.0], [1], [40], 1, tempering=0.5))
    for width, accepted in ((rule.widest, True), (rule.widest * 1.0001, False)):
        assert rules.barker_accepts(rule, 0.0, width, 9.0, (0.0, 0.0)) == accepted
