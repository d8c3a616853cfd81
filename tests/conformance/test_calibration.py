"""Every sampler's own step leaves the posterior invariant, and 10 % in its penalty would show.

All chains start at exact draws; after 60 steps their ranks must still be uniform.
"""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import chisquare

from dpmcmc.samplers import (
    SAMPLERS,
    ComponentProposal,
    Proposal,
    dp_barker,
    dp_penalty_guided,
    dp_penalty_subsampled,
    hamiltonian,
)
from dpmcmc.samplers.minibatch import batches

STEPS = 60
COMPONENTS = {"dp_penalty", "dp_penalty_component"}  # test_samplers.py
SIX = {"x": np.linspace(-1, 1, 6), "y": [0, 1, 1, 0, 1, 1], "counts": [1] * 6}


class ToyTarget:
    """Logistic rows of one coefficient: count rows of each (x, y), prior N(0, 1).

    Implements dpmcmc.samplers.base.Target in plain NumPy for any number of chains.
    """

    def __init__(self, x, y, counts, chains, tempering=1.0):
        self.signed = np.asarray(x, float) * (2.0 * np.asarray(y, float) - 1.0)
        self.counts = np.asarray(counts)
        self.rows = int(self.counts.sum())
        self.tempering = tempering
        self.reach = float(np.abs(self.signed).max())
        self.position = np.zeros((chains, 1))

    def refresh(self):
        pass

    def likelihoods(self, positions):
        return -np.logaddexp(0.0, -positions * self.signed)

    def log_density(self, grid):
        likelihood = self.likelihoods(grid[:, None]) @ self.counts
        return self.tempering * likelihood - 0.5 * grid**2

    def ratios(self, deltas):
        return self.likelihoods(self.position + deltas) - self.likelihoods(self.position)

    def vector_ratios(self, deltas):
        sums = self.tempering * (self.ratios(deltas) @ self.counts)
        width = 2.0 * self.reach * np.abs(deltas[:, 0])
        return sums, self.tempering * width, self.log_prior_ratio(deltas)

    def component_ratios(self, _, deltas):
        return self.vector_ratios(deltas[:, None])

    def move(self, deltas, accepted):
        self.position[accepted] += deltas[accepted]

    vector_commit = move

    def component_commit(self, _, deltas, accepted):
        self.move(deltas[:, None], accepted)

    def gradient(self, positions, clip):
        slopes = self.signed / (1.0 + np.exp(positions * self.signed))
        sums = np.clip(slopes, -clip, clip) @ self.counts
        return self.tempering * sums[:, None], 2.0 * clip * self.tempering

    def batch_ratios(self, deltas, counts):
        """counts: rows of each kind in the batch, in place of row numbers."""
        ratios, most = self.ratios(deltas), self.reach * np.abs(deltas[:, 0])
        return (counts * ratios).sum(axis=1), (counts * ratios**2).sum(axis=1), -most, most

    def gram(self, positions, bound):
        p = 1.0 / (1.0 + np.exp(-positions * self.signed))
        sums = np.minimum(p * (1.0 - p), bound) * self.signed**2 @ self.counts
        return self.tempering * sums[:, None, None], np.sqrt(2.0) * bound * self.reach**2

    def log_prior_ratio(self, deltas):
        return -(deltas * (self.position + 0.5 * deltas)).sum(axis=1)

    def log_prior_gradient(self, positions):
        return -positions


def exact(target):
    """The posterior on a grid, and its distribution function there."""
    grid = np.linspace(-8.0, 8.0, 40_001)
    log = target.log_density(grid)
    mass = np.cumsum(np.exp(log - log.max()))
    return grid, mass / mass[-1]


class Seeded:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def normals(self, shape):
        return self.rng.standard_normal(shape)

    def uniforms(self, shape):
        return 1.0 - self.rng.random(shape)

    def integers(self, high, shape):
        return self.rng.integers(high, size=shape)


def p_value(name, toy, chains, noise_multiplier, steps=STEPS, seed=1, **options):
    random = Seeded(seed)
    target = ToyTarget(**toy, chains=chains)
    grid, distribution = exact(target)
    target.position[:, 0] = np.interp(random.uniforms((chains,)), distribution, grid)
    sampler = SAMPLERS[name]
    given = sampler.options(num_steps=steps, num_chains=chains, num_warmup=0, **options)
    state = sampler.start(target, given, noise_multiplier, random)
    for _ in range(steps // 10):
        sampler.advance(target, given, noise_multiplier, 10, random, state)
    ranks = np.interp(target.position[:, 0], grid, distribution)
    return float(chisquare(np.histogram(ranks, 20, (0, 1))[0]).pvalue)


def wrong_penalty(factor):
    def accept(sums, sensitivities, priors, noise_multiplier, normals, uniforms):
        s = noise_multiplier * sensitivities
        return list(np.log(uniforms) < sums + s * normals + priors - 0.5 * factor * s * s)

    return accept


GUIDED = ("dp_penalty_guided", SIX, 120_000, 1.5)
SHAPES = {"proposal": ComponentProposal(scale=1.0, shape="normal")}
WEAK = {
    "mass": (1.0,),
    "gradient_clip": 0.05,
    "gradient_noise_multiplier": 0.5,
    "warm_start": None,
}
HMC = ("dp_hmc", SIX, 60_000, 1.5)
MALA = ("dp_mala", SIX, 120_000, 1.5)
KINDS = {"x": [1, 1, -1, -1], "y": [1, 0, 1, 0], "counts": [700, 300, 400, 600], "tempering": 0.005}
SUBSAMPLED = ("dp_penalty_subsampled", KINDS, 60_000, 60.0)
ONE = {"proposal": Proposal(kind="full", scale=1.0, shape="normal"), "batch": 500}
BARKER = ("dp_barker", KINDS, 60_000, 1.0)
CASES = [
    pytest.param(SUBSAMPLED, ONE, id="subsampled"),
    pytest.param(GUIDED, SHAPES, id="guided"),
    pytest.param(HMC, {**WEAK, "step_size": 0.35}, id="hmc"),
    pytest.param(MALA, {**WEAK, "step_size": 1.0}, id="mala"),
]


@pytest.fixture(autouse=True)
def quick_noise(monkeypatch):
    """Rounded normals for the gradients' noise, and batches by their rows of each kind."""

    def rounded(random, log2_sd, shape):
        return np.rint(2.0**log2_sd * random.normals(shape)).astype(np.int64)

    def counted(random, rows, batch, chains):
        assert rows == sum(KINDS["counts"])
        return random.rng.multivariate_hypergeometric(
            KINDS["counts"], batch, size=chains, method="marginals"
        )

    monkeypatch.setattr(hamiltonian, "discrete_gaussian", rounded)
    monkeypatch.setattr(dp_penalty_subsampled, "batches", counted)
    monkeypatch.setattr(dp_barker, "batches", counted)


@pytest.mark.parametrize("name", [name for name in SAMPLERS if name not in COMPONENTS])
def test_every_other_sampler_is_calibrated_here(name):
    assert name in {case.values[0][0] for case in CASES} | {BARKER[0]}


@pytest.mark.parametrize(("case", "options"), CASES)
def test_the_posterior_stays_as_it_is(case, options):
    assert p_value(*case, **options) > 0.001


@pytest.mark.parametrize(("case", "options"), CASES)
def test_a_tenth_of_the_penalty_would_show(monkeypatch, case, options):
    for module in (dp_penalty_guided, dp_penalty_subsampled, hamiltonian):
        monkeypatch.setattr(module, "accept", wrong_penalty(1.1))
    assert p_value(*case, **options) < 0.001


def test_good_gradients_keep_the_posterior_too():
    options = {**WEAK, "gradient_clip": 1.0, "step_size": 0.35}
    assert p_value("dp_hmc", SIX, 40_000, 1.5, steps=20, **options) > 0.001


LONG = {"batch": 500, "scale": 2.23}


def test_barker_keeps_the_posterior():
    assert p_value(*BARKER, steps=40, **LONG) > 0.001


def test_a_tenth_of_barkers_ratio_would_show(monkeypatch):
    decide = dp_barker.decide

    def wrong(means, deviations, priors, *rest):
        return decide(1.1 * means, deviations, 1.1 * priors, *rest)

    monkeypatch.setattr(dp_barker, "decide", wrong)
    assert p_value(*BARKER, steps=40, **LONG) < 0.001


@pytest.mark.parametrize("batch", [2, 3, 5])
def test_batches_are_uniform_subsets(batch):
    drawn = batches(Seeded(4), 5, batch, 12_000)
    assert drawn.shape == (12_000, batch)
    assert all(len(set(rows)) == batch for rows in drawn[:200].tolist())
    masks = (1 << np.sort(drawn, axis=1)).sum(axis=1)
    counts = np.unique(masks, return_counts=True)[1]
    assert len(counts) == math.comb(5, batch)
    assert batch == 5 or chisquare(counts).pvalue > 1e-4


class Batch:
    """A target of which only the ratios of one batch are known."""

    tempering = 1.0

    def __init__(self, rows, ratios):
        self.rows, self.values = rows, np.asarray(ratios)

    def batch_ratios(self, *_):
        sums, squares = self.values.sum(), (self.values**2).sum()
        return np.array([sums]), np.array([squares]), np.array([-1.0]), np.array([1.0])


def test_no_row_of_a_batch_moves_the_statistic_further_than_its_sensitivity(monkeypatch):
    monkeypatch.setattr(dp_penalty_subsampled, "batches", lambda *_: None)
    found, batch = 0.0, 5
    for values in itertools.product((-1.0, 0.0, 1.0), repeat=batch - 1):
        for one, other in ((-1.0, 1.0), (0.0, 1.0), (-1.0, 0.0)):
            pair = [
                dp_penalty_subsampled.released(
                    Batch(12, [*values, v]), np.zeros((1, 1)), batch, None
                )
                for v in (one, other)
            ]
            change, allowed = abs(pair[0][0] - pair[1][0])[0], pair[0][1][0]
            assert change <= allowed
            found = max(found, change / allowed)
    assert found > 0.99


@pytest.mark.parametrize("batch", [10, 1000])
def test_no_row_of_a_batch_moves_barkers_statistic_further_than_its_sensitivity(batch):
    """Half of a batch at either end is where the variance and its root are the largest."""
    rows, g = 4 * batch, 0.9
    most, worst = g * np.sqrt(batch) / rows, 0.0
    for high in range(batch):
        pair = []
        for count in (high, high + 1):
            ratios = most * np.repeat([1.0, -1.0], [count, batch - count])
            for clamped in (-100.0, 0.0, 100.0):
                normals = np.array([[clamped], [0.0]])
                mean, deviation = ratios.mean(), ratios.var() / batch
                args = (np.array([mean]), np.array([deviation]), 0.0, rows, g, normals, 0.0)
                pair.append(dp_barker.decide(*args)[0])
        changes = np.abs(np.array(pair[:3]) - pair[3:])
        worst = max(worst, changes.max())
    assert worst <= dp_barker.sensitivity(g, batch)
    assert worst > 0.5 * dp_barker.sensitivity(g, batch)
