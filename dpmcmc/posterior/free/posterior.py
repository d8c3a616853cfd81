"""A posterior under one prior, by its draws, and what may be asked of it."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Protocol

import numpy as np

from dpmcmc.base.errors import SpecError
from dpmcmc.families import MODELS
from dpmcmc.formula.design import Design
from dpmcmc.inputs.spec import JobSpec
from dpmcmc.posterior.free.effects import Comparison, Effect, Fitted, Predictions, Spread, spread
from dpmcmc.posterior.free.priors import CoefficientPrior, Floats, check_number
from dpmcmc.posterior.free.settings import Setting, at
from dpmcmc.posterior.summary_table import SHOWN, as_html, as_lines
from dpmcmc.posterior.units import Scale, in_units
from dpmcmc.posterior.verdicts import Verdict, joined
from dpmcmc.privacy.noise import RandomSource, SystemRandom


class Known(Protocol):
    """A stored release, its job, and where its parameters are among positions."""

    @property
    def design(self) -> Design:
        """The public design."""

    @property
    def spec(self) -> JobSpec:
        """The job."""

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of what is released."""

    @property
    def coefficients(self) -> int:
        """How many of the parameters are coefficients: the first ones."""

    @property
    def alone(self) -> Verdict:
        """Whether what was released may be believed, whatever the prior."""

    def place(self, name: str, pointer: str) -> int:
        """Return which parameter that is. Raises SpecError."""

    def fixed(
        self, values: Mapping[str, float], scale: Scale, pointer: str
    ) -> tuple[Floats, Floats]:
        """Return (g (k, p), v (k,)): these values of parameters are positions with g @ them = v."""


class Tested(Protocol):
    """Densities of a prior and of the posterior under it, for Bayes factors."""

    @property
    def others(self) -> Mapping[int, CoefficientPrior]:
        """Priors that are not plain normals, by place."""

    def bayes_factor(self, told: Floats, values: Floats) -> tuple[float, float]:
        """Return (ln of the Bayes factor against told @ coefficients = values, its error)."""


def _check_named(values: object, pointer: str) -> None:
    """Refuse what is not a number by parameter, or none at all. Raises SpecError."""
    if not isinstance(values, Mapping) or not values:
        raise SpecError(pointer, 'name at least one parameter with its number, such as {"age": 1}')


@dataclass(frozen=True, slots=True)
class BayesFactor:
    """Natural logarithm, above 0 where the larger model is favoured; error: sd of its sampling."""

    log: float
    error: float


@dataclass(frozen=True, slots=True, eq=False)
class FreePosterior:
    """Draws (draw, parameter) from the posterior under one prior, and what follows from them.

    draws: of the standardised design. priors: of each of its parameters; of a bent model none.
    reasons: what is wrong, beside what the release itself says. scale: of summaries, contrasts and
    nulls.
    """

    release: Known
    draws: Floats
    tested: Tested
    priors: Mapping[str, CoefficientPrior]
    reasons: tuple[str, ...] = ()
    scale: Scale = "original"

    @property
    def shown(self) -> Floats:
        """Return the draws on the scale asked for."""
        return in_units(self.release.design, self.parameters, self.draws, self.scale)

    def __repr__(self) -> str:
        """Return whether it may be believed, and the posterior."""
        named = f"{type(self).__name__}({self.release.spec.model.formula!r}): "
        told = self.verdict.told(sys.stdout.isatty(), named)
        return "\n".join([told, *as_lines(list(self.summary().items())[:SHOWN])])

    def _repr_html_(self) -> str:
        """Return whether it may be believed, and the posterior, for notebooks."""
        return f"<p>{escape(self.verdict.sentence)}</p>{as_html(list(self.summary().items()))}"

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the draws' columns."""
        return self.release.parameters

    @property
    def verdict(self) -> Verdict:
        """The release's, and this posterior's own."""
        return joined(self.release.alone, self.reasons)

    def summary(self) -> dict[str, Spread]:
        """Return how each parameter is spread."""
        shown = self.shown
        return {name: spread(shown[:, k]) for k, name in enumerate(self.parameters)}

    def contrast(self, weights: Mapping[str, float], *, pointer: str = "/contrasts") -> Spread:
        """Return how a sum of parameters, each times its weight, is spread. Raises SpecError."""
        _check_named(weights, pointer)
        total, shown = np.zeros(len(self.draws)), self.shown
        for name, weight in weights.items():
            check_number(weight, at(pointer, name))
            total += weight * shown[:, self.release.place(name, pointer)]
        return spread(total)

    def bayes_factor(self, null: Mapping[str, float], *, pointer: str = "/null") -> BayesFactor:
        """Return the Bayes factor of this model over the one with coefficients fixed to null.

        The density of the prior there over that of the posterior (Dickey and Lientz 1970). Raises
        SpecError, also where a prior has no density.
        """
        _check_named(null, pointer)
        told, values = self.release.fixed(null, self.scale, pointer)
        size = self.release.coefficients
        if not len(told) or told[:, size:].any():
            raise SpecError(pointer, "name at least one coefficient, and only coefficients")
        told = told[:, :size]
        if self.tested.others:
            self._check_tested(null, told, values, pointer)
        return BayesFactor(*self.tested.bayes_factor(told, values))

    def _check_tested(
        self, names: Iterable[str], told: Floats, values: Floats, pointer: str
    ) -> None:
        """Refuse what has no prior density, or no closed form. Raises SpecError."""
        bounded = 0
        for name, row, end in zip(names, told, values.tolist(), strict=True):
            directions, place = np.flatnonzero(row), at(pointer, name)
            if len(directions) != 1:
                message = "is a sum of coefficients that have priors: test it on the design's scale"
                raise SpecError(place, message)
            one, value = self.tested.others.get(int(directions[0])), end / row[directions[0]]
            if one is None:
                continue
            if not one.proper:
                message = "has a prior without an end, so without a density: give lower and upper"
                raise SpecError(place, message)
            if not one.low <= value <= one.high:
                raise SpecError(place, "lies outside of its prior's bounds, on the design's scale")
            bounded += one.bounded
        if bounded > 1:
            raise SpecError(pointer, "at most one coefficient whose prior has bounds at a time")

    def log_bayes_factor(self, null: Mapping[str, float], *, pointer: str = "/null") -> float:
        """Return `bayes_factor` without its error. Raises SpecError."""
        return self.bayes_factor(null, pointer=pointer).log

    def predict(
        self,
        given: Sequence[Setting],
        *,
        random: RandomSource | None = None,
        pointer: str = "/given",
    ) -> Predictions:
        """Return what is expected where covariates, all of them by column, are these.

        Numbers lie within their declared bounds: beyond them nothing was fitted. Raises SpecError.
        """
        return self._fitted().predict(given, random or SystemRandom(), pointer)

    def compare(
        self, given: Setting, against: Setting, *, pointer: str = "/comparisons"
    ) -> Comparison:
        """Return what is expected at one setting less what is at another. Raises SpecError."""
        return self._fitted().compare(given, against, pointer)

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

        value less against, where they are named. Otherwise of a number the derivative at its values
        in the settings; of categories each one less the first that is declared. Raises SpecError.
        """
        return self._fitted().effects(covariate, given, value, against, pointer)

    def _fitted(self) -> Fitted:
        spec, design = self.release.spec, self.release.design
        known, d = spec.model.options.noise_scale, self.release.coefficients
        sds = np.full(len(self.draws), known or 1.0)
        if known is None and self.draws.shape[1] > d:
            sds = np.exp(self.draws[:, d])
        response = MODELS[spec.model.family].response(spec.model.options)
        return Fitted(response, design, self.draws[:, :d], sds)
