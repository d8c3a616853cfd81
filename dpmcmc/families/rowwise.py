"""Any model over opened rows: positions, cached likelihoods and exact sums for the samplers."""

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpmcmc.families.forms import Floats, Form, GaussianForm
from dpmcmc.families.target import Path, Steps, Trajectories
from dpmcmc.inputs.schema import Table
from dpmcmc.inputs.spec import JobSpec
from dpmcmc.kernels.arithmetic.families import LINEAR, LOGISTIC, POISSON
from dpmcmc.kernels.arithmetic.rounding import CLIP_MARGIN
from dpmcmc.kernels.arithmetic.rules import Rule
from dpmcmc.privacy.discrete import Integers, noisy_grid

# Sums over all rows by two threads, where they are long enough for the second to pay.
THREADS = len(os.sched_getaffinity(0))
# numbers of all chains in up to SUMS_PER_CALL sums, from which a second thread
MIN_NUMBERS_PER_THREAD = 1_000_000
SUMS_PER_CALL = 10  # is there in time: it takes some 0.1 ms to wake up

T = TypeVar("T")


class TwoThreads:
    """Two threads: the caller's, and a second one that starts when first needed."""

    def __init__(self) -> None:
        self._helper: ThreadPoolExecutor | None = None

    def run(
        self,
        numbers: int,
        work: Callable[[tuple[Any, ...], T], None],
        fresh: Callable[[], T],
        turns: int,
        size: int,
    ) -> T:
        """Return work(shared, partial) over all blocks, by two threads where `numbers` is large.

        numbers: that one sum reads. turns, size: how many sums over all rows are taken, of how many
        numbers each; kernels.threads.part_taken shares them out. Each thread does everything but
        these sums, on its own copy.
        """
        counters = (np.zeros(shape, np.int64) for shape in (turns, turns, (turns, size)))
        claimed, done, sums = counters
        mine, other = fresh(), None
        if numbers * min(turns, SUMS_PER_CALL) >= MIN_NUMBERS_PER_THREAD and THREADS >= 2:
            other = self._second().submit(work, (1, claimed, done, sums), fresh())
        work((0, claimed, done, sums), mine)
        if other is not None and not other.cancel():  # no core may have been free for it so far
            other.result()
        return mine

    def _second(self) -> ThreadPoolExecutor:
        """Return the pool with the second thread, started at the first call."""
        from dpmcmc.kernels.subnormals import flush

        if self._helper is None:
            self._helper = ThreadPoolExecutor(max_workers=1, initializer=flush)
        return self._helper


# The layout of rows in memory for the kernels, and the grids on which their sums are exact.
SMALLEST_SHARE = 2.0**-60  # of a column's largest number: its square is a normal float32
Singles = NDArray[np.float32]


def term_grid(bound: float, rows: int, digits: int) -> float:
    """Return a power of two: multiples of it, up to `bound`, are added exactly over `rows` rows.

    A term has so many digits, or fewer.
    """
    digits = min(digits, 52 - math.ceil(math.log2(rows + 1.0)))
    return float(2.0 ** (math.ceil(math.log2(bound)) - digits))


def halved(x: Floats) -> Singles:
    """Return x in single precision, rounded towards zero so that no bound of a row is exceeded.

    A fixed map of each row. It moves a coefficient by about one part in 2^24 of the column's range
    over its spread, and a sum is as fast as its rows come from memory.
    """
    with np.errstate(over="ignore"):  # an infinity is too far
        single = x.astype(np.float32)
    too_far = np.abs(single) > np.abs(x)
    single[too_far] = np.nextafter(single[too_far], np.float32(0.0))
    return single


def without_traces(x: Singles, max_row_norm: float) -> Singles:
    """Return x with tiny entries set to 0, so that no product is a subnormal number.

    Towards zero, a fixed map of each row, and as fast whatever the rows are. For libraries whose
    threads are not ours; ours flush such numbers, see dpmcmc.kernels.subnormals.
    """
    return np.where(np.abs(x) < np.float32(SMALLEST_SHARE * max_row_norm), np.float32(0.0), x)


def blocked(column: NDArray[Any], size: int) -> NDArray[Any]:
    """Return a column (n,) as blocks (blocks, size), padded with zeros."""
    return np.pad(column, (0, -len(column) % size)).reshape(-1, size)


def on_lines(rows: int, width: int) -> Singles:
    """Return zeros (rows, width) aligned to cache lines."""
    size = 4 * rows * width
    room = np.zeros(size + 64, np.uint8)
    skipped = -room.ctypes.data % 64
    return room[skipped : skipped + size].view(np.float32).reshape(rows, width)


# numbers far out overflow; clips and cells stay finite
IGNORED_OVERFLOW = np.errstate(all="ignore")
LARGEST_NORM = 1e30  # of a row in released coordinates: float32 holds it, and float64 its square
NO_SIGNS, NOWHERE = np.empty((0, 0), np.int64), np.empty((0, 0))


def clip_of(spec: JobSpec) -> tuple[float, float, float]:
    """Return bound, slope and width of the clip of row log ratios: see kernels.intervals."""
    options, slope = spec.sampler, spec.model.options.ratio_slope
    bound, width = options.clip_bound, getattr(options, "clip_width", None)
    bound, slope, width = (math.inf if clip is None else clip for clip in (bound, slope, width))
    return bound, slope, width


class RowTarget:
    """Rows, positions and cached likelihoods of all chains. Implements families.target.Target.

    Sensitivities: docs/proofs/dp_penalty.md, section 3, and docs/proofs/gaussian_release.md.
    """

    def __init__(self, form: Form, spec: JobSpec, table: Table, chains: int) -> None:
        from dpmcmc.kernels.compiled import (
            blocks,
            cells,
            hmc_steps,
            moves,
            penalty_steps,
            position_facts,
            ratio_sums,
        )

        self._cells, self._ratios = cells, ratio_sums
        self._position_facts, self._moves = position_facts, moves
        self._penalty, self._hmc = penalty_steps, hmc_steps
        self._form = form
        x, y = form.rows(table)
        self.rows: int = table.rows
        self.gaps: bool = form.public.gaps
        self.tempering = spec.model.tempering or 1.0
        self.bounded: bool = form.family == LOGISTIC
        self._clip = clip_of(spec)
        self._steep: Floats | None = None
        self._seen: Singles | None = None  # rows in the coordinates in which gradients are clipped
        self._back = np.empty((0, 0))
        self._x = np.zeros((-(-table.rows // blocks.BLOCK), len(x), blocks.BLOCK), np.float32)
        for k, column in enumerate(x):  # one at a time, as each takes several times its own memory
            most = form.max_row_norm  # holds whatever a form does
            column = np.fmin(np.fmax(column, -most), most)
            self._x[:, k] = blocked(without_traces(halved(column), most), blocks.BLOCK)
        self._y = blocked(y, blocks.BLOCK)
        self._table: Singles | None = None
        self._norm: NDArray[np.float32] | None = None
        self._threads = TwoThreads()
        self._half = 2.0 ** (51 - math.ceil(math.log2(table.rows + 1.0)))
        self.position: Floats = np.tile(form.start, (chains, 1))
        held = (len(self._x), chains, blocks.BLOCK)
        self._state = np.empty(held), np.empty(held, np.float32)
        # what the state needs before the next sum: the move asked for last, and who made it
        nowhere = np.zeros((chains, form.start.size))
        self._move = self._prepared(nowhere, moves.ALL_COEFFICIENTS)[0]
        self._far = np.zeros(chains, np.bool_)
        self.refresh()

    def refresh(self) -> None:
        """Drop the cached likelihoods: the next sum computes them from the positions."""
        self._modes = np.full(len(self.position), self._ratios.FILL, np.int8)

    @IGNORED_OVERFLOW
    def vector_ratios(
        self, deltas: Floats, alone: int | None = None
    ) -> tuple[Floats, Floats, Floats]:
        """Return (sums, sensitivities, log prior ratios), (chain,) each, that decide a step.

        deltas: (chain, d) moves. alone: the one coefficient that they are not 0 for.
        """
        j = self._moves.ALL_COEFFICIENTS if alone is None else alone
        move, cells, interval, self._far, ends, priors = self._prepared(deltas, j)
        arguments = move, ends, self._modes, self._move, self._state, cells, self._half

        def add_up(shared: tuple[Any, ...], totals: NDArray[np.int64]) -> None:
            """Add one block's clipped row ratios to the totals."""
            self._penalty.ratio_totals(self._rows(), arguments, shared, 0, totals)

        totals = self._threads.run(
            self._x.size * len(self.position),
            add_up,
            lambda: np.zeros(len(deltas), np.int64),
            1,
            len(deltas),
        )
        self._move, self._modes = move, np.full_like(self._modes, self._ratios.KEEP)
        public, sums, sensitivities = self._penalty.summed(
            totals, self.rows, self.tempering, interval
        )
        return public + sums, sensitivities, priors

    def penalty_walk(self, steps: Steps, signs: NDArray[np.int64] | None) -> Floats:
        """Take these steps, each decided by rules.accepts. Return the draws, (chain, step, d)."""
        length, chains, dimension = steps.deltas.shape
        draws = np.empty((chains, length, dimension))

        def walk(shared: tuple[Any, ...], moved: tuple[Floats, NDArray[np.int64]]) -> None:
            facts, public = self._facts(), self._form.public
            self._penalty.penalty_steps(
                self._rows(), self._state, facts, public, steps, shared, *moved, draws
            )

        sides = NO_SIGNS if signs is None else signs
        self.position[:], sides[:] = self._threads.run(
            self._x.size * len(self.position),
            walk,
            lambda: (self.position.copy(), sides.copy()),
            length,
            chains,
        )
        self.refresh()
        return draws

    def narrow_clip(self, steep: Floats) -> None:
        """Clip row log-likelihood ratios of a move delta to width 2 |delta @ steep| from now on."""
        self._steep = steep

    def use_coordinates(self, root: Floats | None) -> tuple[Floats, float]:
        """Take and clip gradients in coordinates root (d, d) from now on.

        Returns (back (d, d), factor). The log sd of a linear model keeps its coordinate; each
        coefficient then has the information of such a log sd.
        """
        d, columns = self.position.shape[1], self._x.shape[1]
        back = np.eye(d)
        self._seen, self._norm, self._back = None, None, np.empty((0, 0))
        if root is None or isinstance(self._form, GaussianForm):
            return back, 1.0
        rows = self.rows * self.tempering
        along = math.sqrt(2.0 * rows) * np.linalg.cholesky(root[:columns] @ root[:columns].T)
        if not self._form.max_row_norm * np.linalg.norm(along) < LARGEST_NORM:
            return back, 1.0
        back[:columns, :columns] = np.linalg.inv(along)
        self._seen = np.empty_like(self._x)
        for block, x in zip(self._seen, self._x, strict=True):
            block[:] = along.T @ x
        self._back = back[:columns, :columns]
        before = float((np.linalg.inv(root) ** 2).sum()) / rows
        return back, math.sqrt(2.0 * d / before)

    def vector_commit(self, deltas: Floats, accepted: NDArray[np.bool_]) -> None:
        """Move the accepted chains by the deltas of the last call of vector_ratios."""
        self.move(deltas, accepted)
        how = np.where(self._far, self._ratios.FILL, self._ratios.FOLLOW)
        self._modes = np.where(accepted, how, self._ratios.KEEP).astype(np.int8)

    def move(self, deltas: Floats, accepted: NDArray[np.bool_]) -> None:
        """Move the accepted chains (chain,) by deltas (chain, d), without a pass over the rows."""
        np.add(self.position, deltas, out=self.position, where=accepted[:, None])

    @IGNORED_OVERFLOW
    def gradient(self, positions: Floats, clip: float) -> tuple[Floats, float]:
        """Return (sums (chain, d), L2 sensitivity): the tempered, clipped score without the prior.

        Proof: docs/proofs/gaussian_release.md, sections 1 and 2.
        """
        scores, grid, sensitivity = self._scores(clip, positions.shape[1])
        ends = self._position_facts.ends_of_gradients(self._form.public, positions, self._back)
        norm, precision, _, short, scale = scores
        arguments = norm, precision, ends, short, scale

        def add_up(shared: tuple[Any, ...], totals: NDArray[np.int64]) -> None:
            """Add one block's clipped scores to the totals."""
            self._hmc.gradient_totals(self._rows(seen=True), arguments, shared, 0, totals)

        shape = positions.shape
        totals = self._threads.run(
            self._x.size * len(self.position),
            add_up,
            lambda: np.zeros(shape, np.int64),
            1,
            positions.size,
        )
        return np.asarray(grid * totals, np.float64), sensitivity

    @IGNORED_OVERFLOW
    def hamiltonian_walk(self, path: Path, steps: Trajectories, gradients: Floats) -> Floats:
        """Take these steps, each decided by rules.accepts. Return the draws, (chain, step, d).

        Proof: docs/proofs/gaussian_release.md, sections 1 and 2.
        """
        length, leapfrogs, chains, d = steps.noise.shape
        scores, grid, sensitivity = self._scores(path.clip, d)
        noisy = noisy_grid(d, sensitivity, path.noise_multiplier)
        lean = path.centre, path.pull, path.offset
        how = path.step_size, path.root, path.back, lean, noisy
        every = self._rows(), self._rows(seen=True), self._state
        steep = NOWHERE if self._steep is None else self._steep
        draws = np.empty((chains, length, d))

        def walk(shared: tuple[Any, ...], held: tuple[Floats, Floats]) -> None:
            public, around = self._form.public, (*scores, grid)
            self._hmc.hmc_steps(
                *every, self._facts(), public, around, how, steep, steps, shared, held, draws
            )

        self.position[:], gradients[:] = self._threads.run(
            self._x.size * len(self.position),
            walk,
            lambda: (self.position.copy(), gradients.copy()),
            length * (leapfrogs + 1),
            chains * d,
        )
        self.refresh()
        return draws

    @IGNORED_OVERFLOW
    def batch_walk(
        self,
        rule: Rule,
        deltas: Floats,
        noise: Integers,
        others: Floats,
        batches: NDArray[np.int32],
    ) -> Floats:
        """Take steps that propose deltas (step, chain, d). Return the draws, (chain, step, d)."""
        from dpmcmc.kernels.compiled import batches as kernels

        length, chains, dimension = deltas.shape
        draws = np.empty((chains, length, dimension))
        kernels.minibatch_steps(
            *(self.table(), self._form.max_row_norm, self._form.public, rule, self._clip),
            *(batches, deltas, noise, others, self.position, draws),
        )
        return draws

    def table(self) -> Singles:
        """Return the rows as one array (n, width), padded with zeros, for readers of single rows.

        Columns as they are, the response, where there is one, as a sum of two. A row lies on as
        few lines of memory as it can.
        """
        if self._table is None:
            from dpmcmc.kernels.compiled.blocks import LINE
            from dpmcmc.kernels.compiled.scattered import LANES

            columns, answers = self._x.shape[1], self._form.family in (LINEAR, POISSON) or self.gaps
            least = max(LANES, columns + 2 * answers)
            width = min(1 << (least - 1).bit_length(), -(-least // LINE) * LINE)
            self._table = on_lines(self.rows, width)
            for k in range(columns):
                self._table[:, k] = self._x[:, k].reshape(-1)[: self.rows]
            if answers:
                y = self._y.reshape(-1)[: self.rows]
                self._table[:, columns] = halved(y)
                self._table[:, columns + 1] = halved(y - self._table[:, columns])
        return self._table

    @property
    def complete(self) -> int:
        """Return the number of rows that are not left out. Private."""
        return self.rows - int(np.isnan(self._y).sum())

    def information_scale(self, positions: Floats, moments: Floats | None) -> tuple[Floats, Floats]:
        """Return (information (chain, d), gradients (chain,)) over what was planned."""
        return self._form.information_scale(positions, moments)

    @IGNORED_OVERFLOW
    def widths(self, here: Floats, deltas: Floats, alone: bool = False) -> Floats:
        """Return (m,) sensitivities of moves (m, d), from public bounds alone."""
        start, together = np.broadcast_to(here, deltas.shape), self._moves.ALL_COEFFICIENTS
        if not alone:
            return np.asarray(self.tempering * self._prepared(deltas, together, start)[2][1])
        every = [
            self._prepared(deltas[j : j + 1], j, start[j : j + 1])[2][1][0]
            for j in range(len(deltas))
        ]
        return self.tempering * np.array(every)

    @IGNORED_OVERFLOW
    def log_prior_ratio(self, deltas: Floats) -> Floats:
        """Return (chain,) log prior ratios of moving each chain by deltas (chain, d)."""
        return self._form.log_prior_ratio(self.position, self.position + deltas)

    def log_prior_gradient(self, positions: Floats) -> Floats:
        """Return (chain, d) gradients of the log prior at positions (chain, d)."""
        return self._form.log_prior_gradient(positions)

    def _facts(self) -> tuple[Any, ...]:
        """Return (max_row_norm, tempering, clip, half); see penalty_steps."""
        return self._form.max_row_norm, self.tempering, self._clip, self._half

    def _rows(self, *, seen: bool = False) -> tuple[Any, ...]:
        """Return (x, y, count, family); seen: in the coordinates in which gradients are clipped."""
        x = self._seen if seen and self._seen is not None else self._x
        return x, self._y, self.rows, self._form.family

    def _prepared(self, deltas: Floats, j: int, start: Floats | None = None) -> tuple[Any, ...]:
        """Return moves.prepare of moves from start (chain, d), or from the positions."""
        most = np.full(len(deltas), math.inf)
        if self._steep is not None:
            most = np.asarray(2.0 * np.sqrt(((deltas @ self._steep) ** 2).sum(axis=1)))
        positions = np.array(self.position if start is None else start)
        prepared: tuple[Any, ...] = self._moves.prepare(
            *(
                self._form.public,
                self._form.max_row_norm,
                positions,
                np.ascontiguousarray(deltas),
                j,
            ),
            *(most, self._clip, self._half),
        )
        return prepared

    def _scores(self, clip: float, d: int) -> tuple[tuple[Any, ...], float, float]:
        """Return the gradient kernels' arguments, the size of a grid cell, and the L2 sensitivity.

        (norm, precision, columns_back, clip, scale), as hmc_steps.leapfrog takes them. d: entries
        of a gradient.
        """
        bound = self.tempering * clip
        grid = term_grid(bound, self.rows, self._cells.TERM_BITS)
        # rounding lengthens a term by less than a cell in every direction
        short = clip - math.sqrt(d) * grid / self.tempering
        if self._norm is None:  # the next above: a term that is clipped too far is no harm
            x = self._rows(seen=True)[0]
            norm = np.sqrt(np.einsum("bji,bji->bi", x, x, dtype=np.float64))
            self._norm = np.nextafter(norm.astype(np.float32), np.float32(np.inf))
        scale = self.tempering * CLIP_MARGIN / grid
        scores = self._norm, 1.0 / self._form.public.unit, self._back, short, scale
        return scores, grid, 2.0 * bound
