import os
import subprocess
import sys

import numpy as np
import pytest

from dpmcmc.kernels.arithmetic.families import LOGISTIC
from dpmcmc.kernels.compiled import dispatch, gradient_sums, maths, ratio_sums
from dpmcmc.kernels.compiled.blocks import BLOCK

COUNT, CHAINS, COLUMNS = 600, 3, 4
HALF = 2.0**30
BLOCKS = -(-COUNT // BLOCK)


@pytest.fixture
def setting():
    """Blocks whose padding is poison: reading it would show."""
    rng = np.random.default_rng(3)
    flat = rng.uniform(-1, 1, (COLUMNS, COUNT))
    x = np.full((COLUMNS, BLOCKS * BLOCK), np.nan)
    x[:, :COUNT] = flat
    x = np.ascontiguousarray(x.reshape(COLUMNS, BLOCKS, BLOCK).transpose(1, 0, 2))
    y = np.full((BLOCKS, BLOCK), np.nan)
    return flat, x, y, rng.normal(size=(CHAINS, COLUMNS))


def single(size):
    """A counter of parts that one thread alone takes from."""
    return 0, np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros((1, size), np.int64)


def sums(setting, deltas, limit, first=0, last=BLOCKS, near=False):
    """(chain,) ratio sums of theta -> theta + deltas, in nats, clipped to +-limit."""
    _, x, y, theta = setting
    x, y, count = x[first:last], y[first:last], min(COUNT, last * BLOCK) - first * BLOCK
    aux, known = np.zeros((CHAINS, 3)), np.full((len(x), CHAINS, BLOCK), np.nan)
    state = known, known.astype(np.float32)
    total, nothing = np.zeros(CHAINS, np.int64), np.zeros(CHAINS)
    move, modes = (
        (0, deltas, nothing, np.full(CHAINS, near)),
        np.full(CHAINS, ratio_sums.FILL, np.int8),
    )
    ratio_sums.ratio_sums(
        *(x, y, count, LOGISTIC, single(CHAINS), 0, move, (theta, aux, aux), modes, move),
        *(state, (np.full(CHAINS, HALF / limit), nothing), HALF, total),
        ratio_sums.ratio_room(COLUMNS),
    )
    return total * limit / HALF


def ratios(setting, deltas):
    flat, _, _, theta = setting
    return np.logaddexp(0, -(theta @ flat)) - np.logaddexp(0, -((theta + deltas) @ flat))


def test_elementary_functions_are_exact_to_a_few_ulp():
    values = np.concatenate((np.linspace(-700, 700, 999), np.linspace(-1e-3, 1e-3, 101)))
    assert [maths.exp(v) for v in values] == pytest.approx(np.exp(values), rel=5e-16)
    values = np.linspace(-79, 79, 999, dtype=np.float32)
    found = np.array([maths.exp_short(v) for v in values], float)
    assert found == pytest.approx(np.exp(values.astype(float)), rel=5e-7)
    near = np.linspace(-340, 340, 501)
    assert [maths.exp_far(v) for v in near] == pytest.approx(np.exp(near), rel=5e-16)
    assert [maths.log(np.exp(v)) for v in near] == pytest.approx(near, rel=5e-16, abs=3e-16)
    short = np.linspace(-0.5, 0.5, 101) * maths.NEAR
    assert [maths.tanh_half(2 * v) for v in short] == pytest.approx(np.tanh(short), rel=5e-16)
    single = [maths.tanh_half_short(np.float32(2 * v)) for v in short]
    assert single == pytest.approx(np.tanh(short), rel=2e-7)
    single = [maths.exp_near_short(np.float32(2 * v)) for v in short]
    assert single == pytest.approx(np.exp(2 * short), rel=1e-7)
    single = [maths.atanh_twice_short(np.float32(v)) for v in short]
    assert single == pytest.approx(2 * np.arctanh(short), rel=2e-7)


def test_short_moves_of_a_batch_are_exact_to_a_part_in_a_million():
    rng = np.random.default_rng(4)
    for reach in (0.1, 3.0, 30.0, 200.0):
        eta = reach * rng.uniform(-1.0, 1.0, BLOCK)
        moves = maths.NEAR * rng.uniform(-1.0, 1.0, BLOCK)
        found, room = moves.copy(), np.empty((2, BLOCK), np.float32)
        nothing = np.zeros(BLOCK)
        told = nothing, nothing.copy(), room, nothing[:3], nothing[:3], BLOCK
        dispatch.ratios(LOGISTIC, True, eta, found, *told)
        expected = np.logaddexp(0.0, -eta) - np.logaddexp(0.0, -(eta + moves))
        assert (np.abs(found - expected) <= 1e-6 * np.abs(moves)).all()


def test_elementary_functions_stay_finite_far_out():
    for value in (1e4, -1e4, 1e308, -1e308, np.inf, -np.inf):
        with np.errstate(over="ignore"):
            assert 1e-36 < maths.exp_short(np.float32(value)) < 1e36
        assert np.isfinite(maths.exp(value))
        assert 1e-153 < maths.exp_far(value) < 1e153


@pytest.mark.longer
@pytest.mark.parametrize("limit", [0.01, 0.3, 30.0])
@pytest.mark.parametrize(("near", "size"), [(False, 0.2), (False, 0.01), (True, 0.01)])
def test_every_row_is_clipped(setting, limit, near, size):
    deltas = size * np.random.default_rng(5).normal(size=(CHAINS, COLUMNS))
    expected = np.clip(ratios(setting, deltas), -limit, limit).sum(axis=1)
    found = sums(setting, deltas, limit, near=near)
    short = 1e-8 if near else 0.0  # of a row, in float32
    assert found == pytest.approx(expected, abs=COUNT * (limit / HALF + short))


def test_parts_add_up_to_the_bit(setting):
    """So that threads may share the blocks in any way."""
    deltas = 0.2 * np.random.default_rng(5).normal(size=(CHAINS, COLUMNS))
    whole = sums(setting, deltas, 1.0)
    parts = [sums(setting, deltas, 1.0, b, b + 1) for b in range(BLOCKS)]
    assert (np.sum(parts, axis=0) == whole).all()


@pytest.mark.longer
def test_what_is_not_a_number_counts_as_a_row_at_the_bound(setting):
    """A ratio that cannot be computed moves a sum no further than any other row."""
    flat, x, y, theta = setting
    poisoned = x.copy()
    poisoned[0, 1, 5] = np.nan
    deltas = np.full((CHAINS, COLUMNS), 0.1)
    clean, dirty = sums(setting, deltas, 1.0), sums((flat, poisoned, y, theta), deltas, 1.0)
    assert (np.abs(dirty - clean) <= 2.0).all()
    norm = np.ones((BLOCKS, BLOCK), np.float32)
    total = np.zeros((CHAINS, COLUMNS), np.int64)
    ends = np.full_like(theta, np.nan), np.zeros((CHAINS, 3)), np.zeros(CHAINS)
    gradient_sums.gradient_sums(
        *(np.nan_to_num(x), y, COUNT, LOGISTIC, single(total.size), 0),
        *(norm * np.float32(1e-3), np.ones(4)),
        *(ends, 1.0, 2.0**20, total, gradient_sums.gradient_room()),
    )
    assert (np.abs(total) <= COUNT * 2.0**20 * 1e3).all()


SCRIPT = """
import sys; sys.path.insert(0, {here!r}); sys.path.insert(0, {here!r} + "/tests/conformance")
import numpy as np
from numba import config
import test_models as t
from dpmcmc.families.target import Path, Steps, Trajectories
from dpmcmc.privacy.discrete import Scale
from dpmcmc.kernels.arithmetic.rules import PENALTY, Rule
assert bool(config.DISABLE_JIT) == {disabled}
for name in t.SPECS:
    rng = np.random.default_rng(0)
    data = t.random_rows(30, rng)
    target, *_ = t.opened(name, data, chains=2)
    here = t.placed(target, rng, 0.2)
    deltas = 0.1 * rng.normal(size=here.shape)
    single = deltas * np.eye(len(here[0]))[0]
    out = [*target.vector_ratios(deltas), *target.vector_ratios(single, alone=0)]
    target.vector_commit(single, np.array([True, False]))
    batches = t.batch_sums(target, deltas, np.arange(20).reshape(2, 10))
    rule = Rule(PENALTY, 10, 0.1, 0.9, 2.0**-20, 256.0)
    drawn, uniforms = np.full((2, 2), 80), np.full((2, 1, 2), 0.999999)
    moves = np.stack((deltas, -deltas))
    chosen = np.arange(40, dtype=np.int32).reshape(2, 2, 10) % 30
    out += [target.gradient(here, 0.5)[0], *batches]
    out += [target.batch_walk(rule, moves, drawn, uniforms, chosen)]
    scale, even = Scale(2.0**-10, 256.0), uniforms[:, 0] - 0.5
    steps = Steps(np.zeros(2, int), moves, False, drawn, even, scale)
    out += [target.penalty_walk(steps, np.ones((2, 1), int))]
    one = np.eye(len(here[0]))
    path = Path(0.1, 0.5, 1e-6, one, one, here[1], -one, here[0])
    kept, noise = here.copy(), np.full((2, 2, *here.shape), 1000)
    steps = Trajectories(moves, noise, drawn, even, scale)
    out += [target.hamiltonian_walk(path, steps, kept), kept]
    print(*[repr(float(v)) for v in np.concatenate([part.ravel() for part in out])])
"""


@pytest.mark.longer
@pytest.mark.compiled("runs both ways in processes of its own")
def test_compiled_and_plain_kernels_agree(repository):
    def values(disabled):
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT.format(here=str(repository), disabled=disabled)],
            env={**os.environ, "NUMBA_DISABLE_JIT": str(int(disabled))},
            capture_output=True,
            text=True,
            check=True,
        )
        return np.array([float(v) for v in done.stdout.split()])

    plain = values(True)
    assert len(plain) > 100
    cell = 2.0**-21  # of a row's gradient, which may be rounded either way
    assert plain == pytest.approx(values(False), rel=1e-7, abs=2 * cell)
