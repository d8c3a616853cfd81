"""A posterior under one prior: draws, summaries, predictions, effects and tests."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import Protocol

import numpy as np

from dpmcmc.base.errors import SpecError
from dpmcmc.families import MODELS
from dpmcmc.formula import cuts
from dpmcmc.formula.design import Design
from dpmcmc.formula.grouping import Grouping
from dpmcmc.inputs.spec import JobSpec
from dpmcmc.posterior.free.effects import (
    Comparison,
    Curve,
    Effect,
    Fitted,
    Predictions,
    Spread,
    spread,
)
from dpmcmc.posterior.free.priors import CoefficientPrior, Floats, check_number
from dpmcmc.posterior.free.settings import Setting, at
from dpmcmc.posterior.summary_table import SHOWN, as_html, as_lines
from dpmcmc.posterior.units import Scale, in_units
from dpmcmc.posterior.verdicts import Verdict, joined
from dpmcmc.privacy.noise import RandomSource, SystemRandom

MOST_POINTS = 1000  # of a curve


def effects_of(grouping: Grouping, draws: Floats) -> Floats:
    """Return effects (n, k, group) of groups on the level and, as the second, on a slope.

    draws: (n, h) of what a model has by its groups.
    """
    effects = draws[:, len(grouping.law) :]
    if not grouping.outer:
        return effects.reshape(len(draws), -1, grouping.count)
    known = len(grouping.outer_categories)
    outer = np.repeat(effects[:, :known], grouping.within, axis=1)
    return np.asarray((outer + effects[:, known:])[:, None])


def _effects_of_groups(grouping: Grouping, draws: Floats, random: RandomSource) -> Floats:
    """Return effects (n, k, group) of groups and, behind them, of those not seen before.

    draws: (n, h) of what a model has by its groups. In a call a group not seen before is one group:
    of groups of groups one of each, and last one of one that was not seen before either.
    """
    laws, each = draws[:, : len(grouping.law)], effects_of(grouping, draws)
    if grouping.outer:
        known = len(grouping.outer_categories)
        new, whole = random.normals((len(laws), known + 2)), draws[:, len(grouping.law) :]
        outer = np.column_stack((whole[:, :known], laws[:, 0] * new[:, 0]))
        return np.column_stack((each[:, 0], outer + laws[:, 1:2] * new[:, 1:]))[:, None]
    normals = random.normals((len(laws), each.shape[1]))
    if len(grouping.law) > len(grouping.sds):  # a correlation
        cross = laws[:, 2]
        normals[:, 1] = cross * normals[:, 0] + np.sqrt(1.0 - cross**2) * normals[:, 1]
    new = laws[:, : len(grouping.sds)] * normals
    return np.concatenate((each, new[:, :, None]), axis=2)


class ReleaseOfJob(Protocol):
    """The part of a stored release that a free posterior uses."""

    @property
    def design(self) -> Design:
        """The public design."""

    @property
    def spec(self) -> JobSpec:
        """The job."""

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the parameters."""

    @property
    def coefficients(self) -> int:
        """Number of coefficients, which are the first parameters."""

    @property
    def alone(self) -> Verdict:
        """The verdict on the released numbers, for any prior."""

    def index(self, name: str, pointer: str) -> int:
        """Return the index of a parameter. Raises SpecError where there is none of this name."""

    def without(self, formula: str, pointer: str) -> tuple[str, ...]:
        """Return the parameters that a smaller formula's model lacks. Raises SpecError."""

    def fixed(
        self, values: Mapping[str, float], scale: Scale, pointer: str
    ) -> tuple[Floats, Floats]:
        """Return g (k, p), v (k,): parameters at these values are positions with g @ them = v."""


class Tested(Protocol):
    """Densities of a prior and of the posterior under it, for Bayes factors."""

    @property
    def others(self) -> Mapping[int, CoefficientPrior]:
        """Priors that are not plain normals, by index."""

    def bayes_factor(self, weights: Floats, values: Floats) -> tuple[float, float]:
        """Return ln of the Bayes factor against weights @ coefficients = values, and its error."""


def _check_named(values: object, pointer: str) -> None:
    """Raise SpecError unless values are a mapping with at least one parameter."""
    if not isinstance(values, Mapping) or not values:
        raise SpecError(pointer, 'name at least one parameter with its number, such as {"age": 1}')


@dataclass(frozen=True, slots=True)
class BayesFactor:
    """A Bayes factor as natural logarithm, above 0 in favour of the larger model. error: its sd."""

    log: float
    error: float


@dataclass(frozen=True, slots=True)
class ModelWeight:
    """The posterior probability of one of several compared models.

    without: parameters of the largest that are 0 in it. log_bayes_factor: natural logarithm of its
    marginal likelihood over that of the largest, 0 of that itself. error: its sd.
    """

    formula: str
    without: tuple[str, ...]
    probability: float
    log_bayes_factor: float
    error: float


@dataclass(frozen=True, slots=True, eq=False)
class FreePosterior:
    """Draws (draw, parameter) from the posterior under one prior, with analyses of them.

    draws: of the standardised design. priors: of each of its parameters, where the model is linear.
    reasons: problems in addition to the release's. scale: of summaries, contrasts and nulls.
    inclusion: probability that a coefficient is not 0, of those that have a spike-and-slab prior.
    """

    release: ReleaseOfJob
    draws: Floats
    tested: Tested
    priors: Mapping[str, CoefficientPrior]
    reasons: tuple[str, ...] = ()
    scale: Scale = "original"
    inclusion: Mapping[str, float] = field(default_factory=dict)

    @property
    def shown(self) -> Floats:
        """The draws on the requested scale."""
        return in_units(self.release.design, self.parameters, self.draws, self.scale)

    def __repr__(self) -> str:
        """Return the verdict and the summary."""
        label = f"{type(self).__name__}({self.release.spec.model.formula!r}): "
        verdict = self.verdict.text(sys.stdout.isatty(), label)
        return "\n".join([verdict, *as_lines(list(self.summary().items())[:SHOWN])])

    def _repr_html_(self) -> str:
        """Return the verdict and the summary as HTML."""
        return f"<p>{escape(self.verdict.sentence)}</p>{as_html(list(self.summary().items()))}"

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the draws' columns."""
        return self.release.parameters

    @property
    def verdict(self) -> Verdict:
        """The verdict, from the problems of the release and of this prior."""
        return joined(self.release.alone, self.reasons)

    def summary(self) -> dict[str, Spread]:
        """Return mean, sd and quantiles of each parameter."""
        shown = self.shown
        return {name: spread(shown[:, k]) for k, name in enumerate(self.parameters)}

    def contrast(self, weights: Mapping[str, float], *, pointer: str = "/contrasts") -> Spread:
        """Return mean, sd and quantiles of a weighted sum of parameters. Raises SpecError."""
        _check_named(weights, pointer)
        total, shown = np.zeros(len(self.draws)), self.shown
        for name, weight in weights.items():
            check_number(weight, at(pointer, name))
            total += weight * shown[:, self.release.index(name, pointer)]
        return spread(total)

    def bayes_factor(self, null: Mapping[str, float], *, pointer: str = "/null") -> BayesFactor:
        """Return the Bayes factor of this model over the one with coefficients fixed to null.

        The density of the prior there over that of the posterior (Dickey and Lientz 1970). Raises
        SpecError, also where a prior has no density.
        """
        _check_named(null, pointer)
        weights, values = self.release.fixed(null, self.scale, pointer)
        size = self.release.coefficients
        if not len(weights) or weights[:, size:].any():
            raise SpecError(pointer, "name at least one coefficient, and only coefficients")
        weights = weights[:, :size]
        if self.tested.others:
            self._check_tested(null, weights, values, pointer)
        return BayesFactor(*self.tested.bayes_factor(weights, values))

    def _check_tested(
        self, names: Iterable[str], weights: Floats, values: Floats, pointer: str
    ) -> None:
        """Raise SpecError where the null has no prior density in closed form."""
        bounded = 0
        for name, row, end in zip(names, weights, values.tolist(), strict=True):
            directions, member = np.flatnonzero(row), at(pointer, name)
            if len(directions) != 1:
                message = "is a sum of coefficients that have priors: test it on the design's scale"
                raise SpecError(member, message)
            prior, value = self.tested.others.get(int(directions[0])), end / row[directions[0]]
            if prior is None:
                continue
            if prior.selects:
                message = f"has no Bayes factor under {prior.kind}: give it another prior"
                raise SpecError(member, message)
            if not prior.proper:
                message = "has a prior without an end, so without a density: give lower and upper"
                raise SpecError(member, message)
            if not prior.low <= value <= prior.high:
                raise SpecError(member, "lies outside of its prior's bounds, on the design's scale")
            bounded += prior.bounded
        if bounded > 1:
            raise SpecError(pointer, "at most one coefficient whose prior has bounds at a time")

    def log_bayes_factor(self, null: Mapping[str, float], *, pointer: str = "/null") -> float:
        """Return `bayes_factor` without its error. Raises SpecError."""
        return self.bayes_factor(null, pointer=pointer).log

    def compare_models(
        self, formulas: Sequence[str], *, pointer: str = "/models"
    ) -> list[ModelWeight]:
        """Return how probable this model and smaller ones are, as `StoredRelease.compare`."""
        if isinstance(formulas, str) or not isinstance(formulas, Sequence) or not formulas:
            raise SpecError(pointer, 'must be a list of formulas, such as ["y ~ a", "y ~ 1"]')
        full_formula = self.release.spec.model.formula
        models: list[tuple[str, tuple[str, ...], BayesFactor]] = [
            (full_formula, (), BayesFactor(0.0, 0.0))
        ]
        on_design = replace(self, scale="design")
        for k, formula in enumerate(formulas):
            dropped = self.release.without(formula, f"{pointer}/{k}")
            if not dropped and formula.strip() == full_formula.strip():
                continue  # it stands first
            if any(dropped == other for _, other, _ in models):
                raise SpecError(f"{pointer}/{k}", "is the same model as one before it")
            factor = on_design.bayes_factor(dict.fromkeys(dropped, 0.0), pointer=f"{pointer}/{k}")
            models.append((formula, dropped, BayesFactor(-factor.log, factor.error)))
        logs = np.array([factor.log for _, _, factor in models])
        weights = np.exp(logs - logs.max())
        weights /= weights.sum()
        return [
            ModelWeight(formula, dropped, share, factor.log, factor.error)
            for (formula, dropped, factor), share in zip(models, weights.tolist(), strict=True)
        ]

    def predict(
        self,
        given: Sequence[Setting],
        *,
        random: RandomSource | None = None,
        pointer: str = "/given",
    ) -> Predictions:
        """Return predictions at settings of all covariates, by column.

        Numbers must be within their declared bounds, to which rows were clamped. Where rows have
        groups a setting without one is of a group not seen before. Raises SpecError.
        """
        random = random or SystemRandom()
        return self._fitted(random).predict(given, random, pointer)

    def curve(
        self,
        covariate: str,
        given: Setting | None = None,
        *,
        points: int = 41,
        pointer: str = "/curve",
    ) -> Curve:
        """Return the mean response along the declared range of a number, with its intervals.

        Parameters
        ----------
        covariate
            A number column of the formula.
        given
            Values of the other covariates, by column. Those that it leaves out are in the middle of
            their declared bounds, or at the category that others are compared with.
        points
            How many values along the range, evenly apart.

        Returns
        -------
        Curve
            Values and, at each, the spread of the mean response. Differences between curves at two
            settings are `compare`.

        Raises
        ------
        SpecError
            If the covariate is no number of the formula, or a setting is not valid.

        Examples
        --------
        >>> fit.release.posterior().curve("age", {"sex": "female"})
        """
        if type(points) is not int or not 2 <= points <= MOST_POINTS:
            raise SpecError(f"{pointer}/points", f"must be a whole number, 2 to {MOST_POINTS}")
        return self._fitted(SystemRandom()).curve(covariate, given or {}, points, pointer)

    def compare(
        self, given: Setting, against: Setting, *, pointer: str = "/comparisons"
    ) -> Comparison:
        """Return the difference between two settings of the covariates. Raises SpecError."""
        return self._fitted(SystemRandom()).compare(given, against, pointer)

    def effects(
        self,
        covariate: str,
        given: Sequence[Setting],
        *,
        value: float | str | None = None,
        against: float | str | None = None,
        pointer: str = "/effects",
    ) -> list[Effect]:
        """Return average effects of a covariate on the mean response, over settings of the others.

        The effect is that of `value` less `against`, if they are given. Otherwise, of a number it
        is the derivative at its values in the settings; of categories, each category less the
        formula's reference. Raises SpecError.
        """
        return self._fitted(SystemRandom()).effects(covariate, given, value, against, pointer)

    def _fitted(self, random: RandomSource) -> Fitted:
        """Return the draws of coefficients with the design, for predictions and effects."""
        spec, design = self.release.spec, self.release.design
        noise_scale, d = spec.model.options.noise_scale, self.release.coefficients
        sds, groups, grouping = np.full(len(self.draws), noise_scale or 1.0), None, design.grouping
        of_family = self.draws.shape[1] - len(design.beside_families)
        if noise_scale is None and of_family > d:
            sds = np.exp(self.draws[:, d])
        if grouping is not None:
            groups = _effects_of_groups(grouping, self.draws[:, of_family:], random)
        response = MODELS[spec.model.family].response(spec.model.options)
        first = cuts.count(design, self.parameters)
        return Fitted(response, design, self.draws[:, :d], sds, groups, first)
