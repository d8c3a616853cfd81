"""The cell of each row in a histogram by the predictive distribution of a fitted model.

Draws of the model's parameters are released numbers, which are fixed before a row is looked at. So
a row's cell follows from its own values and from random numbers that know nothing of any row.
Source: Gneiting, Balabdaoui and Raftery 2007; Czado, Gneiting and Held 2009 of counts.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpmcmc.base.errors import SpecError
from dpmcmc.base.names import LOG_SCALES
from dpmcmc.families import MODELS
from dpmcmc.formula import cuts
from dpmcmc.formula.design import Design, make_design
from dpmcmc.formula.variables import column_of
from dpmcmc.inputs.schema import CategoryColumn, NumberColumn, Schema, Table
from dpmcmc.inputs.spec import ModelSpec
from dpmcmc.posterior.free.posterior import effects_of
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.releases.base import columns_read

Floats = NDArray[np.float64]
BINS, FEWEST_BINS, MOST_BINS = 10, 4, 20
MOST_DRAWS = 64  # of the posterior, over which a distribution is averaged
MOST_LOG_SCALE = 345.0  # in size: its exp squared is a number
HALVINGS = 44  # of the magnitude of a response
ODDS = 3.0  # between the ends of a bin of fitted probabilities


@dataclass(frozen=True, slots=True)
class Histogram:
    """The cells of a model's rows, from public facts. bins: how many there are.

    Of a response with categories a bin is one of fitted probabilities, and has two cells. fitted:
    ends and middles of these in turn, (2 bins - 1,), from what the fit has released; where that
    says nothing of them, odds are the same times as high from bin to bin.
    """

    design: Design
    model: ModelSpec
    bins: int
    fitted: tuple[float, ...] = ()

    @property
    def by_probability(self) -> bool:
        """Whether bins are of fitted probabilities, and not of the predictive distribution."""
        return MODELS[self.model.family].categories is not None

    @property
    def size(self) -> int:
        """Number of cells."""
        return 2 * self.bins if self.by_probability else self.bins

    @property
    def ends(self) -> Floats:
        """The ends (bins + 1,) of the bins: probabilities."""
        if not self.by_probability:
            return np.linspace(0.0, 1.0, self.bins + 1)
        return np.concatenate(([0.0], self._places[1::2], [1.0]))

    @property
    def middles(self) -> Floats:
        """The probabilities (bins,) in the middle of bins of fitted ones."""
        return self._places[::2]

    @property
    def _places(self) -> Floats:
        """The middles of bins of fitted probabilities, and the ends between them."""
        if self.fitted:
            return np.array(self.fitted)
        odds = ODDS ** (0.5 * np.arange(1.0, 2.0 * self.bins) - 0.5 * self.bins)
        return np.asarray(odds / (1.0 + odds))

    @property
    def categories(self) -> int:
        """Number of the response's categories; 2 of a number that is 0 or 1."""
        answer = self.design.answer
        return len(answer.categories) if isinstance(answer, CategoryColumn) else 2

    @property
    def read(self) -> tuple[str, ...]:
        """Names of the columns that are read."""
        return columns_read(self.design, self.model)

    def counts(self, table: Table, draws: Floats, random: RandomSource) -> NDArray[np.int64]:
        """Return how many of some rows are in each cell (size,). Not released.

        draws: see `Parameters`. Every row draws as many random numbers, whatever it holds, and one
        that is left out is in no cell.
        """
        with np.errstate(all="ignore"):  # rows that are left out may hold anything
            codes = self._codes(table, Parameters(self, draws), random)
        used = (~self.design.left_out(table)).astype(np.float64)
        # weighted, and not selected: how long it takes must not tell how many rows are in use
        return np.bincount(codes, used, minlength=self.size).astype(np.int64)

    def _codes(
        self, table: Table, parameters: "Parameters", random: RandomSource
    ) -> NDArray[np.int64]:
        """Return the cell (n,) of each row."""
        chance = random.uniforms((table.rows,))
        y = self.design.responses(table)
        if self.by_probability:
            which = np.ones(table.rows, np.int64)
            if self.categories > 2:
                which = random.integers(self.categories, (table.rows,))
            else:
                y = np.where(y >= 0.5, 1.0, 0.0)
            return self._of_probability(parameters.probability(table, which), y == which, chance)
        below, upto = parameters.ends(table, y)
        place = np.nan_to_num(below + chance * (upto - below), nan=0.5)
        return np.asarray(np.clip(place * self.bins, 0, self.bins - 1), np.int64)

    def _of_probability(
        self, p: Floats, happened: NDArray[np.bool_], chance: Floats
    ) -> NDArray[np.int64]:
        """Return the cell (n,) of rows with these probabilities of what happened or did not.

        Under the model the second cell of a bin has the same probability for every row in it.
        """
        p = np.clip(np.nan_to_num(p, nan=0.5), 0.0, 1.0)
        bins = np.searchsorted(self.ends[1:-1], p, side="right")
        place = np.where(happened, 1.0 - p + chance * p, chance * (1.0 - p))
        return np.asarray(2 * bins + (place > 1.0 - self.middles[bins]), np.int64)


class Parameters:
    """Draws (draw, parameter) of a fitted model's parameters, of the standardised design. Public.

    With what follows from them for rows, averaged over the draws.
    """

    def __init__(self, histogram: Histogram, draws: Floats) -> None:
        design, model = histogram.design, histogram.model
        family = MODELS[model.family]
        names = family.parameters(design, model)
        own = len(names) - len(design.beside_families)
        self._design, self._model, self._family = design, model, family
        self._scales = np.full(len(draws), model.options.noise_scale or 1.0)
        if names[own - 1] in LOG_SCALES:
            own -= 1
            self._scales = np.exp(np.clip(draws[:, own], -MOST_LOG_SCALE, MOST_LOG_SCALE))
        d, first = len(design.parameters), cuts.count(design, names[:own])
        coefficients = draws[:, :own]
        if first:
            coefficients = coefficients @ cuts.spread_out(first, d).T
        self.coefficients = coefficients.reshape(len(draws), -1, d)  # of each predictor
        self._effects: Floats | None = None
        if design.grouping is not None:
            of_groups = draws[:, draws.shape[1] - len(design.grouping.parameters) :]
            self._effects = effects_of(design.grouping, of_groups)

    def ends(self, table: Table, y: Floats) -> tuple[Floats, Floats]:
        """Return P(Y < y) and P(Y <= y), (n,) each, of responses y (n,) given their covariates."""
        beside, root = self._design.besides(table), self._roots(table)
        below, upto = np.zeros(table.rows), np.zeros(table.rows)
        for eta, scale in zip(self._predictors(table), self._scales, strict=True):
            low, high = self._of_responses(y, beside, eta, scale / root)
            below += low
            upto += high
        return below / len(self._scales), upto / len(self._scales)

    def probability(self, table: Table, which: NDArray[np.int64]) -> Floats:
        """Return the probability (n,) of one category of each row, given its covariates."""
        total = np.zeros(table.rows)
        for eta in self._predictors(table):
            total += np.take_along_axis(self._categories(eta), which[None], axis=0)[0]
        return total / len(self._scales)

    def each(self, x: Floats, y: Floats) -> tuple[Floats, Floats]:
        """Return P(Y < y) and P(Y <= y), (draw, m) each, at covariates x (d, m).

        Of a mean group and, where trials are counted, of usual numbers of them.
        """
        beside = np.full(len(y), self._design.usual_trials)
        ends = [
            self._of_responses(y, beside, eta, scale)
            for eta, scale in zip(self._usual(x), self._scales, strict=True)
        ]
        below, upto = zip(*ends, strict=True)
        return np.array(below), np.array(upto)

    def shares(self, x: Floats) -> Floats:
        """Return the probabilities (draw, category, m) at covariates x (d, m)."""
        return np.array([self._categories(eta) for eta in self._usual(x)])

    def quantiles(self, x: Floats, shares: Floats) -> Floats:
        """Return the responses (m,) below which such a share lies, at covariates x (d, m).

        Averaged over the draws. Counts are whole numbers.
        """
        answer = self._design.answer
        if not isinstance(answer, NumberColumn):
            raise refused(self._model)
        low, high = (np.full(len(shares), np.arcsinh(end)) for end in (answer.lower, answer.upper))
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            enough = self.each(x, np.sinh(middle))[1].mean(axis=0) >= shares
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        y = np.clip(np.sinh(high), answer.lower, answer.upper)
        whole = np.round(y)
        below, upto = (part.mean(axis=0) for part in self.each(x, whole))
        is_whole = (upto > below) & (upto >= shares) & (below < shares)
        return np.asarray(np.where(is_whole, whole, y))

    def _of_responses(
        self, y: Floats, beside: Floats, eta: Floats, scale: Floats | float
    ) -> tuple[Floats, Floats]:
        """Return P(Y < y) and P(Y <= y) at predictors (k, n).

        A response at a declared bound stands for all that lies beyond.
        """
        distribution, answer = self._family.distribution(self._model.options), self._design.answer
        if distribution is None or not isinstance(answer, NumberColumn):
            raise refused(self._model)
        below, upto = distribution(y, beside, eta if len(eta) > 1 else eta[0], scale)
        return np.where(y <= answer.lower, 0.0, below), np.where(y >= answer.upper, 1.0, upto)

    def _categories(self, eta: Floats) -> Floats:
        """Return the probabilities (category, n) at predictors (k, n)."""
        if self._family.categories is None:
            raise refused(self._model)
        return np.asarray(self._family.categories(eta))

    def _usual(self, x: Floats) -> Iterator[Floats]:
        """Yield the predictors (k, m) at covariates x (d, m) of a mean group under each draw."""
        for k, coefficients in enumerate(self.coefficients):
            eta = coefficients @ x
            eta[0] += self._design.middle_offset
            if self._effects is not None:
                level, *slope = self._effects[k].mean(axis=1)
                eta += level + sum(slope) * x[self._design.slope]
            yield eta

    def _predictors(self, table: Table) -> Iterator[Floats]:
        """Yield the predictors (k, n) of rows under each draw."""
        x, offset = self._design.build(table)[0], self._design.offset(table)
        grouping, slope = self._design.grouping, self._design.slope
        groups = None if grouping is None else np.maximum(grouping.codes(table), 0)
        for k, coefficients in enumerate(self.coefficients):
            eta = coefficients @ x
            eta[0] += offset  # of several predictors only counts above 0 have any
            if groups is not None and self._effects is not None:
                eta += self._effects[k, 0, groups]
                if slope:
                    eta += self._effects[k, 1, groups] * x[slope]
            yield eta

    def _roots(self, table: Table) -> Floats | float:
        """Return what residuals are times (n,): roots of weights where these divide variances."""
        rows = self._family.rows(self._model.options)
        if self._model.weights is None or rows is None or rows.link != "identity":
            return 1.0
        weights = table.columns[self._model.weights].astype(np.float64)
        column = column_of(self._design.schema, self._model.weights)
        if isinstance(column, NumberColumn):
            weights = np.fmin(np.fmax(weights, column.lower), column.upper)
        return np.asarray(np.sqrt(weights))


def refused(model: ModelSpec) -> SpecError:
    """Return the refusal of a model that nothing can be said of."""
    message = "has no response whose distribution could be compared with rows: fit a regression"
    return SpecError("/job", f"{model.family} {message}")


def histogram_of(schema: Schema, model: ModelSpec, bins: int) -> Histogram:
    """Return the histogram of a fitted model. Raises SpecError where it cannot be checked."""
    if type(bins) is not int or not FEWEST_BINS <= bins <= MOST_BINS:
        message = f"must be a whole number from {FEWEST_BINS} to {MOST_BINS}"
        raise SpecError("/bins", message)
    family = MODELS[model.family]
    if family.distribution(model.options) is None and family.categories is None:
        raise refused(model)
    return Histogram(make_design(schema, model.formula), model, bins)


def some_of(draws: Floats, num_warmup: int) -> Floats:
    """Return at most MOST_DRAWS of draws (chain, draw, parameter) after warm-up, evenly spaced."""
    kept = draws[:, num_warmup:].reshape(-1, draws.shape[2])
    count = min(MOST_DRAWS, len(kept))
    return kept[np.linspace(0, len(kept) - 1, count).astype(int)] if count else kept
