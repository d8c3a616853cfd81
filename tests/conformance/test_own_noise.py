"""Every charged release has noise of its own: drawn once, at its site, and used where it belongs.

All of it is drawn by dpmcmc.privacy.discrete.gaussian_noise, which is listened to here, and made to
say what a test wants to see the effect of.
"""

import dataclasses
import math
import sys
from collections import Counter

import numpy as np
import pytest

from dpmcmc.base.private import Permit, Private
from dpmcmc.families import rowwise
from dpmcmc.fit.local import table_of
from dpmcmc.fit.run import run
from dpmcmc.inputs.options import Start
from dpmcmc.inputs.spec import JobSpec, PrivacySpec
from dpmcmc.planner import plan
from dpmcmc.privacy import discrete
from dpmcmc.privacy.drawn import steps
from dpmcmc.privacy.event_json import digest
from dpmcmc.privacy.events import WithoutReplacement
from dpmcmc.privacy.pld import leaves
from dpmcmc.privacy.sites import (
    BARKER_DECISION,
    NOISY_MEAN,
    NOISY_QUADRATIC,
    PENALTY_DECISION,
    SUBSAMPLED_DECISION,
    SUFFICIENT_STATISTICS,
    TRAJECTORY_DECISION,
    TRAJECTORY_GRADIENT,
    VARIATIONAL_GRADIENT,
)
from dpmcmc.releases import RELEASES, noisy_mean
from dpmcmc.samplers import SAMPLERS, dp_barker, minibatch
from dpmcmc.samplers.algorithms import ALGORITHMS
from dpmcmc.samplers.barker_correction import LOCATIONS, WEIGHTS
from tests.cases import EXAMPLES, schema_of
from tests.conformance.test_noise import VARIANTS
from tests.conformance.toys import cold, gaussian_means
from tests.sources import Seeded

ROWS, STEPS, CHAINS = 12, 9, 3
SCHEMA = schema_of(ROWS, most=4)
DECISIONS = {PENALTY_DECISION, SUBSAMPLED_DECISION, BARKER_DECISION, TRAJECTORY_DECISION}
VECTORS = {
    TRAJECTORY_GRADIENT,
    NOISY_MEAN,
    NOISY_QUADRATIC,
    VARIATIONAL_GRADIENT,
    SUFFICIENT_STATISTICS,
}
SURELY = 1 << 44  # cells: far more than any ratio
LATE, TWICE = (
    {"start": Start(share=0.2)},
    {"shares": (0.3, 0.7), "clip_bounds": (3.0, 2.0)},
)
CASES = [
    *(pytest.param(name, "logistic", {}, id=name) for name in SAMPLERS),
    *(pytest.param(name, "logistic", LATE, id=f"{name} after a start") for name in SAMPLERS),
    *(pytest.param(name, "banana", LATE, id=f"{name} of a banana") for name in SAMPLERS),
    *(
        pytest.param(name, family, {}, id=f"{name} of {family}")
        for name in RELEASES
        for family in sorted(RELEASES[name].families)
    ),
    pytest.param("noisy_mean", "banana", TWICE, id="two noisy means"),
]


@pytest.fixture
def door(monkeypatch):
    """Listen at the door to noise: [(site, multiplier, integers)].

    .answer(site, drawn) -> what is handed out in place of what was drawn.
    """
    real = discrete.gaussian_noise

    class Door(list):
        answer = staticmethod(lambda _, drawn: drawn)

        def __call__(self, random, site, multiplier, shape):
            drawn = self.answer(site, real(random, site, multiplier, shape))
            self.append((site, multiplier, drawn))
            return drawn

    opened = Door()
    for name, module in sys.modules.items():
        if name.startswith("dpmcmc") and getattr(module, "gaussian_noise", None) is real:
            monkeypatch.setattr(module, "gaussian_noise", opened)
    return opened


def planned(name, family, **options):
    """A plan of a job with so much noise that no integer comes twice."""
    known = {field.name for field in dataclasses.fields(ALGORITHMS[name].options)}
    cold_start = {"start": None} if "start" in known else {}
    numbers = {"num_steps": STEPS, "num_chains": CHAINS, "num_warmup": 0}
    spec = JobSpec(
        model=EXAMPLES[family],
        sampler=ALGORITHMS[name].options(**{**numbers, **cold_start, **options}),
        privacy=PrivacySpec(delta=1e-6, noise_multiplier=1e3),
        spend="all" if name == "noisy_quadratic" else "until_hopeless",
    )
    return plan(SCHEMA, spec)


def drawing(made):
    """A plan's run."""
    rng = np.random.default_rng(4)
    data = {"x": rng.uniform(-1, 1, ROWS), "count": rng.integers(5, size=ROWS).astype(float)}
    data["y"] = rng.choice(["no", "yes"], ROWS)
    data["g"] = rng.choice(["a", "b", "c"], ROWS)
    permit = Permit(subject="d", event_digest=digest(made.event))
    rows = Private(table_of(SCHEMA, data), subject="d")
    return run(SCHEMA, made.spec, rows, permit, random=Seeded(5))


def drawn_chain(made):
    """The chain of a plan, (chain, draw, parameter)."""
    return np.concatenate([block.value for block in drawing(made)], axis=1)


@pytest.mark.longer
@pytest.mark.parametrize(("name", "family", "options"), CASES)
def test_each_charged_release_has_noise_of_its_own(door, name, family, options):
    """As many integers, or vectors of them, as the event lists, at the same multipliers."""
    made = planned(name, family, **options)
    drawn_chain(made)
    released, charged = Counter(), Counter()
    for site, multiplier, drawn in door:
        shape = drawn.shape[:-1] if site in VECTORS else drawn.shape
        assert site in VECTORS | DECISIONS
        released[multiplier] += math.prod(shape)
    for leaf, count in leaves(made.event).items():
        base = leaf.event if isinstance(leaf, WithoutReplacement) else leaf
        charged[base.noise_multiplier] += count
    assert released == charged
    every = np.concatenate([drawn.ravel() for _, _, drawn in door])
    assert len(np.unique(every)) == len(every)


@pytest.mark.parametrize("family", sorted(RELEASES["noisy_quadratic"].families))
def test_a_release_that_stops_early_has_drawn_what_it_says(door, family):
    made = planned("noisy_quadratic", family)
    made = dataclasses.replace(made, spec=dataclasses.replace(made.spec, spend="until_hopeless"))
    running = drawing(made)
    assert len(list(running)) == 1
    released = tuple(multiplier for _, multiplier, _ in door)
    assert released == tuple(step.noise_multiplier for step in steps(running.drawn))
    assert len(released) < len(steps(made.event))


@pytest.mark.parametrize("name", SAMPLERS)
def test_each_decision_is_made_with_its_own_noise(door, monkeypatch, name):
    """Noise that says yes or no to a step of a chain is heard there and nowhere else."""
    pattern = np.random.default_rng(6).random((STEPS, CHAINS)) < 0.5
    monkeypatch.setattr(minibatch, "AT_ONCE", 4 * ROWS * CHAINS)  # 4 steps, 4, and 1
    taken = []

    def answer(site, drawn):
        if site not in DECISIONS:
            return drawn
        first = sum(map(len, taken))
        taken.append(drawn)
        return np.where(pattern[first : first + len(drawn)], SURELY, -SURELY)

    door.answer = answer
    options = {"scale": 1e-3} if name == "dp_barker" else {}
    draws = drawn_chain(planned(name, "logistic", **options))
    if not SAMPLERS[name].exact and not taken:
        return  # it decides nothing
    moved = np.diff(draws, axis=1).any(axis=2).T
    assert moved.tolist() == pattern[1:].tolist()
    assert (np.abs(draws[:, 0] - draws[:, 0][~pattern[0]][0]).any(axis=1) == pattern[0]).all()


PATH = {"step_size": 0.1, "mass": (1.0,), "gradient_clip": 1.0, "gradient_noise_multiplier": 3.0}
TEMPERING, LENGTH, LEAPFROGS = 0.2, 4, 3
LOW, HIGH = -2.0, 6.0  # bounds of a row of gaussian_means, whose variance is 1


def opened(name, options, chains, steps=1):
    """A sampler, its options and its target of ten rows N(theta, 1)."""
    sampler = SAMPLERS[name]
    given = cold(sampler, num_steps=steps, num_chains=chains, num_warmup=0, **options)
    problem = gaussian_means(np.random.default_rng(8), 10, TEMPERING)
    return sampler, given, *problem.opened(given, 1.0, chains), problem.data["x"]


def test_each_gradient_of_each_trajectory_has_its_own_noise_in_full(door):
    """An integer that is larger by LUMP kicks its own chain, from its own leapfrog on."""
    chains, lump = 2, 1 << 17
    options = {**PATH, "num_leapfrog": LEAPFROGS}

    def draws(changed):
        sampler, given, target, *_ = opened("dp_hmc", options, chains, LENGTH)

        def answer(site, drawn):
            if site == TRAJECTORY_DECISION:
                return np.full_like(drawn, SURELY)
            if changed is not None and drawn.ndim == 4:
                drawn[changed] += lump
            return drawn

        door.answer, source = answer, Seeded(7)
        state = sampler.init(target, given, 1.0, source)
        return sampler.step(target, given, 1.0, LENGTH, source, state)[:, :, 0]

    still = draws(None)
    cell = discrete.noisy_grid(1, 2.0 * PATH["gradient_clip"] * TEMPERING, 3.0)
    for t, k, c in np.ndindex(LENGTH, LEAPFROGS, chains):
        apart = draws((t, k, c, 0)) - still
        first = t if k < LEAPFROGS - 1 else t + 1
        assert not apart[1 - c].any()
        assert not apart[c, :first].any()
        assert apart[c, first:].all()
        if k == LEAPFROGS - 2:  # two half kicks before the last drift
            assert apart[c, t] == pytest.approx(PATH["step_size"] ** 2 * cell * lump, rel=1e-9)


@pytest.mark.parametrize("name", ["dp_hmc", "dp_mala"])
def test_cells_of_gradients_are_made_for_all_of_their_dimensions(monkeypatch, name):
    """Where a chain begins and on its way: rounding moves a vector in every one of them."""
    made, real, dimensions = planned(name, "logistic"), discrete.noisy_grid, []

    def heard(dimension, *rest):
        dimensions.append(dimension)
        return real(dimension, *rest)

    for module in (discrete, rowwise):
        monkeypatch.setattr(module, "noisy_grid", heard)
    draws = drawn_chain(made)
    assert draws.shape[2] > 1
    assert len(dimensions) > 1
    assert set(dimensions) == {draws.shape[2]}


class Steered(Seeded):
    """Normals that are all `move`; uniforms that are `uniform`, but for the first few times."""

    def __init__(self, move, uniform, others=0):
        super().__init__(3)
        self.move, self.uniform, self.others = move, uniform, others

    def normals(self, shape):
        return np.full(shape, self.move)

    def uniforms(self, shape):
        self.others -= 1
        return np.full(shape, 0.5 if self.others >= 0 else self.uniform)

    def integers(self, high, shape):
        return np.ones(shape, np.int64) if high == 2 else super().integers(high, shape)


def least_noise(door, variant, multiplier, uniform):
    """(integer, move): the least noise with which a step is accepted, and where it goes."""
    name, options = VARIANTS[variant]
    barker = name == "dp_barker"  # which asks for a uniform to choose the length of its move
    changed = {"batch": 5} if "batch" in options else {}
    changed |= {"scale": 0.01} if barker else {}
    sampler, given, target, *_ = opened(name, {**options, **changed}, 1)
    said = {}
    door.answer = lambda site, drawn: np.full_like(drawn, said["n"] if site in DECISIONS else 0)

    def moved(n):
        said["n"], source = n, Steered(0.5, uniform, others=int(barker))
        target.position[:] = 0.0
        target.refresh()
        state = sampler.init(target, given, multiplier, source)
        if hasattr(state, "signs"):
            state.signs = np.ones((1, 1), np.int64)
        return float(sampler.step(target, given, multiplier, 1, source, state)[0, 0, 0])

    low, high = -SURELY, SURELY
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if moved(middle) else (middle, high)
    return high, moved(high)


@pytest.mark.parametrize("multiplier", [0.7, 40.0])
@pytest.mark.parametrize("variant", ["full", "component", "own component", "guided", "hmc"])
def test_a_decision_counts_its_noise_in_full(door, variant, multiplier):
    """A cell of it is worth a cell of the sensitivity that the bounds of rows give."""
    scale, found = discrete.scale_of(multiplier), {}
    for uniform in (0.3, 0.9):
        found[uniform], move = least_noise(door, variant, multiplier, uniform)
    width = TEMPERING * abs(move) * (HIGH - LOW)
    apart = (found[0.9] - found[0.3]) * scale.unit * width
    assert apart == pytest.approx(math.log(0.9 / 0.3), rel=1e-4)
    if variant == "hmc":
        return  # whose kinetic energy has noise as well
    *_, target, _, x = opened("dp_penalty", VARIANTS["full"][1], 1)
    known = float(target.log_prior_ratio(np.full((1, 1), move))[0])
    middle = 0.5 * (LOW + HIGH)  # positions are sds from there
    total = TEMPERING * float(np.sum(move * (x - middle - 0.5 * move)))
    s = scale.sd * scale.unit * width
    expected = math.log(0.9) - known - total + 0.5 * s * s
    assert found[0.9] * scale.unit * width == pytest.approx(expected, abs=1e-3 * s)


@pytest.mark.parametrize("multiplier", [0.7, 40.0])
def test_a_decision_on_a_batch_counts_its_noise_in_full(door, multiplier):
    scale, rows, batch = discrete.scale_of(multiplier), 10, 5
    high, move = least_noise(door, "subsampled", multiplier, 0.9)
    low, _ = least_noise(door, "subsampled", multiplier, 0.3)
    width = TEMPERING * rows / batch * abs(move) * (HIGH - LOW)
    part = (1 - batch / rows) * batch / (batch - 1)
    width += 0.5 * part * width**2 * (batch - 1) / batch
    assert (high - low) * scale.unit * width == pytest.approx(math.log(0.9 / 0.3), rel=1e-4)


@pytest.mark.parametrize("multiplier", [0.7, 40.0])
def test_barkers_decision_counts_its_noise_in_full(door, multiplier):
    """Against the correction, of which a uniform says how large it is."""
    ends, found = np.cumsum(WEIGHTS), {}
    for k in (0, 2):
        found[k], _ = least_noise(door, "barker", multiplier, ends[k] - 0.01)
    fixed = dp_barker.widest_room(multiplier, 5, 10).fixed
    cell = math.sqrt(fixed) / discrete.scale_of(multiplier).sd
    assert (found[0] - found[2]) * cell == pytest.approx(LOCATIONS[2] - LOCATIONS[0], rel=1e-4)


@pytest.mark.parametrize("multiplier", [0.7, 40.0])
def test_a_released_mean_counts_its_noise_in_full(door, multiplier):
    _, _, target, _, _ = opened("dp_penalty", VARIANTS["full"][1], 1)
    clip, lump, found = 3.0, 1 << 17, []
    for n in (0, lump):
        door.answer = lambda _, drawn, n=n: np.full_like(drawn, n)
        found.append(noisy_mean.released_sum(target, np.zeros(1), clip, multiplier, Seeded(1))[0])
    cell = discrete.noisy_grid(1, 2.0 * clip * TEMPERING, multiplier)
    assert found[1] - found[0] == pytest.approx(cell * lump / TEMPERING, rel=1e-9)
