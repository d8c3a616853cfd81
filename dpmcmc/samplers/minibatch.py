"""What the samplers on secret minibatches share: the batch, the event, and its calibration."""

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

SCATTERED_READ_COST = 3.0  # times as long as in order: reading rows of a batch
MIN_BATCH_ROWS = 1000  # rows of a batch that the planner chooses, where there are as many
AT_ONCE = 1 << 18  # row numbers of steps that are taken by one call: they stay in a cache
SEARCH_STEPS = 8  # of a spread, which is nearly inverse to the noise


def minibatch_event(options: Any, noise_multiplier: float, rows: int) -> Event:
    """Return one Gaussian release on a secret fresh batch for every step of every chain.

    The release that the chain starts from comes before, where there is one.
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

    few = min(batch, rows - batch)
    # draws of one subset, on average, with those that are refused or passed over
    draws = -rows * math.log1p(-few / rows) * 2.0**32 / (2**32 - 2**32 % rows)
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
    """Return the factor of a batch's variance that sampling without replacement leaves."""
    return min(1.0, (1.0 - batch / rows) * batch / (batch - 1.0))


def rounding(batch: int) -> float:
    """Return what float sums over a batch may add to a sensitivity, as a factor."""
    return 1.0 + math.ldexp(batch * batch, -51)


def settled_batch(batch: int | None, rows: int, share: int) -> int:
    """Return the batch, or one part in `share` of the rows where it is left open.

    Refuses a batch that no variance can be taken of, or that is larger than the data.
    """
    chosen = min(rows, max(MIN_BATCH_ROWS, rows // share)) if batch is None else batch
    if rows < 2:
        raise SpecError("/dataset", "a batch needs at least 2 rows")
    if type(chosen) is not int or not 2 <= chosen <= rows:
        raise SpecError("/sampler/batch", f"must be a whole number between 2 and {rows}")
    return chosen


def batch_columns(options: Any, rows: int, dimension: int) -> float:
    """Return how many columns of all rows a step on a batch is worth: scattered rows cost more."""
    return SCATTERED_READ_COST * dimension * float(options.batch or rows) / rows


def chain_mu_of(options: Any, rows: int, noise_multiplier: float) -> float:
    """Return about the mu of the steps of a settled job, were they Gaussian."""
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
    """Return a noise multiplier at which the losses of all releases have about the spread of mu.

    Many small ones are nearly Gaussian, so that they cost about as much as well.
    """
    before, z = math.inf, moved(rate * math.sqrt(count) / mu, 1.0)
    for _ in range(SEARCH_STEPS):
        if abs(z - before) < 0.1 * RELATIVE_TOLERANCE * z:
            break
        spread = math.sqrt(count * wor_rdp_gaussian(z, rate, 2.0))
        before, z = z, moved(z, spread / mu)
    return z
