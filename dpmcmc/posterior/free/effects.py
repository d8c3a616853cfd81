"""Predictions, differences between settings, and effects of single covariates, from draws.

Each quantity is computed for every draw, so that its spread is that of the posterior.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from dpmcmc.base.errors import SpecError
from dpmcmc.families.multinomial import categories_of, probabilities
from dpmcmc.families.scores.responses import Response
from dpmcmc.formula.design import Design
from dpmcmc.formula.variables import column_of
from dpmcmc.inputs.schema import NumberColumn
from dpmcmc.posterior.diagnostics import QUANTILES
from dpmcmc.posterior.free import settings
from dpmcmc.posterior.free.priors import Floats
from dpmcmc.posterior.free.settings import Setting, at
from dpmcmc.posterior.summary_table import as_html, as_lines, rounded
from dpmcmc.privacy.noise import RandomSource


# Mean, sd and quantiles of a quantity over draws.
@dataclass(frozen=True, slots=True)
class Spread:
    """How a quantity is spread over the draws: its 90 % interval is from q05 to q95."""

    mean: float
    sd: float
    q05: float
    q25: float
    q50: float
    q75: float
    q95: float

    def __str__(self) -> str:
        """Return the mean and the 90 % interval."""
        mean, low, high = (rounded(one, self.sd) for one in (self.mean, self.q05, self.q95))
        return f"{mean}, 90 % from {low} to {high}"


def spread(values: Floats) -> Spread:
    """Return how values (draw,) are spread."""
    sd = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    return Spread(float(values.mean()), sd, *(float(q) for q in np.quantile(values, QUANTILES)))


# of a column's range: how far apart settings are that a derivative is taken from
DIFFERENCE_STEP = 1e-4


@dataclass(frozen=True, slots=True)
class Prediction:
    """For one setting of the covariates.

    predictor: the linear predictor. expected: the mean response, on the response's own scale: a
    probability, a mean count, or a mean. response: what a new row would have; None where that is
    yes or no, of which `expected` says all. probabilities: of each category, where the response is
    one of several, and nothing else then.
    """

    predictor: Spread | None = None
    expected: Spread | None = None
    response: Spread | None = None
    probabilities: dict[str, Spread] | None = None


class Predictions(list[Prediction]):
    """A prediction for each setting, in their order; printed, a table of the mean responses."""

    def __init__(self, found: Iterable[Prediction], given: Sequence[Setting]) -> None:
        super().__init__(found)
        self._given = tuple(given)

    def _rows(self) -> list[tuple[str, Spread]]:
        rows: list[tuple[str, Spread]] = []
        for one, setting in zip(self, self._given, strict=False):
            name = ", ".join(f"{covariate} {value}" for covariate, value in setting.items())
            if one.expected is not None:
                rows.append((name, one.expected))
            rows += [(f"{name}: {word}", each) for word, each in (one.probabilities or {}).items()]
        return rows

    def __repr__(self) -> str:
        """Return the table of mean responses, or of the probabilities of categories."""
        return "\n".join(["mean response", *as_lines(self._rows())]) if self else "[]"

    def _repr_html_(self) -> str:
        return f"<p>mean response</p>{as_html(self._rows())}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """One setting less another. ratio: exp of the predictors' difference, where it has a meaning.

    multiplies: what the ratio multiplies: odds (logistic), a mean count (Poisson); else empty.
    probabilities: differences by category, where the response is one of several: nothing else then.
    """

    predictor: Spread | None = None
    expected: Spread | None = None
    ratio: Spread | None = None
    multiplies: str = ""
    probabilities: dict[str, Spread] | None = None


@dataclass(frozen=True, slots=True)
class Effect:
    """Average effect of one covariate on the mean response, over settings of the others.

    value, against: expected there less expected here. Both None: the derivative, per unit of the
    covariate, at the settings' own values. probabilities: of each category, where the response is
    one of several; in place of expected.
    """

    covariate: str
    value: float | str | None
    against: float | str | None
    expected: Spread | None = None
    probabilities: dict[str, Spread] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """Coefficients (draw, k d) of a family's design, for k predictors of a row one after another.

    response: None where the model has none that one predictor tells. sds: (draw,) of a number's
    noise.
    """

    response: Response | None
    design: Design
    coefficients: Floats
    sds: Floats

    @property
    def _classes(self) -> int:
        return int(self.coefficients.shape[1]) // len(self.design.parameters)

    def _response(self, pointer: str) -> Response:
        if self.response is None:
            raise SpecError(pointer, "this model has no response to predict")
        return self.response

    def predictors(self, given: Sequence[Setting], pointer: str) -> Floats:
        """Return linear predictors (draw, setting). Raises SpecError."""
        x, offset = settings.rows(self.design, given, pointer)
        return np.asarray(self.coefficients @ x + offset)

    def predict(self, given: Sequence[Setting], random: RandomSource, pointer: str) -> Predictions:
        """Return what is expected at each setting. Raises SpecError."""
        if self._classes > 1:
            return Predictions(self._categories(given, pointer), given)
        response, etas = self._response(pointer), self.predictors(given, pointer).T
        return Predictions((self._prediction(response, eta, random) for eta in etas), given)

    def _categories(self, given: Sequence[Setting], pointer: str) -> list[Prediction]:
        """Return how the probability of each category is spread."""
        found = self._means(given, pointer)
        return [
            Prediction(probabilities={name: spread(q[:, k]) for name, q in found.items()})
            for k in range(len(given))
        ]

    def _means(self, given: Sequence[Setting], pointer: str) -> dict[str, Floats]:
        """Return the mean response (draw, setting), or probabilities by category. Raises SpecError.

        Of a response that is not one of several, under the empty name.
        """
        if self._classes == 1:
            response = self._response(pointer)
            return {"": response.expected(self.predictors(given, pointer))}
        x, offset = settings.rows(self.design, given, pointer)
        weights = self.coefficients.reshape(len(self.coefficients), self._classes, len(x))
        first, others = probabilities((weights @ x + offset).swapaxes(0, 1))
        return dict(zip(categories_of(self.design), [first, *others], strict=True))

    def _prediction(self, response: Response, eta: Floats, random: RandomSource) -> Prediction:
        mean = response.expected(eta)
        new = None if response.drawn is None else spread(response.drawn(mean, self.sds, random))
        return Prediction(spread(eta), spread(mean), new)

    def compare(self, given: Setting, against: Setting, pointer: str) -> Comparison:
        """Return what one setting has more than another. Raises SpecError."""
        if self._classes > 1:
            ends = [
                self._means([one], f"{pointer}/{name}")
                for name, one in (("given", given), ("against", against))
            ]
            return Comparison(probabilities=_spreads({k: ends[0][k] - ends[1][k] for k in ends[0]}))
        response = self._response(pointer)
        here, there = (
            self.predictors([one], f"{pointer}/{name}")[:, 0]
            for name, one in (("given", given), ("against", against))
        )
        more, times = here - there, None
        if response.ratio:
            times = spread(np.exp(np.clip(more, -700.0, 700.0)))
        expected = response.expected(here) - response.expected(there)
        return Comparison(spread(more), spread(expected), times, response.ratio)

    def effects(
        self,
        covariate: str,
        given: Sequence[Setting],
        value: float | str | None,
        against: float | str | None,
        pointer: str,
    ) -> list[Effect]:
        """Return effects, one for each category where none is named. Raises SpecError."""
        if self._classes == 1:
            self._response(pointer)
        settings.check_covariate(self.design, covariate, f"{pointer}/covariate")
        if not given:
            raise SpecError(f"{pointer}/given", "give a setting of the covariates, or several")
        column = column_of(self.design.schema, covariate)
        if isinstance(column, NumberColumn):
            if value is None and against is None:
                return [self._slope(column, given, pointer)]
            for name, one in (("value", value), ("against", against)):
                if one is None:
                    raise SpecError(f"{pointer}/{name}", "give both, or neither for a derivative")
            pairs = [(value, against)]
        else:
            base = column.categories[0] if against is None else against
            levels = [word for word in column.categories if word != base]
            pairs = [(one, base) for one in (levels if value is None else [value])]
        return [self._step(covariate, given, pair, pointer) for pair in pairs]

    def _step(
        self,
        covariate: str,
        given: Sequence[Setting],
        pair: tuple[float | str | None, float | str | None],
        pointer: str,
    ) -> Effect:
        for name, one in zip(("value", "against"), pair, strict=True):
            settings.value_of(self.design, covariate, one, f"{pointer}/{name}")
        there, here = (self._with(covariate, given, [one] * len(given), pointer) for one in pair)
        return _effect(covariate, pair, {k: there[k] - here[k] for k in there})

    def _slope(self, column: NumberColumn, given: Sequence[Setting], pointer: str) -> Effect:
        """Return the mean derivative, by differences that stay within the declared bounds."""
        width = DIFFERENCE_STEP * (column.upper - column.lower)
        places = []
        for k, row in enumerate(given):
            place = at(f"{pointer}/given/{k}", column.name)
            if column.name not in row:
                raise SpecError(place, "is missing: a derivative is taken at a value")
            places.append(settings.value_of(self.design, column.name, row[column.name], place))
        low, high = (
            np.clip(np.array(places) + way * width, column.lower, column.upper) for way in (-1, 1)
        )
        below, above = (
            self._with(column.name, given, ends.tolist(), pointer) for ends in (low, high)
        )
        slopes = {k: (above[k] - below[k]) / (high - low) for k in above}
        return _effect(column.name, (None, None), slopes)

    def _with(
        self, covariate: str, given: Sequence[Setting], values: Sequence[object], pointer: str
    ) -> dict[str, Floats]:
        """Return mean responses with one covariate set to these values, see _means."""
        changed = [{**row, covariate: one} for row, one in zip(given, values, strict=True)]
        return self._means(changed, f"{pointer}/given")


def _spreads(found: dict[str, Floats]) -> dict[str, Spread]:
    """Return how means over settings of (draw, setting) are spread."""
    return {name: spread(values.mean(axis=1)) for name, values in found.items()}


def _effect(
    covariate: str, pair: tuple[float | str | None, float | str | None], found: dict[str, Floats]
) -> Effect:
    """Return an effect of differences (draw, setting) by category."""
    spreads = _spreads(found)
    if "" in spreads:
        return Effect(covariate, *pair, spreads[""])
    return Effect(covariate, *pair, probabilities=spreads)
