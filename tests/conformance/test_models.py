"""What every registered model must hold. A model gets these tests by being registered."""

import itertools

import numpy as np
import pytest

from dpmcmc.base.errors import SpecError
from dpmcmc.families import MODELS, rowwise
from dpmcmc.families import rowwise as row_threads
from dpmcmc.families.target import Path, Steps, Trajectories
from dpmcmc.fit.local import sample, table_of
from dpmcmc.formula.design import make_design
from dpmcmc.inputs.options import DpPenaltyOptions
from dpmcmc.inputs.schema import BinaryColumn, CategoryColumn, NumberColumn, Schema
from dpmcmc.inputs.spec import JobSpec, ModelOptions, ModelSpec, NormalPrior, PrivacySpec
from dpmcmc.kernels.arithmetic import rules
from dpmcmc.planner import plan
from dpmcmc.privacy.discrete import discrete_gaussian, log2_sd, scale_of
from dpmcmc.privacy.noise import SystemRandom
from experiments import stepped
from experiments.stepped import Stepped, batch_decided, decided

BOUNDS = {"x": (-2.0, 4.0), "z": (10.0, 11.0), "count": (0.0, 6.0)}
GROUPS = ("a", "b", "c")
SPECS = {
    "logistic": ModelSpec(family="logistic", formula="y ~ x + C(g) + x:g"),
    "linear": ModelSpec(family="linear", formula="x ~ z + C(g)", prior=NormalPrior(scale=3.0)),
    "linear known": ModelSpec(
        family="linear",
        formula="x ~ z + y",
        prior=NormalPrior(scale=3.0),
        options=ModelOptions(noise_scale=0.7),
    ),
    "poisson": ModelSpec(family="poisson", formula="count ~ x + C(g)"),
    "gaussian_mean": ModelSpec(
        family="gaussian_mean", formula="~ x + z", options=ModelOptions(variances=(1.5, 0.1))
    ),
    "banana": ModelSpec(
        family="banana",
        formula="~ x + z + count",
        options=ModelOptions(a=0.3, b=0.2, m=0.1, variances=(1.0, 0.1, 2.0)),
    ),
    "banana natural": ModelSpec(
        family="banana",
        formula="~ x + z + count",
        prior=NormalPrior(scale=5.0),
        options=ModelOptions(a=0.3, b=0.2, m=0.1, variances=(1.0, 0.1, 2.0), coordinates="natural"),
    ),
}
specs = pytest.mark.parametrize("name", SPECS)
TEMPERING = 0.4
SINGLE = 2.0**-23  # of a row's interval: what half of the memory takes from its numbers


def schema(rows):
    return Schema(
        columns=(
            *(NumberColumn(name=n, lower=low, upper=high) for n, (low, high) in BOUNDS.items()),
            CategoryColumn(name="g", categories=GROUPS),
            BinaryColumn(name="y", categories=("no", "yes")),
        ),
        rows=rows,
    )


def random_rows(rows, rng, corners=False):
    """Rows within the bounds; at their corners where asked for."""
    draw = (lambda low, high: rng.choice([low, high], rows)) if corners else None
    data = {n: (draw or (lambda a, b: rng.uniform(a, b, rows)))(*b) for n, b in BOUNDS.items()}
    return {**data, "g": rng.choice(GROUPS, rows), "y": rng.choice(["no", "yes"], rows)}


def opened(name, data, chains=1, tempering=None, **sampler):
    """The target, its design and its spec."""
    rows = len(data["x"])
    model = SPECS[name]
    model = ModelSpec(
        family=model.family,
        formula=model.formula,
        prior=model.prior,
        tempering=tempering,
        options=model.options,
    )
    spec = JobSpec(
        model=model,
        sampler=DpPenaltyOptions(**sampler),
        privacy=PrivacySpec(delta=1e-6, epsilon=1.0),
    )
    design = make_design(schema(rows), model.formula)
    target = MODELS[model.family].target(design, spec, table_of(schema(rows), data), chains)
    return target, design, spec


def one_moves(deltas, j):
    """Moves of coefficient j alone."""
    return deltas * np.eye(deltas.shape[1])[j]


def interval(form, here, deltas, j=None):
    """(lo, hi), (chain,) each, of any row's ratio, all coefficients moving or j alone."""
    from dpmcmc.kernels.compiled import moves

    j, wide = moves.ALL_COEFFICIENTS if j is None else j, np.full(len(here), np.inf)
    clip = np.inf, np.inf, np.inf
    _, _, found, *_ = moves.prepare(
        form.public, form.max_row_norm, here, deltas, j, wide, clip, 1.0
    )
    middle, width, _ = found
    return middle - 0.5 * width, middle + 0.5 * width


def batch_sums(target, deltas, indices, j=None):
    """(sums, squares, lo, hi), (chain,) each, of what a step reads of the rows indices.

    j: the one coefficient that moves.
    """
    from dpmcmc.kernels.compiled import batches, intervals

    form, there, found = target._form, target.position + deltas, []
    ends = *form.describe(target.position), *form.describe(there)
    for c, (lo, hi) in enumerate(zip(*interval(form, target.position, deltas, j), strict=True)):
        lo, hi = intervals.clip_interval(lo, hi, (deltas[c] ** 2).sum(), *target._clip)
        middle, cell = 0.5 * (lo + hi), (hi - lo) / (2.0 * batches.HALF_INTERVAL_CELLS)
        total, square = batches.sums(
            *(target.table(), len(form.public.lower), form.max_row_norm, form.family, indices[c]),
            *(indices.shape[1], tuple(e[c] for e in ends)),
            *((1.0 / cell, middle / cell), np.empty((4, 256))),
        )
        first, second, b = cell * total, cell**2 * square, len(indices[c])
        squares = b * middle**2 + 2.0 * middle * first + second
        found.append((b * middle + first, squares, lo, hi))
    return np.array(found).T


def log_likelihood(name, design, spec, table, positions):
    """(chain, rows) written down directly, in the data's own units, up to constants of a row."""
    model = spec.model
    theta = MODELS[model.family].release(design, spec, positions)
    if model.family in ("gaussian_mean", "banana"):
        columns = np.stack([table.columns[n] for n in design.parameters])
        means = theta.copy()
        if model.family == "banana":
            means[:, 1] += model.options.a * (theta[:, 0] - model.options.m) ** 2 + model.options.b
        variances = np.array(model.options.variances)[:, None]
        return -0.5 * ((columns - means[:, :, None]) ** 2 / variances).sum(axis=1)
    x, y = design.build(table)
    eta = theta[:, : len(x)] @ x
    if model.family == "logistic":
        return -np.logaddexp(0, -(2 * y - 1) * eta)
    if model.family == "poisson":
        return y * eta - np.exp(eta)
    known = model.options.noise_scale
    log_sigma = np.log(known) * np.ones((len(theta), 1)) if known else theta[:, -1:]
    return -0.5 * ((y - eta) / np.exp(log_sigma)) ** 2 - log_sigma


def placed(target, rng, size=0.5):
    target.position[:] = target.position + size * rng.normal(size=target.position.shape)
    target.refresh()
    return target.position.copy()


@specs
@pytest.mark.parametrize("rows", [1, 255, 257, 700])
def test_sums_are_those_of_the_formula(name, rows):
    rng = np.random.default_rng(1)
    data = random_rows(rows, rng)
    target, design, spec = opened(name, data, chains=3, tempering=TEMPERING)
    table = table_of(schema(rows), data)
    for scale in (1e-6, 0.03, 1.0):
        here = placed(target, rng, 0.2)
        deltas = scale * rng.normal(size=here.shape)
        before = log_likelihood(name, design, spec, table, here)
        after = log_likelihood(name, design, spec, table, here + deltas)
        sums, widths, _ = target.vector_ratios(deltas)
        allowed = SINGLE * np.maximum(widths, 1e-9) * rows + 1e-11
        assert (np.abs(sums - TEMPERING * (after - before).sum(axis=1)) < allowed).all()
        for j in range(here.shape[1]):
            there = here.copy()
            there[:, j] += deltas[:, j]
            after = log_likelihood(name, design, spec, table, there)
            sums, widths, _ = target.vector_ratios(one_moves(deltas, j), alone=j)
            allowed = SINGLE * np.maximum(widths, 1e-9) * rows + 1e-11
            assert (np.abs(sums - TEMPERING * (after - before).sum(axis=1)) < allowed).all()


@specs
def test_no_row_within_the_bounds_leaves_the_interval_and_the_move_back_has_the_same(name):
    rng = np.random.default_rng(2)
    data = random_rows(300, rng, corners=True)
    target, design, spec = opened(name, data, chains=50)
    table = table_of(schema(300), data)
    form = MODELS[spec.model.family].form(design, spec)
    for size in (0.01, 0.3, 2.0):
        here = target.position + rng.normal(size=target.position.shape)
        there = here + size * rng.normal(size=here.shape)
        step = there - here
        moves = [(there, interval(form, here, step), interval(form, there, -step))]
        for j in range(here.shape[1]):
            step = one_moves(there - here, j)
            one = here + step
            moves.append((one, interval(form, here, step, j), interval(form, one, -step, j)))
        for ends, (lo, hi), (back_lo, back_hi) in moves:
            ratios = log_likelihood(name, design, spec, table, ends)
            ratios = ratios - log_likelihood(name, design, spec, table, here)
            room = 1e-9 * (1 + np.abs(ratios).max(axis=1))
            assert (ratios.min(axis=1) >= lo - room).all()
            assert (ratios.max(axis=1) <= hi + room).all()
            np.testing.assert_allclose(-back_hi, lo, rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(-back_lo, hi, rtol=1e-9, atol=1e-12)


@specs
def test_scores_are_the_derivatives_of_the_sums(name):
    rng = np.random.default_rng(3)
    data = random_rows(300, rng)
    target, design, spec = opened(name, data, chains=2, tempering=TEMPERING)
    table = table_of(schema(300), data)
    here, step = placed(target, rng, 0.2), 1e-5
    sums, sensitivity = target.gradient(here, 1e3)
    assert sensitivity == pytest.approx(2e3 * TEMPERING)
    for j in range(here.shape[1]):
        move = np.zeros_like(here)
        move[:, j] = step
        up = log_likelihood(name, design, spec, table, here + move).sum(axis=1)
        down = log_likelihood(name, design, spec, table, here - move).sum(axis=1)
        rough = 300 * 2e3 * 2.0**-21  # of the grid
        assert sums[:, j] == pytest.approx(TEMPERING * (up - down) / (2 * step), abs=rough)
        prior_up = target.log_prior_ratio(here + move - target.position)
        prior_down = target.log_prior_ratio(here - move - target.position)
        slope = (prior_up - prior_down) / (2 * step)
        assert target.log_prior_gradient(here)[:, j] == pytest.approx(slope, rel=1e-5, abs=1e-6)


@specs
def test_clipped_scores_are_those_of_clipped_rows(name):
    """Row by row: one row alone gives its own gradient; many give the sum of the clipped ones."""
    rng = np.random.default_rng(4)
    data = random_rows(40, rng)
    target, *_ = opened(name, data)
    here = placed(target, rng, 0.2)
    clip = 0.3
    total, _ = target.gradient(here, clip)
    expected = np.zeros(here.shape)
    for i in range(40):
        one, *_ = opened(name, {key: values[i : i + 1] for key, values in data.items()})
        gradient = one.gradient(here, 1e3)[0]
        expected += gradient * min(1.0, clip / np.linalg.norm(gradient))
        for smaller in (clip, 0.01 * clip):  # rounding to the grid included
            assert np.linalg.norm(one.gradient(here, smaller)[0]) <= smaller
    np.testing.assert_allclose(total, expected, atol=1e-3)


@pytest.mark.longer
@specs
@pytest.mark.parametrize("cut", [{"clip_bound": 0.4}, {"clip_width": 0.8}])
def test_replacing_a_row_moves_no_sum_further_than_its_sensitivity(name, cut):
    rng = np.random.default_rng(5)
    data = random_rows(12, rng)
    target, *_ = opened(name, data, tempering=TEMPERING, **cut)
    here = placed(target, rng)
    deltas = 0.5 * rng.normal(size=here.shape)
    corner = random_rows(60, rng, corners=True)
    ratios, scores, squares, batches = [], [], [], []
    for i in range(60):
        other = {key: np.concatenate((v[:11], corner[key][i : i + 1])) for key, v in data.items()}
        target, *_ = opened(name, other, tempering=TEMPERING, **cut)
        target.position[:] = here
        target.refresh()
        sums, sensitivity, _ = target.vector_ratios(deltas)
        ratios.append(sums[0])
        score, score_sensitivity = target.gradient(here, 0.7)
        scores.append(score[0])
        total, square, lo, hi = batch_sums(target, deltas, np.arange(12)[None])
        batches.append(total[0])
        squares.append(square[0])
    assert np.ptp(ratios) <= sensitivity[0]
    assert sensitivity[0] <= 2 * 0.4 * TEMPERING * 1.0001
    assert np.ptp(batches) <= (hi - lo)[0] * (1 + 1e-9)
    assert np.ptp(squares) <= max(lo[0] ** 2, hi[0] ** 2) * (1 + 1e-9)
    for one, other in itertools.combinations(range(0, 60, 3), 2):
        assert np.linalg.norm(scores[one] - scores[other]) <= score_sensitivity


@specs
def test_minibatch_sums_are_those_of_its_rows(name):
    rng = np.random.default_rng(6)
    data = random_rows(600, rng)
    target, design, spec = opened(name, data, chains=2)
    table = table_of(schema(600), data)
    here = placed(target, rng, 0.2)
    deltas = 0.05 * rng.normal(size=here.shape)
    indices = np.stack([rng.permutation(600)[:300] for _ in range(2)])
    sums, squares, lo, hi = batch_sums(target, deltas, indices)
    ratios = log_likelihood(name, design, spec, table, here + deltas)
    ratios = ratios - log_likelihood(name, design, spec, table, here)
    for c in range(2):
        picked = ratios[c, indices[c]]
        width = hi[c] - lo[c]
        assert sums[c] == pytest.approx(picked.sum(), abs=300 * width * 2.0**-18)
        assert squares[c] == pytest.approx((picked**2).sum(), rel=1e-3, abs=width**2 * 1e-3)


@specs
def test_rows_of_a_batch_are_those_of_the_data_in_single_precision(name):
    data = random_rows(300, np.random.default_rng(9))
    target, _, spec = opened(name, data)
    x, y = target._form.rows(table_of(schema(300), data))
    table, columns, line = target.table(), len(x), 64
    assert table.dtype == np.float32
    assert (table[:, :columns] == rowwise.halved(x).T).all()
    if spec.model.family in ("linear", "poisson"):
        response = table[:, columns : columns + 2].astype(float).sum(axis=1)
        assert response == pytest.approx(y, rel=2.0**-47, abs=0)
    starts = table.ctypes.data + np.arange(300) * table.strides[0]
    touched = (starts + table.strides[0] - 1) // line - starts // line + 1
    assert (touched == -(-table.strides[0] // line)).all()


@specs
@pytest.mark.parametrize("cut", [{"clip_bound": 0.3}, {"clip_width": 0.6}])
@pytest.mark.parametrize("kind", stepped.RULES)
@pytest.mark.parametrize("alone", [False, True])
def test_a_walk_on_batches_is_decided_as_its_rule_says(name, kind, cut, alone):
    """Every step as in NumPy, from its own sums: draws, decisions and all.

    alone: moves of one coefficient, whose interval is narrower.
    """
    rng, steps, chains, b = np.random.default_rng(16), 20, 2, 200
    target, *_ = opened(name, random_rows(400, rng), chains=chains, **cut)
    here = placed(target, rng, 0.2)
    noise = scale_of(0.2)
    unit = noise.unit if kind == rules.PENALTY else 0.9 / noise.sd
    rule = rules.Rule(kind, b, 0.7, 0.5, unit, noise.sd, 1.1, 1.2, 0.4, 0.2)
    deltas = 0.05 * rng.normal(size=(steps, *here.shape))
    deltas[:, 1] *= 0.01  # so that its intervals are narrow enough for Barker
    chosen = rng.integers(here.shape[1], size=steps)
    if alone:
        deltas = deltas * np.eye(here.shape[1])[chosen][:, None, :]
    drawn = discrete_gaussian(SystemRandom(), log2_sd(0.2), (steps, chains))
    others = rng.random((steps, 2, chains))
    batches = np.stack([rng.permutation(400)[:b] for _ in range(steps * chains)])
    batches = batches.reshape(steps, chains, b).astype(np.int32)
    draws = target.batch_walk(rule, deltas, drawn, others, batches)
    assert (target.position == draws[:, -1]).all()
    target.position[:], accepted = here, []
    for t in range(steps):
        j = chosen[t] if alone or here.shape[1] == 1 else None
        sums = batch_sums(target, deltas[t], batches[t], j)
        priors = target.log_prior_ratio(deltas[t])
        accepted.append(batch_decided(rule, *sums, priors, drawn[t], others[t]))
        target.move(deltas[t], accepted[-1])
        assert (target.position == draws[:, t]).all()
    assert 0.0 < np.mean(accepted) < 1.0


@specs
@pytest.mark.parametrize("guided", [False, True])
@pytest.mark.parametrize("alone", [False, True])
def test_a_walk_is_decided_as_its_rule_says(monkeypatch, name, alone, guided):
    """Step by step as in NumPy, from sums of its own; by two threads and by one."""
    rng, length, chains = np.random.default_rng(17), 40, 2
    target, *_ = opened(name, random_rows(3000, rng), chains=chains, clip_bound=0.3)
    here = placed(target, rng, 0.2)
    d = here.shape[1]
    chosen = rng.integers(d, size=length)
    deltas = 0.02 * rng.normal(size=(length, *here.shape))
    if alone:
        deltas = deltas * np.eye(d)[chosen][:, None, :]
    noise = discrete_gaussian(SystemRandom(), log2_sd(0.2), (length, chains))
    uniforms = rng.random((length, chains))
    steps = Steps(chosen, deltas, alone, noise, uniforms, scale_of(0.2))
    signs = 2 * rng.integers(2, size=(chains, d)) - 1 if guided else None
    expected, sides = [], None if signs is None else signs.copy()
    for t, k in enumerate(chosen):
        move = deltas[t] if sides is None else deltas[t] * sides[:, k, None]
        target.refresh()
        sums = target.vector_ratios(move, alone=k if alone else None)
        accepted = decided(*sums, steps.scale, noise[t], uniforms[t])
        target.vector_commit(move, accepted)
        if sides is not None:
            sides[~accepted, k] *= -1
        expected.append(target.position.copy())
    moved = np.diff(np.stack(expected), axis=0).any(axis=2).mean()
    assert 0.1 < moved < 0.95
    for company in (0, np.inf):
        monkeypatch.setattr(row_threads, "MIN_NUMBERS_PER_THREAD", company)
        monkeypatch.setattr(row_threads, "THREADS", 2)
        target.position[:], given = here, None if signs is None else signs.copy()
        draws = target.penalty_walk(steps, given)
        assert (draws == np.stack(expected, axis=1)).all()
        assert (target.position == draws[:, -1]).all()
        assert guided is False or (given == sides).all()


@pytest.mark.longer
@specs
@pytest.mark.parametrize("round_", [False, True])
def test_trajectories_are_those_of_their_gradients(monkeypatch, name, round_):
    """Step by step as in NumPy, from sums of its own; by two threads and by one, in any pieces."""
    rng, length, leapfrogs, chains = np.random.default_rng(18), 24, 3, 3
    target, *_ = opened(name, random_rows(3000, rng), chains=chains, tempering=TEMPERING)
    here = placed(target, rng, 0.2)
    d = here.shape[1]
    root, back = np.linalg.cholesky(0.5 * np.eye(d) + 0.5) * 1e-2, np.eye(d)
    if round_:
        back = target.use_coordinates(root)[0]
        target.narrow_clip(3.0 * np.linalg.inv(root).T)
    z, offset = 3.0, rng.normal(size=d)
    pull = -np.diag(rng.uniform(0.0, 9.0, d))
    path = Path(0.8, 0.5, z, root, back, here[0], pull, offset)
    steps = Trajectories(
        rng.normal(size=(length, chains, d)),
        discrete_gaussian(SystemRandom(), log2_sd(z), (length, leapfrogs, chains, d)),
        discrete_gaussian(SystemRandom(), log2_sd(5.0), (length, chains)),
        rng.random((length, chains)),
        scale_of(5.0),
    )
    start = rng.normal(size=(chains, d))
    start[2] = 1e30  # lost at once, again and again
    last = start.copy()
    expected = Stepped.hamiltonian_walk(target, path, steps, last)
    moved = np.diff(expected, axis=1).any(axis=2).mean(axis=1)
    assert (moved[:2] > 0.1).all()
    assert moved[:2].mean() < 0.95
    assert (expected[2] == here[2]).all()
    found = []
    for company, size in ((0, length), (np.inf, length), (0, 7), (np.inf, 1)):
        monkeypatch.setattr(row_threads, "MIN_NUMBERS_PER_THREAD", company)
        monkeypatch.setattr(row_threads, "THREADS", 2)
        target.position[:], given, draws = here, start.copy(), []
        for first in range(0, length, size):
            some = (part[first : first + size] for part in steps[:4])
            some = Trajectories(*some, steps.scale)
            draws.append(target.hamiltonian_walk(path, some, given))
        found.append((np.concatenate(draws, axis=1), given))
        assert (target.position == found[-1][0][:, -1]).all()
    np.testing.assert_allclose(found[0][0], expected, rtol=1e-6, atol=1e-5)  # a few cells
    np.testing.assert_allclose(found[0][1][:2], last[:2], rtol=1e-6, atol=1e-4)
    for draws, given in found[1:]:
        assert (draws == found[0][0]).all()
        assert (given == found[0][1]).all()


@specs
def test_order_of_rows_and_company_of_chains_change_no_bit(name):
    rng = np.random.default_rng(7)
    data = random_rows(700, rng)
    order = rng.permutation(700)
    target, *_ = opened(name, data, chains=3)
    here = placed(target, rng)
    deltas = 0.1 * rng.normal(size=here.shape)
    mixed, *_ = opened(name, {key: values[order] for key, values in data.items()}, chains=3)
    mixed.position[:] = here
    mixed.refresh()
    alone, *_ = opened(name, data)
    for other in (target, mixed):
        assert (other.vector_ratios(deltas)[0] == target.vector_ratios(deltas)[0]).all()
        assert (other.gradient(here, 0.5)[0] == target.gradient(here, 0.5)[0]).all()
    for c in range(3):
        alone.position[:] = here[c]
        alone.refresh()
        assert alone.vector_ratios(deltas[c : c + 1])[0] == target.vector_ratios(deltas)[0][c]


@specs
def test_two_threads_give_the_bits_of_one(monkeypatch, name):
    rng = np.random.default_rng(13)
    data = random_rows(900, rng)
    target, *_ = opened(name, data, chains=2)
    here = placed(target, rng)
    deltas = 0.1 * rng.normal(size=here.shape)

    def everything(threads):
        monkeypatch.setattr(row_threads, "THREADS", threads)
        monkeypatch.setattr(row_threads, "MIN_NUMBERS_PER_THREAD", 0)
        target.refresh()
        found = [
            *target.vector_ratios(deltas),
            *target.vector_ratios(one_moves(deltas, 0), alone=0),
        ]
        return [part.tolist() for part in (*found, target.gradient(here, 0.5)[0])]

    assert everything(2) == everything(1)


@specs
def test_accepted_moves_keep_the_caches_right(name):
    rng = np.random.default_rng(8)
    data = random_rows(300, rng)
    target, *_ = opened(name, data, chains=4)
    placed(target, rng, 0.2)
    fresh, *_ = opened(name, data, chains=4)
    for t in range(30):
        accepted = rng.random(4) < 0.5
        deltas = 0.05 * rng.normal(size=target.position.shape)
        if t % 3:
            j = t % target.position.shape[1]
            deltas = one_moves(deltas, j)
            target.vector_ratios(deltas, alone=j)
        else:
            target.vector_ratios(deltas)
        target.vector_commit(deltas, accepted)
    fresh.position[:] = target.position
    fresh.refresh()
    here, expected = target.vector_ratios(deltas), fresh.vector_ratios(deltas)
    np.testing.assert_allclose(here[0], expected[0], rtol=1e-6, atol=1e-6)


@specs
@pytest.mark.parametrize("size", [1e3, 1e9, 1e200])
def test_absurd_positions_and_moves_give_finite_sums(name, size):
    data = random_rows(20, np.random.default_rng(9))
    with np.errstate(all="ignore"):
        target, *_ = opened(name, data, tempering=TEMPERING)
        target.position[:] = size
        target.refresh()
        for delta in (size, -0.5 * size, 1.0):
            sums, sensitivities, _ = target.vector_ratios(np.full(target.position.shape, delta))
            assert np.isfinite(sums).all()
            assert np.isfinite(sensitivities).all()
            one = one_moves(np.full(target.position.shape, delta), 0)
            sums, *_ = target.vector_ratios(one, alone=0)
            assert np.isfinite(sums).all()
        far, near = target.gradient(target.position, 1.0)[0], 20 * TEMPERING * (1 + 1e-9)
        assert np.linalg.norm(far) <= near


@specs
def test_a_slope_cuts_the_interval_by_the_length_of_the_move(name):
    if "ratio_slope" not in MODELS[SPECS[name].family].options:
        pytest.skip("its ratios are bounded as they are")
    model = SPECS[name]
    options = {k: getattr(model.options, k) for k in ("variances", "noise_scale", "a", "b", "m")}
    cut = ModelSpec(
        family=model.family,
        formula=model.formula,
        options=ModelOptions(ratio_slope=0.25, **options),
    )
    data = random_rows(20, np.random.default_rng(10))
    spec = JobSpec(
        model=cut, sampler=DpPenaltyOptions(), privacy=PrivacySpec(delta=1e-6, epsilon=1.0)
    )
    target = MODELS[cut.family].target(
        make_design(schema(20), cut.formula), spec, table_of(schema(20), data), 1
    )
    target.refresh()
    deltas = np.ones(target.position.shape)
    length = np.sqrt(deltas.size)
    assert target.vector_ratios(deltas)[1][0] == pytest.approx(0.5 * length, rel=1e-6)


@specs
def test_a_planned_job_runs_and_names_what_it_releases(name):
    data = random_rows(60, np.random.default_rng(11))
    result = sample(
        data,
        schema=schema(60),
        model=SPECS[name],
        sampler=DpPenaltyOptions(num_steps=20),
        delta=1e-6,
        epsilon=1.0,
        accept_low_quality=True,
    )
    assert result.draws.shape[2] == len(result.plan.parameters)
    assert np.isfinite(result.draws).all()


@specs
def test_the_same_width_is_guessed_as_is_charged(name):
    """The planner's width is that of a small move where coefficients are of a typical size."""
    data = random_rows(5, np.random.default_rng(12))
    target, design, spec = opened(name, data)
    guess = MODELS[spec.model.family].guess(design, spec)
    d = target.position.shape[1]
    assert guess.precision.shape == (d, d)
    assert guess.width.shape == guess.distance.shape == (d,)
    assert np.linalg.eigvalsh(guess.precision).min() > 0
    typical = np.minimum(guess.distance, {"linear": 1.0, "poisson": 0.5}.get(name, np.inf))
    if name == "linear":
        typical[-1] = 0.0  # the log sd starts at what is typical of it
    target.position[:] = target.position + typical
    target.refresh()
    small = 1e-3 * np.eye(d)
    widths = [target.vector_ratios(small[j : j + 1], alone=j)[1][0] / 1e-3 for j in range(d)]
    assert guess.width == pytest.approx(np.array(widths), rel=0.5)


@pytest.mark.parametrize("family", [name for name, model in MODELS.items() if model.chains])
def test_every_family_that_has_chains_is_tested_here(family):
    assert family in {spec.family for spec in SPECS.values()}


@pytest.mark.parametrize(
    ("model", "pointer"),
    [
        (ModelSpec(family="linear", formula="y ~ x"), "/model/formula"),
        (ModelSpec(family="linear", formula="~ x"), "/model/formula"),
        (ModelSpec(family="poisson", formula="x ~ z"), "/model/formula"),
        (ModelSpec(family="gaussian_mean", formula="x ~ z"), "/model/formula"),
        (ModelSpec(family="gaussian_mean", formula="~ x + g"), "/model/formula"),
        (ModelSpec(family="gaussian_mean", formula="~ x:z"), "/model/formula"),
        (ModelSpec(family="banana", formula="~ x"), "/model/formula"),
        (ModelSpec(family="logistic", formula="~ x"), "/model/formula"),
        (
            ModelSpec(family="logistic", formula="y ~ x", options=ModelOptions(ratio_slope=1.0)),
            "/model/options/ratio_slope",
        ),
        (
            ModelSpec(family="linear", formula="x ~ z", options=ModelOptions(noise_scale=0.0)),
            "/model/options/noise_scale",
        ),
        (
            ModelSpec(family="banana", formula="~ x + z", options=ModelOptions(variances=(1.0,))),
            "/model/options/variances",
        ),
        (
            ModelSpec(
                family="gaussian_mean", formula="~ x", options=ModelOptions(variances=(-1.0,))
            ),
            "/model/options/variances",
        ),
    ],
)
def test_what_does_not_suit_a_family_is_refused(model, pointer):
    spec = JobSpec(
        model=model, sampler=DpPenaltyOptions(), privacy=PrivacySpec(delta=1e-6, epsilon=1.0)
    )
    with pytest.raises(SpecError) as caught:
        plan(schema(10), spec)
    assert caught.value.pointer == pointer


def test_rows_in_half_of_the_memory_leave_no_bound():
    values = np.concatenate((np.linspace(-1, 1, 1001), [1e300, -1e300, 1e-300, 5e-324]))
    halved = rowwise.halved(values)
    assert np.isfinite(halved).all()
    assert (np.abs(halved.astype(float)) <= np.abs(values)).all()
    np.testing.assert_allclose(halved[:1001], values[:1001], rtol=2.0**-23)
