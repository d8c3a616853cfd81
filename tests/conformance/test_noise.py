"""Every look at the rows is charged, and carries noise of the size that was charged for it.

Each check is sharp enough that four fifths of the noise fail it, and most are made with that too.
"""

import math
from collections import Counter

import numba
import numpy as np
import pytest
from scipy.stats import norm

from dpmcmc.privacy.events import Gaussian
from dpmcmc.privacy.noise import SystemRandom
from dpmcmc.privacy.pld import leaves
from dpmcmc.samplers import (
    SAMPLERS,
    ComponentProposal,
    DpHmcOptions,
    DpMalaOptions,
    Proposal,
    WarmStart,
    dp_barker,
    hamiltonian,
    minibatch,
    rules,
    warm_start,
)
from dpmcmc.samplers.barker_correction import ERROR
from tests.conformance.toys import Toy, cold, gaussian_means

SURE = 5.0  # standard errors
LESS = 0.8  # of the noise
ROWS, BATCH = 100, 20
CHAINS = 60_000
MOVE = {"proposal": Proposal(kind="full", scale=1.0, shape="normal")}
ONE = {"proposal": ComponentProposal(scale=1.0, shape="normal")}
PATH = {
    "step_size": 0.1,
    "mass": (1.0,),
    "gradient_clip": 1.0,
    "gradient_noise_multiplier": 3.0,
}
VARIANTS = {
    "full": ("dp_penalty", MOVE),
    "component": ("dp_penalty", {"proposal": Proposal(scale=1.0)}),
    "own component": ("dp_penalty_component", ONE),
    "guided": ("dp_penalty_guided", ONE),
    "subsampled": ("dp_penalty_subsampled", {**MOVE, "batch": BATCH}),
    "barker": ("dp_barker", {"scale": 1.0, "batch": BATCH}),
    "hmc": ("dp_hmc", PATH),
    "mala": ("dp_mala", PATH),
}
NOISY = [name for name in VARIANTS if name != "barker"]
STARTS = WarmStart(noise_multiplier=2.0, gradient_clip=1.0, curvature_bound=1.0, num_scores=9)


class Flat(Toy):
    """Rows that say nothing: every sum is `total`, one row may change it by `width`.

    Implements dpmcmc.samplers.base.Target, and counts the looks at the rows.
    """

    rows, tempering, bounded, even = ROWS, 1.0, False, False

    def __init__(self, chains, dimension=1, total=0.0, width=1.0, steepness=1.0):
        self.position = np.zeros((chains, dimension))
        self.total, self.width, self.steepness = total, width, steepness
        self.looks = Counter()

    def refresh(self):
        pass

    def vector_ratios(self, deltas):
        self.looks["ratio"] += len(deltas)
        filled = np.ones(len(deltas))
        return self.total * filled, self.width * filled, 0.0 * filled

    def batch_ratios(self, deltas, _):
        self.looks["ratio"] += len(deltas)
        filled = np.ones(len(deltas))
        half = 0.5 * self.width * filled
        return self.total * filled, self.total**2 / BATCH * filled, -half, half

    def move(self, deltas, accepted):
        self.position[accepted] += deltas[accepted]

    vector_commit = move

    def gradient(self, positions, _):
        self.looks["gradient"] += len(positions)
        return np.zeros_like(positions), self.steepness

    def gram(self, positions, *_):
        self.looks["curvature"] += len(positions)
        d = positions.shape[1]
        return np.tile(100.0 * np.eye(d), (len(positions), 1, 1)), self.steepness

    def log_prior_ratio(self, deltas):
        return np.zeros(len(deltas))

    def log_prior_gradient(self, positions):
        return np.zeros_like(positions)


@pytest.fixture
def unread_batches(monkeypatch):
    """Flat asks for no row numbers."""
    monkeypatch.setattr(minibatch, "batches", lambda _, __, ___, count: np.zeros((count, 1)))


def advanced(variant, target, multiplier, steps=1):
    name, options = VARIANTS[variant]
    sampler, random, chains = SAMPLERS[name], SystemRandom(), len(target.position)
    given = cold(sampler, num_steps=steps, num_chains=chains, num_warmup=0, **options)
    state = sampler.start(target, given, multiplier, random)
    draws = sampler.advance(target, given, multiplier, steps, random, state)
    return draws, state, sampler.event(given, multiplier, ROWS)


@pytest.mark.parametrize("name", SAMPLERS)
def test_every_sampler_is_listened_to(name):
    assert name in {variant[0] for variant in VARIANTS.values()}


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_look_at_the_rows_is_in_the_event(variant):
    target = Flat(3)
    draws, _, event = advanced(variant, target, 2.0, steps=7)
    assert draws.shape == (3, 7, 1)
    assert target.looks.total() == sum(leaves(event).values())


@pytest.mark.usefixtures("unread_batches")
@pytest.mark.parametrize("variant", NOISY)
def test_ratios_carry_the_noise_that_was_paid_for(variant):
    """With a sum of 0 and noise of sd s a move is accepted with probability 2 Phi(-s / 2)."""
    multiplier = 2.0
    target = Flat(CHAINS, width=0.15, steepness=1e-9)
    batched = variant == "subsampled"
    if batched:
        jump = 0.5 * (1 - BATCH / ROWS) * (ROWS / BATCH) ** 2 * target.width**2
        sensitivity = ROWS / BATCH * target.width + jump
    else:
        target.width = sensitivity = 0.8
    expected = 2 * norm.cdf(-0.5 * multiplier * sensitivity)
    room = SURE * math.sqrt(0.25 / CHAINS)

    def accepted(z):
        target.position[:] = 0.0
        return np.mean(np.abs(advanced(variant, target, z)[0][:, 0, 0]) > 0)

    assert abs(accepted(multiplier) - expected) < room
    assert abs(accepted(LESS * multiplier) - expected) > 3 * room


@pytest.mark.usefixtures("unread_batches")
def test_barkers_decision_carries_the_noise_that_was_paid_for(monkeypatch):
    """All of it makes a decision logistic. Less of the part that privacy rests on would show."""
    chains, logit = 400_000, 1.5
    target = Flat(chains, total=logit * BATCH / ROWS, width=1e-9)
    room = ERROR + SURE * math.sqrt(0.25 / chains)
    expected = 1 / (1 + math.exp(-logit))

    def accepted():
        target.position[:] = 0.0
        return np.mean(np.abs(advanced("barker", target, 10.0)[0][:, 0, 0]) > 0)

    assert abs(accepted() - expected) < room

    def quieter(*args):
        filling, private, correction = args[-1]
        return rules.barker(*args[:-1], (filling, LESS * private, correction))

    monkeypatch.setitem(rules.RULES, rules.BARKER, quieter)
    assert abs(accepted() - expected) > room


@pytest.mark.parametrize("batch", [2, 100, 10_000])
@pytest.mark.parametrize("multiplier", [0.01, 1.0, 30.0, 1e4])
def test_barker_moves_no_further_than_its_noise_covers(multiplier, batch):
    for rows in (batch, batch + 1, 40 * batch):
        room = dp_barker.widest(multiplier, batch, rows)
        assert multiplier * room.sensitivity(batch) <= math.sqrt(room.fixed)
        assert room.fixed + room.most < dp_barker.VARIANCE


@pytest.mark.parametrize("options", [DpHmcOptions, DpMalaOptions])
def test_gradients_carry_the_noise_that_was_paid_for(options):
    """The first one, which opens the chain, and the last one of an accepted trajectory."""
    chains, multiplier, steepness = 20_000, 3.0, 0.25
    variant = {"dp_hmc": "hmc", "dp_mala": "mala"}[options().algorithm]
    target = Flat(chains, width=1e-9, steepness=steepness)
    given = options(num_steps=1, num_chains=chains, warm_start=None, **PATH)
    room = SURE / math.sqrt(2 * chains)
    first = hamiltonian.start(target, given, 1.0, SystemRandom()).gradients
    draws, state, _ = advanced(variant, target, 1.0)
    assert np.mean(draws == 0.0) < 0.5
    for released in (first, state.gradients):
        assert released.std() == pytest.approx(multiplier * steepness, rel=room)
        assert LESS * released.std() != pytest.approx(multiplier * steepness, rel=room)


@pytest.mark.parametrize("part", ["score", "look"])
def test_a_warm_start_releases_with_the_noise_that_was_paid_for(monkeypatch, part):
    """Scores by themselves; curvatures by their entries, of which those off the diagonal count
    twice in the norm."""
    d, z, steepness = 60, 1.5, 0.25
    target, errors = Flat(1, dimension=d, steepness=steepness), []
    real = warm_start.noisy_sums

    def heard(sums, *rest):
        released = real(sums, *rest)
        errors.append((released - sums).ravel())
        return released

    monkeypatch.setattr(warm_start, "noisy_sums", heard)
    finder = warm_start.Finder(target, STARTS, SystemRandom())
    for _ in range(20 if part == "score" else 2):
        getattr(finder, part)(np.zeros(d), z)
    noise = np.concatenate(errors)
    room = SURE / math.sqrt(2 * noise.size)
    assert room < 1 - LESS
    assert noise.std() == pytest.approx(z * steepness, rel=room)


def test_an_average_of_scores_carries_the_noise_of_one():
    """For one row may change all of them alike, each by as much as it may change one."""
    d, z, steepness = 60, 1.5, 0.25
    target = Flat(1, dimension=d, steepness=steepness)
    finder = warm_start.Finder(target, STARTS, SystemRandom())
    around = finder.around(np.zeros(d))
    assert len(around) == 2 * warm_start.MOST_PAIRS
    assert target.looks.total() == 0
    noise = np.concatenate([finder.score(np.zeros(d), z, around) for _ in range(20)])
    room = SURE / math.sqrt(2 * noise.size)
    assert room < 1 - LESS
    assert noise.std() == pytest.approx(z * steepness, rel=room)


def test_averages_around_a_point_are_those_of_a_normal_posterior():
    d, finder = 4, warm_start.Finder(Flat(1, dimension=4), STARTS, SystemRandom())
    finder.look(np.zeros(d), 1.0)
    points = finder.around(np.zeros(d))
    assert points.sum(axis=0) == pytest.approx(np.zeros(d), abs=1e-12)
    covariance = np.linalg.inv(finder.precision(np.zeros(d)))
    assert points.T @ points / len(points) == pytest.approx(covariance)
    cubes = np.einsum("pi,pj,pk->ijk", points, points, points)
    assert np.abs(cubes).max() < 1e-12


@pytest.mark.parametrize("mean", [False, True])
def test_a_warm_start_releases_what_its_event_lists(monkeypatch, mean):
    released, target = Counter(), Flat(1, dimension=3, steepness=1e-6)
    real = warm_start.noisy_sums

    def heard(sums, sensitivity, multiplier, noise):
        released[Gaussian(multiplier)] += 1
        return real(sums, sensitivity, multiplier, noise)

    monkeypatch.setattr(warm_start, "noisy_sums", heard)
    warm_start.find(target, STARTS, SystemRandom(), mean=mean)
    assert released == Counter(leaves(warm_start.event(STARTS)))
    points = 2 * 3 if mean else 1
    assert target.looks.total() == released.total() + (warm_start.NUM_MIDDLE + 1) * (points - 1)


class Steered:
    """The first normals, which propose, and all uniforms are known to the attacker."""

    def __init__(self, move, uniform):
        self.move, self.uniform, self.asked = move, uniform, 0
        self.private = SystemRandom()

    def normals(self, shape):
        self.asked += 1
        return np.full(shape, self.move) if self.asked == 1 else self.private.normals(shape)

    def uniforms(self, shape):
        return np.full(shape, self.uniform)

    def integers(self, high, shape):
        return self.private.integers(high, shape)


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="the kernels need the compiler")
@pytest.mark.parametrize("tempering", [1.0, 0.2])
@pytest.mark.parametrize("variant", ["full", "own component", "guided"])
def test_the_best_attack_on_a_row_is_as_good_as_the_event_says(variant, tempering):
    """One row at either end of its bounds; the threshold lies in the middle of both sums.

    Acceptance then differs by 2 Phi(1 / (2 z)) - 1, the total variation of one Gaussian event.
    """
    move, z, ends, (name, options) = 0.5, 1.0, (-2.0, 6.0), VARIANTS[variant]
    given = cold(SAMPLERS[name], num_steps=1, num_chains=CHAINS, num_warmup=0, **options)
    problem = gaussian_means(np.random.default_rng(8), 10, tempering)

    def opened(end, chains):
        problem.data["x"][0] = end
        target, _ = problem.opened(given, z, chains)
        return target

    levels = []
    for end in ends:
        target = opened(end, 1)
        target.refresh()
        sums, widths, priors = target.vector_ratios(np.array([[move]]))
        levels.append(float(sums[0] + priors[0] - 0.5 * (z * widths[0]) ** 2))
    uniform = math.exp(0.5 * sum(levels))
    assert uniform < 1.0

    def advantage():
        rates = []
        for end in ends:
            target, source = opened(end, CHAINS), Steered(move, uniform)
            state = SAMPLERS[name].start(target, given, z, source)
            state.signs, before = np.ones((CHAINS, 1), np.int64), target.position.copy()
            draws = SAMPLERS[name].advance(target, given, z, 1, source, state)
            rates.append(np.mean(draws[:, 0] != before))
        return abs(rates[1] - rates[0])

    allowed = 2 * norm.cdf(0.5 / z) - 1
    room = SURE * math.sqrt(0.5 / CHAINS)
    assert advantage() == pytest.approx(allowed, abs=room)
    quieter = 2 * norm.cdf(0.5 / (LESS * z)) - 1
    assert quieter > allowed + 2 * room
