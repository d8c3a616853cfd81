"""Every look at the rows is charged, and carries noise of the size that was charged for it.

Each check is sharp enough that four fifths of the noise fail it, and most are made with that too.
"""

import math
from collections import Counter
from dataclasses import fields

import numba
import numpy as np
import pytest
from scipy.stats import norm

from dpmcmc.inputs.options import ComponentProposal, DpHmcOptions, DpMalaOptions, Proposal
from dpmcmc.inputs.schema import NumberColumn, Schema
from dpmcmc.inputs.spec import JobSpec, ModelOptions, ModelSpec, PrivacySpec
from dpmcmc.kernels.arithmetic import rules
from dpmcmc.planner import plan
from dpmcmc.privacy.discrete import scale_of
from dpmcmc.privacy.noise import SystemRandom
from dpmcmc.privacy.pld import leaves
from dpmcmc.samplers import SAMPLERS, dp_barker, hamiltonian, minibatch
from dpmcmc.samplers.barker_correction import ERROR
from experiments import stepped
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


def as_planned(name):
    """Options that a plan gives a sampler with one coefficient, but for the numbers of steps."""
    column, mean = NumberColumn(name="x", lower=-1, upper=1), ModelOptions(variances=(1.0,))
    asked = JobSpec(
        model=ModelSpec(family="gaussian_mean", formula="~ x", options=mean),
        sampler=cold(SAMPLERS[name], num_steps=10),
        privacy=PrivacySpec(delta=1e-6, noise_multiplier=2.0),
    )
    given = vars_of(plan(Schema(columns=(column,), rows=ROWS), asked).spec.sampler)
    own = ("algorithm", "start", "num_steps", "num_chains", "num_warmup")
    return {key: value for key, value in given.items() if key not in own}


def vars_of(options):
    return {field.name: getattr(options, field.name) for field in fields(options)}


for added in set(SAMPLERS) - {name for name, _ in VARIANTS.values()}:
    VARIANTS[added] = added, as_planned(added)


class Flat(Toy):
    """Rows that say nothing: every sum is `total`, one row may change it by `width`.

    Implements dpmcmc.families.target.Target, and counts the looks at the rows.
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
    state = sampler.init(target, given, multiplier, random)
    draws = sampler.step(target, given, multiplier, steps, random, state)
    return draws, state, sampler.event(given, multiplier, ROWS)


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
        found, cells = rules.barker(*args)
        return found, LESS * cells

    monkeypatch.setitem(stepped.RULES, rules.BARKER, (quieter, stepped.barker_accepts))
    assert abs(accepted() - expected) > room


@pytest.mark.parametrize("batch", [2, 100, 10_000])
@pytest.mark.parametrize("multiplier", [0.01, 1.0, 30.0, 1e4])
def test_barker_moves_no_further_than_its_noise_covers(multiplier, batch):
    for rows in (batch, batch + 1, 40 * batch):
        room = dp_barker.widest_room(multiplier, batch, rows)
        assert multiplier * dp_barker.sensitivity(
            room.g, room.part, room.fixed, batch
        ) <= math.sqrt(room.fixed)
        assert room.fixed + room.most < dp_barker.VARIANCE


def test_barkers_noise_covers_its_sensitivity_with_all_its_roundings():
    """That of the grid, and that of sums over a batch, which is as large as 4e-8 here."""
    for multiplier, batch in ((0.3, 10_000), (2.0, 10_000), (30.0, 100)):
        target = Flat(1)
        target.rows = 4 * batch
        rule, room = (
            dp_barker.rule_of(multiplier, batch, target),
            dp_barker.widest_room(multiplier, batch, target.rows),
        )
        slope = 0.5 / math.sqrt(2.0 - room.fixed - room.most)
        turned = rules.MAX_FILLING_SDS * slope * 4.0 * room.most * (batch - 1) / batch**2
        moved = (2.0 * room.g / math.sqrt(batch) + turned) * (1.0 + batch**2 * 2.0**-51)
        assert rule.unit >= scale_of(multiplier).unit * moved * (1.0 - 1e-12)
        assert rule.unit * rule.sd == pytest.approx(math.sqrt(room.fixed))
        assert rule.scale * rule.widest == pytest.approx(2.0 * room.g / math.sqrt(batch))


@pytest.mark.parametrize("normal", [0.0, -3.0, 7.0, -50.0, 1e9])
def test_no_row_moves_barkers_statistic_further_whatever_its_other_normal_is(normal):
    """For who attacks may know that normal: what is far out is clamped."""
    batch, target = 20, Flat(1)
    rule, room = dp_barker.rule_of(5.0, batch, target), dp_barker.widest_room(5.0, batch, ROWS)
    allowed, found = dp_barker.sensitivity(room.g, room.part, room.fixed, batch), []
    for ups in range(batch):
        values = np.where(np.arange(batch) < ups, 0.5, -0.5) * rule.widest
        for last in (-0.5, -0.2, 0.0, 0.5):
            values[-1] = last * rule.widest
            told = values.sum(), (values**2).sum(), rule.widest, (normal, 0.0)
            found.append(rules.barker(rule, *told)[0])
    found = np.array(found).reshape(batch, -1)
    assert np.ptp(found, axis=1).max() <= allowed


def test_barker_takes_no_move_that_is_wider_than_its_noise_covers():
    rule = dp_barker.rule_of(5.0, BATCH, Flat(1))
    for width, taken in ((0.999, True), (1.001, False), (1e9, False), (math.nan, False)):
        told = rule, 1e12, width * rule.widest, 0.0, (0.0, 0.0)
        assert bool(rules.barker_accepts(*told)) is taken


@pytest.mark.parametrize("options", [DpHmcOptions, DpMalaOptions])
def test_gradients_carry_the_noise_that_was_paid_for(options):
    """The first one, which opens the chain, and the last one of an accepted trajectory."""
    chains, multiplier, steepness = 20_000, 3.0, 0.25
    variant = {"dp_hmc": "hmc", "dp_mala": "mala"}[options().algorithm]
    target = Flat(chains, width=1e-9, steepness=steepness)
    given = options(num_steps=1, num_chains=chains, start=None, **PATH)
    room = SURE / math.sqrt(2 * chains)
    first = hamiltonian.init(target, given, 1.0, SystemRandom()).gradients
    draws, state, _ = advanced(variant, target, 1.0)
    assert np.mean(draws == 0.0) < 0.5
    for released in (first, state.gradients):
        assert released.std() == pytest.approx(multiplier * steepness, rel=room)
        assert LESS * released.std() != pytest.approx(multiplier * steepness, rel=room)


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
            state = SAMPLERS[name].init(target, given, z, source)
            state.signs, before = np.ones((CHAINS, 1), np.int64), target.position.copy()
            draws = SAMPLERS[name].step(target, given, z, 1, source, state)
            rates.append(np.mean(draws[:, 0] != before))
        return abs(rates[1] - rates[0])

    allowed = 2 * norm.cdf(0.5 / z) - 1
    room = SURE * math.sqrt(0.5 / CHAINS)
    assert advantage() == pytest.approx(allowed, abs=room)
    quieter = 2 * norm.cdf(0.5 / (LESS * z)) - 1
    assert quieter > allowed + 2 * room
