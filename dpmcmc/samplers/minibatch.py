"""Common parts of the samplers on secret minibatches: batch, event and calibration."""

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmcmc.base.errors import SpecError
from dpmcmc.families.target import Floats, Minibatches
from dpmcmc.inputs.options import Start
from dpmcmc.kernels.arithmetic.rules import Rule
from dpmcmc.privacy import accountant
from dpmcmc.privacy.discrete import Integers
from dpmcmc.privacy.events import Event, Gaussian, Repeat, WithoutReplacement
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.privacy.subsampling import wor_rdp_gaussian
from dpmcmc.samplers.calibration import RELATIVE_TOLERANCE, moved, smallest
from dpmcmc.samplers.starts import chain_mu, with_event

SCATTERED_READ_COST = 3.0  # factor of the time to read rows of a batch, compared with rows in order
MIN_BATCH_ROWS = 1000  # rows of a batch that the planner chooses, where there are as many
AT_ONCE = 1 << 18  # row numbers for one call of the kernel: they stay in a cache
SEARCH_STEPS = 8  # of a spread, which is nearly inverse to the noise


def minibatch_event(options: Any, noise_multiplier: float, rows: int) -> Event:
    """Return the event: a Gaussian on a new secret batch for every step of every chain.

    The event of a start comes before, if there is one.
    Proof: docs/proofs/dp_penalty_subsampled.md, docs/proofs/without_replacement.md.
    """
    if options.num_steps is None or options.num_chains is None or options.batch is None:
        raise ValueError("the numbers of steps and chains and the batch must be known")
    base = WithoutReplacement(Gaussian(noise_multiplier), options.batch, rows)
    steps = Repeat(base, options.num_steps * options.num_chains)
    return with_event(options.start, steps)


def batches(random: RandomSource, rows: int, batch: int, count: int) -> NDArray[np.int32]:
    """Return (count, batch) row numbers: uniform subsets of all rows, never released."""
    from dpmcmc.kernels.compiled import subsets

    smaller = min(batch, rows - batch)
    # draws of one subset, on average, with those that are refused or skipped
    draws = -rows * math.log1p(-smaller / rows) * 2.0**32 / (2**32 - 2**32 % rows)
    out, tape, done = np.empty((count, batch), np.int32), np.empty(0, np.uint32), 0
    while done < count:
        needed = draws * (count - done)
        fresh = random.words(math.ceil(0.5 * needed + 2.0 * math.sqrt(needed)) + 8).view(np.uint32)
        tape = np.concatenate((tape, fresh)) if tape.size else fresh
        done, used = subsets.subsets(tape, rows, out, done)
        tape = tape[used:]
    return out


def batch_steps(
    target: Minibatches,
    rule: Rule,
    deltas: Floats,
    noise: Integers,
    others: Floats,
    random: RandomSource,
) -> Floats:
    """Return (chain, length, d) draws of the steps that propose deltas (length, chain, d).

    noise: (length, chain), others: (length, kinds, chain), see rules.py. Every step of every chain
    has a fresh batch.
    """
    length, chains, dimension = deltas.shape
    draws = np.empty((chains, length, dimension))
    size = max(1, AT_ONCE // (rule.batch * chains))
    for first in range(0, length, size):
        part = slice(first, min(first + size, length))
        steps = part.stop - first
        chosen = batches(random, target.rows, rule.batch, steps * chains)
        chosen = chosen.reshape(steps, chains, -1)
        draws[:, part] = target.batch_walk(rule, deltas[part], noise[part], others[part], chosen)
    return draws


def part_of(batch: int, rows: int) -> float:
    """Return the factor of a batch's variance under sampling without replacement."""
    return min(1.0, (1.0 - batch / rows) * batch / (batch - 1.0))


def rounding(batch: int) -> float:
    """Return a factor of the sensitivity that allows for rounding of float sums over a batch."""
    return 1.0 + math.ldexp(batch * batch, -51)


def settled_batch(batch: int | None, rows: int, share: int) -> int:
    """Return the batch, by default one part in `share` of the rows.

    Raises SpecError on a batch of fewer than 2 rows, or larger than the data.
    """
    chosen = min(rows, max(MIN_BATCH_ROWS, rows // share)) if batch is None else batch
    if rows < 2:
        raise SpecError("/dataset", "a batch needs at least 2 rows")
    if type(chosen) is not int or not 2 <= chosen <= rows:
        raise SpecError("/sampler/batch", f"must be a whole number between 2 and {rows}")
    return chosen


def batch_columns(options: Any, rows: int, dimension: int) -> float:
    """Return the columns of all rows whose reading takes as long as a step on a batch."""
    return SCATTERED_READ_COST * dimension * float(options.batch or rows) / rows


def chain_mu_of(options: Any, rows: int, noise_multiplier: float) -> float:
    """Return the approximate mu of the steps of a settled job."""
    part = options.batch / rows
    return float(part * math.sqrt(options.num_steps * options.num_chains) / noise_multiplier)


@lru_cache(maxsize=256)
def calibrated(
    count: int, batch: int, rows: int, epsilon: float, delta: float, start: Start | None
) -> float:
    """Return a noise multiplier at which a start and `count` releases cost (epsilon, delta).

    At most RELATIVE_TOLERANCE above the smallest. Raises SpecError where there is none.
    """

    def price(z: float) -> float:
        steps = Repeat(WithoutReplacement(Gaussian(z), batch, rows), count)
        return accountant.epsilon(with_event(start, steps), delta)

    mu = chain_mu(start, accountant.mu_of_epsilon(epsilon, delta))
    return smallest(lambda z: price(z) / epsilon, _similar(count, batch / rows, mu))


def _similar(count: int, rate: float, mu: float) -> float:
    """Return a noise multiplier at which the privacy losses of all steps have the variance of mu.

    The sum of many small losses is nearly Gaussian, so that the cost is similar as well.
    """
    before, z = math.inf, moved(rate * math.sqrt(count) / mu, 1.0)
    for _ in range(SEARCH_STEPS):
        if abs(z - before) < 0.1 * RELATIVE_TOLERANCE * z:
            break
        spread = math.sqrt(count * wor_rdp_gaussian(z, rate, 2.0))
        before, z = z, moved(z, spread / mu)
    return z
