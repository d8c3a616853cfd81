"""Any model over opened rows: positions, cached likelihoods and exact sums for the samplers."""

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpmcmc.models.forms import Floats, Form, GaussianForm
from dpmcmc.models.links import LINEAR, LOGISTIC, POISSON
from dpmcmc.privacy.discrete import Integers, noisy_grid
from dpmcmc.samplers.base import Path, Steps, Trajectories
from dpmcmc.samplers.rules import Rule
from dpmcmc.schema import Table
from dpmcmc.spec import JobSpec

QUIETLY = np.errstate(all="ignore")  # far out numbers overflow; clips and cells stay finite
SHRINK = 1.0 - 2.0**-40  # swallows the rounding of a clip
THREADS = len(os.sched_getaffinity(0))
LONGEST = 1e30  # of a row in released coordinates: float32 holds it, and float64 its square
TRACE = 2.0**-60  # of a column's largest number: its square is a normal float32
WORTH_COMPANY = 1_000_000  # numbers of all chains in up to SOON sums, from which a second thread
SOON = 10  # is there in time: it takes some 0.1 ms to wake up
Singles = NDArray[np.float32]
NO_SIGNS, NOWHERE = np.empty((0, 0), np.int64), np.empty((0, 0))


def term_grid(bound: float, rows: int, digits: int) -> float:
    """Return the power of two on which `rows` terms of at most this size add up exactly.

    A term has so many digits, or fewer.
    """
    digits = min(digits, 52 - math.ceil(math.log2(rows + 1.0)))
    return float(2.0 ** (math.ceil(math.log2(bound)) - digits))


T = TypeVar("T")


def clip_of(spec: JobSpec) -> tuple[float, float, float]:
    """Return bound, slope and width that row ratios are cut at; see kernels.intervals.cut."""
    options, slope = spec.sampler, spec.model.options.ratio_slope
    bound, width = options.clip_bound, getattr(options, "clip_width", None)
    bound, slope, width = (math.inf if cut is None else cut for cut in (bound, slope, width))
    return bound, slope, width


class RowTarget:
    """Rows, positions and cached likelihoods of all chains. Implements samplers.base.Target.

    Sensitivities: docs/proofs/dp_penalty.md, section 3, and docs/proofs/gaussian_release.md.
    """

    def __init__(self, form: Form, spec: JobSpec, table: Table, chains: int) -> None:
        from dpmcmc.kernels import forms, moves, paths, walks
        from dpmcmc.kernels import rows as kernels

        self._kernels, self._forms, self._moves = kernels, forms, moves
        self._walks, self._paths = walks, paths
        self._form = form
        x, y = form.rows(table)
        self.rows: int = table.rows
        self.gaps: bool = form.public.gaps
        self.tempering = spec.model.tempering or 1.0
        self.bounded: bool = form.link == LOGISTIC
        self.even: bool = form.link not in (LOGISTIC, POISSON)
        self._clip = clip_of(spec)
        self._steep: Floats | None = None
        self._seen: Singles | None = None  # rows in the coordinates in which gradients are clipped
        self._back = np.empty((0, 0))
        self._x = np.zeros((-(-table.rows // kernels.BLOCK), len(x), kernels.BLOCK), np.float32)
        for k, column in enumerate(x):  # one at a time, as each takes several times its own memory
            column = np.fmin(np.fmax(column, -form.reach), form.reach)  # whatever a form does
            self._x[:, k] = _blocked(_without_traces(_halved(column), form.reach), kernels.BLOCK)
        self._y = _blocked(y, kernels.BLOCK)
        self._table: Singles | None = None
        self._norm: NDArray[np.float32] | None = None
        self._helper: ThreadPoolExecutor | None = None
        self._half = 2.0 ** (51 - math.ceil(math.log2(table.rows + 1.0)))
        self.position: Floats = np.tile(form.start, (chains, 1))
        held = (len(self._x), chains, kernels.BLOCK)
        self._state = np.empty(held), np.empty(held, np.float32)
        # what the state needs before the next sum: the move asked for last, and who made it
        nowhere = np.zeros((chains, form.start.size))
        self._move = self._prepared(nowhere, moves.TOGETHER)[0]
        self._far = np.zeros(chains, np.bool_)
        self.refresh()

    def refresh(self) -> None:
        """See Target. The next sum does it."""
        self._modes = np.full(len(self.position), self._kernels.FILL, np.int8)

    @QUIETLY
    def vector_ratios(
        self, deltas: Floats, alone: int | None = None
    ) -> tuple[Floats, Floats, Floats]:
        """Return (sums, sensitivities, log prior ratios), (chain,) each, that decide a step.

        deltas: (chain, d) moves. alone: the one coefficient that they are not 0 for.
        """
        j = self._moves.TOGETHER if alone is None else alone
        move, cells, interval, self._far, ends, priors = self._prepared(deltas, j)
        told = move, ends, self._modes, self._move, self._state, cells, self._half

        def add_up(shared: tuple[Any, ...], totals: NDArray[np.int64]) -> None:
            self._walks.ratio_totals(self._rows(), told, shared, 0, totals)

        totals = self._together(add_up, lambda: np.zeros(len(deltas), np.int64), 1, len(deltas))
        self._move, self._modes = move, np.full_like(self._modes, self._kernels.KEEP)
        public, sums, sensitivities = self._walks.summed(
            totals, self.rows, self.tempering, interval
        )
        return public + sums, sensitivities, priors

    def penalty_walk(self, steps: Steps, signs: NDArray[np.int64] | None) -> Floats:
        """See Target."""
        length, chains, dimension = steps.deltas.shape
        draws = np.empty((chains, length, dimension))

        def walk(shared: tuple[Any, ...], moved: tuple[Floats, NDArray[np.int64]]) -> None:
            facts, public = self._facts(), self._form.public
            self._walks.walk(self._rows(), self._state, facts, public, steps, shared, *moved, draws)

        sides = NO_SIGNS if signs is None else signs
        self.position[:], sides[:] = self._together(
            walk, lambda: (self.position.copy(), sides.copy()), length, chains
        )
        self.refresh()
        return draws

    def cut(self, steep: Floats) -> None:
        """See Target."""
        self._steep = steep

    def spread(self, root: Floats | None) -> tuple[Floats, float]:
        """See Target. The log sd of a linear model is as it was: it has one unit and no direction.

        In the new coordinates each coefficient is known as well as such a log sd.
        """
        d, columns = self.position.shape[1], self._x.shape[1]
        back = np.eye(d)
        self._seen, self._norm, self._back = None, None, np.empty((0, 0))
        if root is None or isinstance(self._form, GaussianForm):
            return back, 1.0
        rows = self.rows * self.tempering
        along = math.sqrt(2.0 * rows) * np.linalg.cholesky(root[:columns] @ root[:columns].T)
        if not self._form.reach * np.linalg.norm(along) < LONGEST:
            return back, 1.0
        back[:columns, :columns] = np.linalg.inv(along)
        self._seen = np.empty_like(self._x)
        for block, x in zip(self._seen, self._x, strict=True):
            block[:] = along.T @ x
        self._back = back[:columns, :columns]
        before = float((np.linalg.inv(root) ** 2).sum()) / rows
        return back, math.sqrt(2.0 * d / before)

    def vector_commit(self, deltas: Floats, accepted: NDArray[np.bool_]) -> None:
        """Move the accepted chains by what vector_ratios was asked for last."""
        self.move(deltas, accepted)
        made = np.where(self._far, self._kernels.FILL, self._kernels.FOLLOW)
        self._modes = np.where(accepted, made, self._kernels.KEEP).astype(np.int8)

    def move(self, deltas: Floats, accepted: NDArray[np.bool_]) -> None:
        """See Target."""
        np.add(self.position, deltas, out=self.position, where=accepted[:, None])

    @QUIETLY
    def gradient(self, positions: Floats, clip: float) -> tuple[Floats, float]:
        """See Target. Proof: docs/proofs/gaussian_release.md, sections 1 and 2."""
        scores, grid, sensitivity = self._scores(clip, positions.shape[1])
        ends = self._forms.ends_of_gradients(self._form.public, positions, self._back)
        norm, precision, _, short, scale = scores
        told = norm, precision, ends, short, scale

        def add_up(shared: tuple[Any, ...], totals: NDArray[np.int64]) -> None:
            self._paths.score_totals(self._rows(seen=True), told, shared, 0, totals)

        shape = positions.shape
        totals = self._together(add_up, lambda: np.zeros(shape, np.int64), 1, positions.size)
        return np.asarray(grid * totals, np.float64), sensitivity

    @QUIETLY
    def hamiltonian_walk(self, path: Path, steps: Trajectories, gradients: Floats) -> Floats:
        """See Target. Proof: docs/proofs/gaussian_release.md, sections 1 and 2."""
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
            self._paths.walk(
                *every, self._facts(), public, around, how, steep, steps, shared, held, draws
            )

        self.position[:], gradients[:] = self._together(
            walk,
            lambda: (self.position.copy(), gradients.copy()),
            length * (leapfrogs + 1),
            chains * d,
        )
        self.refresh()
        return draws

    @QUIETLY
    def batch_walk(
        self,
        rule: Rule,
        deltas: Floats,
        noise: Integers,
        others: Floats,
        batches: NDArray[np.int32],
    ) -> Floats:
        """See Target."""
        from dpmcmc.kernels import batches as kernels

        length, chains, dimension = deltas.shape
        draws = np.empty((chains, length, dimension))
        kernels.walk(
            *(self.table(), self._form.reach, self._form.public, rule, self._clip),
            *(batches, deltas, noise, others, self.position, draws),
        )
        return draws

    def table(self) -> Singles:
        """Return the rows (n, width) for who reads few of them: columns, response, zeros.

        Columns as they are, the response, where there is one, as a sum of two. A row lies on as
        few lines of memory as it can.
        """
        if self._table is None:
            from dpmcmc.kernels.batches import LINE
            from dpmcmc.kernels.scattered import LANES

            columns, answers = self._x.shape[1], self._form.link in (LINEAR, POISSON) or self.gaps
            least = max(LANES, columns + 2 * answers)
            width = min(1 << (least - 1).bit_length(), -(-least // LINE) * LINE)
            self._table = _on_lines(self.rows, width)
            for k in range(columns):
                self._table[:, k] = self._x[:, k].reshape(-1)[: self.rows]
            if answers:
                y = self._y.reshape(-1)[: self.rows]
                self._table[:, columns] = _halved(y)
                self._table[:, columns + 1] = _halved(y - self._table[:, columns])
        return self._table

    @property
    def complete(self) -> int:
        """See Target."""
        return self.rows - int(np.isnan(self._y).sum())

    def growth(self, positions: Floats, moments: Floats | None) -> tuple[Floats, Floats]:
        """See Target."""
        return self._form.growth(positions, moments)

    @QUIETLY
    def widths(self, here: Floats, deltas: Floats, alone: bool = False) -> Floats:
        """See Target."""
        start, together = np.broadcast_to(here, deltas.shape), self._moves.TOGETHER
        if not alone:
            return np.asarray(self.tempering * self._prepared(deltas, together, start)[2][1])
        every = [
            self._prepared(deltas[j : j + 1], j, start[j : j + 1])[2][1][0]
            for j in range(len(deltas))
        ]
        return self.tempering * np.array(every)

    @QUIETLY
    def log_prior_ratio(self, deltas: Floats) -> Floats:
        """See Target."""
        return self._form.log_prior_ratio(self.position, self.position + deltas)

    def log_prior_gradient(self, positions: Floats) -> Floats:
        """See Target."""
        return self._form.log_prior_gradient(positions)

    def _facts(self) -> tuple[Any, ...]:
        """Return (reach, tempering, clip, half); see walks.walk."""
        return self._form.reach, self.tempering, self._clip, self._half

    def _rows(self, *, seen: bool = False) -> tuple[Any, ...]:
        """Return (x, y, count, link); seen: in the coordinates in which gradients are clipped."""
        x = self._seen if seen and self._seen is not None else self._x
        return x, self._y, self.rows, self._form.link

    def _together(
        self,
        work: Callable[[tuple[Any, ...], T], None],
        fresh: Callable[[], T],
        turns: int,
        size: int,
    ) -> T:
        """Return what work(shared, some) makes of some = fresh(), by two threads if it is much.

        turns, size: how many sums over all rows it takes, of how many numbers. See
        threads.part_taken. Each thread does all that is not a sum over rows, on a copy of its own.
        """
        counters = (np.zeros(shape, np.int64) for shape in (turns, turns, (turns, size)))
        claimed, done, sums = counters
        mine, other = fresh(), None
        numbers = self._x.size * len(self.position) * min(turns, SOON)
        if numbers >= WORTH_COMPANY and THREADS >= 2:
            other = self._second().submit(work, (1, claimed, done, sums), fresh())
        work((0, claimed, done, sums), mine)
        if other is not None and not other.cancel():  # no core may have been free for it so far
            other.result()
        return mine

    def _second(self) -> ThreadPoolExecutor:
        from dpmcmc.subnormals import flush

        if self._helper is None:
            self._helper = ThreadPoolExecutor(max_workers=1, initializer=flush)
        return self._helper

    def _prepared(self, deltas: Floats, j: int, start: Floats | None = None) -> tuple[Any, ...]:
        """Return what moves.prepare says of moves from start, or from the positions."""
        most = np.full(len(deltas), math.inf)
        if self._steep is not None:
            most = np.asarray(2.0 * np.sqrt(((deltas @ self._steep) ** 2).sum(axis=1)))
        here = np.array(self.position if start is None else start)
        prepared: tuple[Any, ...] = self._moves.prepare(
            *(self._form.public, self._form.reach, here, np.ascontiguousarray(deltas), j),
            *(most, self._clip, self._half),
        )
        return prepared

    def _scores(self, clip: float, d: int) -> tuple[tuple[Any, ...], float, float]:
        """Return what kernels need to know of gradients, the size of a cell, and a sensitivity.

        (norm, precision, columns_back, clip, scale), see paths.leapfrog. d: entries of a gradient.
        """
        bound = self.tempering * clip
        grid = term_grid(bound, self.rows, self._kernels.TERM_BITS)
        # rounding lengthens a term by less than a cell in every direction
        short = clip - math.sqrt(d) * grid / self.tempering
        if self._norm is None:  # the next above: a term that is clipped too far is no harm
            x = self._rows(seen=True)[0]
            norm = np.sqrt(np.einsum("bji,bji->bi", x, x, dtype=np.float64))
            self._norm = np.nextafter(norm.astype(np.float32), np.float32(np.inf))
        scale = self.tempering * SHRINK / grid
        scores = self._norm, 1.0 / self._form.public.unit, self._back, short, scale
        return scores, grid, 2.0 * bound


def _halved(x: Floats) -> Singles:
    """Return x in half of the memory, towards zero, so that no bound of a row is left.

    A fixed map of each row. It moves a coefficient by about one part in 2^24 of the column's range
    over its spread, and a sum is as fast as its rows come from memory.
    """
    with np.errstate(over="ignore"):  # an infinity is too far
        single = x.astype(np.float32)
    too_far = np.abs(single) > np.abs(x)
    single[too_far] = np.nextafter(single[too_far], np.float32(0.0))
    return single


def _without_traces(x: Singles, reach: float) -> Singles:
    """Return x with 0 for what is too small to matter: its products would be subnormal numbers.

    Towards zero, a fixed map of each row, and as fast whatever the rows are. For libraries whose
    threads are not ours; ours flush such numbers, see dpmcmc.subnormals.
    """
    return np.where(np.abs(x) < np.float32(TRACE * reach), np.float32(0.0), x)


def _blocked(column: NDArray[Any], size: int) -> NDArray[Any]:
    """Return (blocks, size) from (n,), padded with zeros."""
    return np.pad(column, (0, -len(column) % size)).reshape(-1, size)


def _on_lines(rows: int, width: int) -> Singles:
    """Return zeros (rows, width) that begin where a line of memory does."""
    size = 4 * rows * width
    room = np.zeros(size + 64, np.uint8)
    skipped = -room.ctypes.data % 64
    return room[skipped : skipped + size].view(np.float32).reshape(rows, width)
