"""Predictions, differences between settings, and effects of single covariates, from draws.

Each quantity is computed for every draw, so that its distribution is that of the posterior.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from dpmcmc.base.errors import SpecError
from dpmcmc.families import ordinal
from dpmcmc.families.hurdle_poisson import ZERO_COUNT
from dpmcmc.families.multinomial import categories_of, probabilities
from dpmcmc.families.scores.responses import Response
from dpmcmc.formula.cuts import spread_out
from dpmcmc.formula.design import Design
from dpmcmc.formula.variables import column_of
from dpmcmc.inputs.schema import NumberColumn
from dpmcmc.posterior.diagnostics import QUANTILES
from dpmcmc.posterior.free import settings
from dpmcmc.posterior.free.priors import Floats
from dpmcmc.posterior.free.settings import Setting, at
from dpmcmc.posterior.summary_table import SHOWN, as_html, as_lines, rounded
from dpmcmc.privacy.noise import RandomSource


# Mean, sd and quantiles of a quantity over draws.
@dataclass(frozen=True, slots=True)
class Spread:
    """Mean, sd and quantiles of a quantity over the draws; its 90 % interval is q05 to q95."""

    mean: float
    sd: float
    q05: float
    q25: float
    q50: float
    q75: float
    q95: float

    def __str__(self) -> str:
        """Return the mean and the 90 % interval."""
        mean, low, high = (rounded(value, self.sd) for value in (self.mean, self.q05, self.q95))
        return f"{mean}, 90 % from {low} to {high}"


def _shown(value: object) -> str:
    """Return a value of a setting as text for a heading."""
    return f"{value:.6g}" if isinstance(value, float | np.floating) else str(value)


def spread(values: Floats) -> Spread:
    """Return mean, sd and quantiles of values (draw,)."""
    sd = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    return Spread(float(values.mean()), sd, *(float(q) for q in np.quantile(values, QUANTILES)))


# of a column's range: the half width of a difference quotient
DIFFERENCE_STEP = 1e-4


@dataclass(frozen=True, slots=True)
class Prediction:
    """Posterior predictions at one setting of the covariates.

    predictor: the linear predictor. expected: the mean response on its own scale: a probability, a
    mean count, or a mean. response: the response of a new row; None where it is binary.
    probabilities: of each category, where the response has several; the other fields are None then.
    Counts with zeros of their own kind have a mean, a response and the probability of "0".
    """

    predictor: Spread | None = None
    expected: Spread | None = None
    response: Spread | None = None
    probabilities: dict[str, Spread] | None = None


class Predictions(list[Prediction]):
    """Predictions in the order of the settings; printed, a table of the mean responses."""

    def __init__(self, predictions: Iterable[Prediction], settings: Sequence[Setting]) -> None:
        """settings: those of the predictions, in the same order."""
        super().__init__(predictions)
        self._given = tuple(settings)

    def _rows(self) -> list[tuple[str, Spread]]:
        """Return the rows of the printed table: a label and its spread."""
        rows: list[tuple[str, Spread]] = []
        for prediction, setting in zip(self, self._given, strict=False):
            name = ", ".join(f"{covariate} {_shown(value)}" for covariate, value in setting.items())
            if prediction.expected is not None:
                rows.append((name, prediction.expected))
            rows += [
                (f"{name}: {category}", probability)
                for category, probability in (prediction.probabilities or {}).items()
            ]
        return rows

    def __repr__(self) -> str:
        """Return the table of mean responses, or of the probabilities of categories."""
        if not self:
            return "[]"
        rows = self._rows()
        rest = [f"  and {len(rows) - SHOWN} more"] if len(rows) > SHOWN else []
        return "\n".join(["mean response", *as_lines(rows[:SHOWN]), *rest])

    def _repr_html_(self) -> str:
        return f"<p>mean response</p>{as_html(self._rows())}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """The difference of two settings. ratio: exp of the difference of predictors, or None.

    multiplies: what the ratio multiplies: odds, a mean count, a mean, a hazard; else empty.
    probabilities: differences by category, where the response has several, or of the probability of
    "0"; else None. odds: the ratio of the odds of a zero, where these have a predictor; else None.
    """

    predictor: Spread | None = None
    expected: Spread | None = None
    ratio: Spread | None = None
    multiplies: str = ""
    probabilities: dict[str, Spread] | None = None
    odds: Spread | None = None


@dataclass(frozen=True, slots=True)
class Effect:
    """Average effect of one covariate on the mean response, over settings of the others.

    value, against: the difference of the mean responses at value and at against. Both None: the
    derivative per unit of the covariate, at the values of the settings. probabilities: of each
    category, where the response has several, in place of expected; or that of "0" beside it.
    """

    covariate: str
    value: float | str | None
    against: float | str | None
    expected: Spread | None = None
    probabilities: dict[str, Spread] | None = None


@dataclass(frozen=True, slots=True)
class Curve:
    """The mean response along a covariate. at: its values; expected: spread at each value.

    given: the values of the other covariates. probabilities: of each category, where the response
    has several, in place of expected; or that of "0" beside it.
    """

    covariate: str
    at: tuple[float, ...]
    expected: tuple[Spread, ...]
    given: Setting
    probabilities: dict[str, tuple[Spread, ...]] | None = None

    def __str__(self) -> str:
        """Return a few of its values."""
        shown = ({"": self.expected} if self.expected else {}) | (self.probabilities or {})
        picked = np.unique(np.linspace(0, len(self.at) - 1, SHOWN).astype(int)).tolist()
        rows = [
            (f"{name} {self.at[k]:.6g}".strip(), spreads[k])
            for name, spreads in shown.items()
            for k in picked
        ]
        return "\n".join([f"mean response along {self.covariate}", *as_lines(rows)])

    __repr__ = __str__


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """Draws of coefficients (draw, k d) with their design, for k linear predictors a row.

    cuts: how many cuts between ordered categories coefficients (draw, k + d - 1) begin with; else
    0.

    response: None where the model has no response of one predictor. sds: (draw,) of the residuals.
    groups: (draw, k, group) effects of a model with groups, on the level and perhaps on a slope; at
    the end those of groups not seen before.
    """

    response: Response | None
    design: Design
    coefficients: Floats
    sds: Floats
    groups: Floats | None = None
    cuts: int = 0

    @property
    def _classes(self) -> int:
        """Number of linear predictors of a row."""
        if self.cuts:
            return self.cuts
        return int(self.coefficients.shape[1]) // len(self.design.parameters)

    def _response(self, pointer: str) -> Response:
        """Return what the model predicts. Raises SpecError where it has no response."""
        if self.response is None:
            raise SpecError(pointer, "this model has no response to predict")
        return self.response

    def predictors(self, given: Sequence[Setting], pointer: str) -> Floats:
        """Return linear predictors (draw, setting). Raises SpecError."""
        x, offset = settings.rows(self.design, given, pointer)
        etas = self.coefficients @ x + offset
        if self.groups is not None:
            of_group = self.groups[:, :, settings.groups(self.design, given, pointer)]
            etas = etas + of_group[:, 0]
            if self.design.slope:
                etas = etas + of_group[:, 1] * x[self.design.slope]
        return np.asarray(etas)

    def predict(self, given: Sequence[Setting], random: RandomSource, pointer: str) -> Predictions:
        """Return predictions at each setting. Raises SpecError."""
        if self._classes > 1:
            return Predictions(self._several(given, random, pointer), given)
        response, etas = self._response(pointer), self.predictors(given, pointer).T
        return Predictions((self._prediction(response, eta, random) for eta in etas), given)

    def _several(
        self, given: Sequence[Setting], random: RandomSource, pointer: str
    ) -> list[Prediction]:
        """Return the predictions where a row has several predictors, at each setting."""
        means, drawn = self._means(given, pointer), None
        if self.response is not None and self.response.counts is not None:
            drawn = self.response.counts(self._etas(given, pointer), random)
        return [
            Prediction(
                expected=spread(means[""][:, k]) if "" in means else None,
                response=None if drawn is None else spread(drawn[:, k]),
                probabilities={name: spread(q[:, k]) for name, q in means.items() if name},
            )
            for k in range(len(given))
        ]

    def _etas(self, given: Sequence[Setting], pointer: str) -> Floats:
        """Return (k, draw, setting), the predictors of rows that have several. Raises SpecError."""
        x, offset = settings.rows(self.design, given, pointer)
        coefficients = self.coefficients
        if self.cuts:
            coefficients = coefficients @ spread_out(self.cuts, len(x)).T
        weights = coefficients.reshape(len(coefficients), self._classes, len(x))
        etas = np.asarray((weights @ x).swapaxes(0, 1))
        etas[0] += offset  # of several predictors only counts above 0 have any
        return etas

    def _means(self, given: Sequence[Setting], pointer: str) -> dict[str, Floats]:
        """Return the mean response (draw, setting), or probabilities by category. Raises SpecError.

        The mean response has the empty name as its key.
        """
        if self._classes == 1:
            response = self._response(pointer)
            return {"": response.mean(self.predictors(given, pointer), self.sds)}
        etas = self._etas(given, pointer)
        if self.response is not None and self.response.means is not None:
            return self.response.means(etas)
        if self.cuts:
            each = list(ordinal.probabilities(etas))
        else:
            first, others = probabilities(etas)
            each = [first, *others]
        return dict(zip(categories_of(self.design), each, strict=True))

    def _prediction(self, response: Response, eta: Floats, random: RandomSource) -> Prediction:
        """Return the prediction at one setting, given its linear predictor (draw,)."""
        new_row, mean = None, response.mean(eta, self.sds)
        if response.drawn is not None:
            new_row = spread(response.drawn(response.expected(eta), self.sds, random))
        return Prediction(spread(eta), spread(mean), new_row)

    def curve(self, covariate: str, given: Setting, points: int, pointer: str) -> Curve:
        """Return the mean response along a covariate, see FreePosterior.curve. Raises SpecError."""
        if self._classes == 1:
            self._response(pointer)
        settings.check_covariate(self.design, covariate, f"{pointer}/covariate")
        column = column_of(self.design.schema, covariate)
        if not isinstance(column, NumberColumn):
            message = "is no number: ask for effects, which has each category"
            raise SpecError(f"{pointer}/covariate", message)
        others = settings.filled(self.design, given, covariate)
        ends = np.linspace(column.lower, column.upper, points)
        values = np.unique(np.floor(ends)) if column.integer else ends
        values = values[(values >= column.lower) & ~np.isin(values, column.missing)]
        every = [{**others, covariate: settings.shown(column, value)} for value in values.tolist()]
        means = {
            name: tuple(spread(drawn) for drawn in drawn_means.T)
            for name, drawn_means in self._means(every, f"{pointer}/given").items()
        }
        at, first = tuple(values.tolist()), means.pop("", ())
        return Curve(covariate, at, first, others, means or None)

    def compare(self, given: Setting, against: Setting, pointer: str) -> Comparison:
        """Return the difference of two settings. Raises SpecError."""
        if self._classes > 1:
            ends = [
                self._means([setting], f"{pointer}/{name}")
                for name, setting in (("given", given), ("against", against))
            ]
            differences = _spreads({k: ends[0][k] - ends[1][k] for k in ends[0]})
            if "" not in differences:
                return Comparison(probabilities=differences)
            of_given, of_against = (end[""][:, 0] for end in ends)
            odds = [end[ZERO_COUNT][:, 0] / (1.0 - end[ZERO_COUNT][:, 0]) for end in ends]
            return Comparison(
                expected=differences.pop(""),
                ratio=spread(of_given / of_against),
                multiplies=self._response(pointer).ratio,
                probabilities=differences,
                odds=spread(odds[0] / odds[1]),
            )
        response = self._response(pointer)
        of_given, of_against = (
            self.predictors([setting], f"{pointer}/{name}")[:, 0]
            for name, setting in (("given", given), ("against", against))
        )
        difference, ratio, multiplies = of_given - of_against, None, ""
        if response.ratio:
            ratios, multiplies = response.ratios(difference, self.sds)
            ratio = spread(ratios)
        expected = response.mean(of_given, self.sds) - response.mean(of_against, self.sds)
        return Comparison(spread(difference), spread(expected), ratio, multiplies)

    def effects(
        self,
        covariate: str,
        given: Sequence[Setting],
        value: float | str | None,
        against: float | str | None,
        pointer: str,
    ) -> list[Effect]:
        """Return the effect of a covariate; of categories one for each if none is named."""
        if self._classes == 1:
            self._response(pointer)
        settings.check_covariate(self.design, covariate, f"{pointer}/covariate")
        if not given:
            raise SpecError(f"{pointer}/given", "give a setting of the covariates, or several")
        column = column_of(self.design.schema, covariate)
        if isinstance(column, NumberColumn):
            if value is None and against is None:
                return [self._slope(column, given, pointer)]
            for name, end in (("value", value), ("against", against)):
                if end is None:
                    raise SpecError(f"{pointer}/{name}", "give both, or neither for a derivative")
            pairs = [(value, against)]
        else:
            reference = self.design.references.get(covariate, 0)
            base = column.categories[reference] if against is None else against
            levels = [category for category in column.categories if category != base]
            pairs = [(end, base) for end in (levels if value is None else [value])]
        return [self._step(covariate, given, pair, pointer) for pair in pairs]

    def _step(
        self,
        covariate: str,
        given: Sequence[Setting],
        pair: tuple[float | str | None, float | str | None],
        pointer: str,
    ) -> Effect:
        """Return the effect of a change between two values of a covariate."""
        for name, end in zip(("value", "against"), pair, strict=True):
            settings.value_of(self.design, covariate, end, f"{pointer}/{name}")
        of_value, of_against = (
            self._with(covariate, given, [end] * len(given), pointer) for end in pair
        )
        return _effect(covariate, pair, {k: of_value[k] - of_against[k] for k in of_value})

    def _slope(self, column: NumberColumn, given: Sequence[Setting], pointer: str) -> Effect:
        """Return the mean derivative, by differences that stay within the declared bounds."""
        width = DIFFERENCE_STEP * (column.upper - column.lower)
        positions = []
        for k, row in enumerate(given):
            field = at(f"{pointer}/given/{k}", column.name)
            if column.name not in row:
                raise SpecError(field, "is missing: a derivative is taken at a value")
            positions.append(settings.value_of(self.design, column.name, row[column.name], field))
        low, high = (
            np.clip(np.array(positions) + sign * width, column.lower, column.upper)
            for sign in (-1, 1)
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
        changed = [
            {**row, covariate: covariate_value}
            for row, covariate_value in zip(given, values, strict=True)
        ]
        return self._means(changed, f"{pointer}/given")


def _spreads(responses: dict[str, Floats]) -> dict[str, Spread]:
    """Return spreads of means over settings. responses: (draw, setting) by category."""
    return {name: spread(values.mean(axis=1)) for name, values in responses.items()}


def _effect(
    covariate: str,
    pair: tuple[float | str | None, float | str | None],
    differences: dict[str, Floats],
) -> Effect:
    """Return an effect. differences: (draw, setting) by category."""
    spreads = _spreads(differences)
    expected = spreads.pop("", None)
    return Effect(covariate, *pair, expected, spreads or None)
