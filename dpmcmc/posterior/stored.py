"""Stored releases: posteriors under other priors, predictions, contrasts and tests.

All of it is a function of released numbers and of public facts. Nothing here reads a row, and
nothing costs anything.
"""

import sys
from collections.abc import Container, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from dpmcmc.base.errors import SpecError, near
from dpmcmc.families import MODELS
from dpmcmc.families.scores.base import Family
from dpmcmc.formula.design import Design, make_design
from dpmcmc.formula.variables import column_of
from dpmcmc.inputs.schema import NumberColumn, Schema
from dpmcmc.inputs.spec import JobSpec, NormalPrior
from dpmcmc.posterior.breadth import notes
from dpmcmc.posterior.free.closed import Closed
from dpmcmc.posterior.free.posterior import FreePosterior
from dpmcmc.posterior.free.priors import CoefficientPrior, Floats, check_number, checked
from dpmcmc.posterior.free.settings import at
from dpmcmc.posterior.free.walk import walked
from dpmcmc.posterior.units import Scale, matrix
from dpmcmc.posterior.verdicts import MAX_RHAT, Verdict, joined, of_release
from dpmcmc.privacy.noise import RandomSource, SystemRandom
from dpmcmc.releases import few_events, prior_conflict
from dpmcmc.releases.base import Posterior, Stored, prior_of
from dpmcmc.releases.dp_vi import Variational
from dpmcmc.releases.quadratic import Quadratic
from dpmcmc.releases.quadratic_verdict import MAX_LAST_STEP, MAX_PREDICTOR_SD, lost, predictor_sd
from dpmcmc.releases.reuse import POINTER, in_order
from dpmcmc.releases.whitening import Whitening
from dpmcmc.samplers.starting import release_of

NUM_DRAWS, MOST_DRAWS = 4000, 1_000_000
Asked = NormalPrior | CoefficientPrior


class StoredRelease:
    """A release of a job, and all that can be had of it for free.

    parameters: the names that priors, contrasts and nulls go by. classes: linear predictors of
    a row.
    """

    def __init__(self, schema: Schema, spec: JobSpec, told: Stored) -> None:
        """spec: resolved. told: what its release left behind."""
        self._release, self._told = release_of(spec), told
        self._spec = replace(spec, model=self._release.model(spec.model))
        self._own, self._design = spec, make_design(schema, spec.model.formula)
        model = MODELS[spec.model.family]
        form = model.form(self._design, self._spec)
        self._prior, self.classes = prior_of(form, len(form.start)), form.classes
        self.parameters = model.parameters(self._design, spec.model)

    @classmethod
    def read(cls, schema: Schema, spec: JobSpec, content: dict[str, Any]) -> "StoredRelease":
        """Return what to_dict made this of. Raises ValueError where the release stores nothing."""
        read = release_of(spec).read
        if read is None:
            raise ValueError("this release stores nothing")
        return cls(schema, spec, read(content))

    def to_dict(self) -> dict[str, Any]:
        """Return lists and numbers that JSON holds."""
        return self._told.to_dict()

    @property
    def verdict(self) -> Verdict:
        """Whether it may be believed, with the job's prior."""
        return joined(self.alone, (*self._conflict(*self._prior), *self._few(*self._prior)))

    @property
    def alone(self) -> Verdict:
        """Whether what was released may be believed, and other priors with it."""
        judge, moments = self._release.judge, self._told.moments()
        found = notes(self._design, *moments) if moments is not None else ()
        return of_release(None if judge is None else judge(self._told, self._held), found)

    def __repr__(self) -> str:
        """Return what it is of, and whether it may be believed."""
        named = f"{type(self).__name__}({self._own.model.formula!r}): "
        return self.verdict.told(sys.stdout.isatty(), named)

    def whitening(self, design: Design) -> Whitening:
        """Return the coordinates that it paid for, or used again, for the columns of a design.

        Raises SpecError where they are of other columns, or there are none.
        """
        if not isinstance(self._told, Quadratic):
            raise SpecError(POINTER, "this release has no whitening; noisy_quadratic has")
        return in_order(self._told.paid, self._design, design)

    def posterior(
        self,
        prior: Mapping[str, Asked] | None = None,
        num_draws: int = NUM_DRAWS,
        *,
        scale: Scale = "original",
        random: RandomSource | None = None,
    ) -> FreePosterior:
        """Return the posterior under another prior. It costs nothing, however often it is asked.

        prior: by parameter, of the standardised design as in a job, whatever the scale; one that
        is not named keeps the job's. Normal ones have a closed form; others, of coefficients alone,
        are sampled: see posterior/free/walk.py. scale: of what is told, see posterior/units.py.
        random: for tests only. Raises SpecError.
        """
        if type(num_draws) is not int or not 1 <= num_draws <= MOST_DRAWS:
            raise SpecError("/num_draws", f"must be a whole number between 1 and {MOST_DRAWS}")
        random = random or SystemRandom()
        (mean, precision), others = self._joined(prior or {})
        found = self._told.posterior(mean, precision, random)
        conflict = self._conflict(mean, precision, prior or ())
        if others:
            made = self._sampled(found, (mean, precision), others, num_draws, random)
            return replace(made, scale=scale, reasons=(*made.reasons, *conflict))
        conflict = (*conflict, *self._few(mean, precision))
        draws = self._released(found.draws(1, num_draws, random)[0])
        tested, own = Closed(found, (mean, precision)), self._in_units((mean, precision), {})
        reasons = (*self._judged(draws, precision if prior else None), *conflict)
        return FreePosterior(self, draws, tested, own, reasons, scale)

    def _joined(
        self, prior: Mapping[str, Asked]
    ) -> tuple[tuple[Floats, Floats], dict[int, CoefficientPrior]]:
        """Return normals (mean, precision) by position, and what is not normal by its place."""
        if not isinstance(prior, Mapping):
            told = 'must be priors by parameter, such as {"age": CoefficientPrior(...)}'
            raise SpecError("/prior", told)
        mean, precision = (part.copy() for part in self._prior)
        others: dict[int, CoefficientPrior] = {}
        if prior:
            unit, shift = self._units("/prior")
        for name, one in prior.items():
            pointer = at("/prior", name)
            k, asked = self.place(name, "/prior"), checked(one, pointer)
            own = asked.within(float(unit[k]), float(shift[k]))
            if own.plain and own.scale is not None:
                mean[k], precision[k] = own.loc, own.scale**-2.0
            elif k >= self.coefficients:
                raise SpecError(f"{pointer}/kind", "must be normal, without bounds, of this one")
            else:
                mean[k], precision[k], others[k] = 0.0, 0.0, own
        return (mean, precision), others

    def _sampled(
        self,
        found: Posterior,
        normals: tuple[Floats, Floats],
        others: Mapping[int, CoefficientPrior],
        num_draws: int,
        random: RandomSource,
    ) -> FreePosterior:
        """Return draws under priors some of which are not normal."""
        means, roots = found.parts()
        walk = walked(means, roots @ roots.swapaxes(1, 2), others, normals, num_draws, random)
        positions = found.completed(*walk.coefficients(num_draws, random), random)
        draws = self._released(positions)
        precision = normals[1].copy()
        for k, one in others.items():
            precision[k] = 0.0 if one.scale is None else one.scale**-2.0
        reasons = self._judged(draws, precision)
        if not walk.r_hat <= MAX_RHAT:
            told = f"chains that began at this prior have not forgotten it (R-hat {walk.r_hat:.3f})"
            reasons = (*reasons, f"{told}: a wider one, or fewer at once, would be sampled")
        if self._link is not None and isinstance(self._told, Quadratic | Variational):
            spread = np.atleast_2d(np.cov(positions, rowvar=False))
            sampled = few_events.Posterior(positions.mean(axis=0), spread)
            few = few_events.problems(self._told, self._design, self._link, sampled)
            reasons = (*reasons, *few)
        return FreePosterior(self, draws, walk, self._in_units(normals, others), reasons)

    def _in_units(
        self, normals: tuple[Floats, Floats], others: Mapping[int, CoefficientPrior]
    ) -> dict[str, CoefficientPrior]:
        """Return the priors that apply, of the parameters of the design."""
        if self._bent:
            return {}
        unit, shift = self._units("/prior")
        found = {}
        for k, name in enumerate(self.parameters):
            mean, precision = float(normals[0][k]), float(normals[1][k])
            scale = max(precision, 1e-300) ** -0.5
            own = others.get(k, CoefficientPrior(kind="normal", loc=mean, scale=scale))
            found[name] = own.within(1.0 / float(unit[k]), -float(shift[k] / unit[k]))
        return found

    def _judged(self, draws: Floats, precision: Floats | None) -> tuple[str, ...]:
        """Return the problems of draws under another prior, beside those of the release.

        precision: (d,) of that prior, about 1 / scale^2; None if it is the job's. Where the
        likelihood is not quadratic what was released of it is so only nearby.
        """
        family = self._family
        if precision is None or not isinstance(self._told, Quadratic) or family is None:
            return ()
        p, reasons = len(self._told.place), []
        if family.quadratic or p > draws.shape[1]:
            return ()
        own, told = self._prior[1], self._told
        if lost(told, precision) and not lost(told, own):
            reasons.append("the rows do not tell some direction, which the job's prior held")
        if predictor_sd(told, precision) > MAX_PREDICTOR_SD >= predictor_sd(told, own):
            reasons.append("under this prior the posterior is too wide to be normal")
        away = float(np.linalg.norm(self._away(draws[:, :p].mean(axis=0))))
        if away > MAX_LAST_STEP:
            reasons.append(
                f"this prior takes the posterior {away:.2g} sds of what a row tells from where the"
                f" rows were looked at; what was released of them holds within {MAX_LAST_STEP:g}"
            )
        return tuple(reasons)

    def _conflict(
        self, mean: Floats, precision: Floats, asked: Container[str] = ()
    ) -> tuple[str, ...]:
        """Return what is wrong with normal priors (d,) that are far from what the rows say.

        asked: parameters whose prior was asked for by name, with the rows' answer at hand.
        """
        told = self._told
        if not isinstance(told, Quadratic):
            return ()
        pulls, wide = prior_conflict.pulls(told, mean, precision)
        pulls *= [name not in asked for name in self.parameters[: len(pulls)]]
        worst = [int(k) for k in np.argsort(-pulls) if pulls[k] > 0.0]
        if not worst or self._bent:
            return ()
        names, scales = [self.parameters[k] for k in worst], self._units("/prior")[0][worst]
        return (prior_conflict.sentence(names, scales * wide[worst], float(pulls.max())),)

    def _few(self, mean: Floats, precision: Floats) -> tuple[str, ...]:
        """Return what is wrong where groups of rows have hardly any events, by normal priors (d,).

        What was released of such a group's likelihood is a quadratic that it does not have.
        """
        told, link = self._told, self._link
        if link is None or not isinstance(told, Quadratic | Variational):
            return ()
        posterior = few_events.normal(told, mean, precision)
        return few_events.problems(told, self._design, link, posterior)

    @property
    def _link(self) -> few_events.Link | None:
        """How expected responses follow from predictors; None where they are predictors."""
        family = self._family
        if family is None or family.link == "identity":
            return None
        usual = 1.0
        if self._own.model.weights is not None:
            column = column_of(self._design.schema, self._own.model.weights)
            if isinstance(column, NumberColumn):
                usual = 0.5 * column.lower + 0.5 * column.upper
        shift = self._design.middle_offset
        return few_events.Link(family.link == "log", family.variance.size, shift, usual)

    @property
    def _family(self) -> Family | None:
        """The family of the model; None where noisy_quadratic does not release it."""
        model = self._own.model
        return MODELS[model.family].rows(model.options)

    @property
    def _held(self) -> tuple[Floats, Floats] | None:
        """The prior that the verdict counts; None where the likelihood is quadratic."""
        family = self._family
        return None if family is None or family.quadratic else self._prior

    def _away(self, coefficients: Floats) -> Floats:
        """Return how far coefficients (p,) are from the place of the release, by its root."""
        told: Any = self._told
        unit, shift = self._units("/prior")
        p = len(coefficients)
        positions = (coefficients - shift[:p]) / unit[:p]
        return np.asarray(np.linalg.solve(told.root, positions - told.place))

    def place(self, name: str, pointer: str) -> int:
        """Return which parameter that is. Raises SpecError."""
        if name not in self.parameters:
            known = f"{', '.join(self.parameters[:12])}{near(name, self.parameters)}"
            raise SpecError(at(pointer, name), f"is no parameter of this job; it has {known}")
        return self.parameters.index(name)

    @property
    def design(self) -> Design:
        """The public design."""
        return self._design

    @property
    def spec(self) -> JobSpec:
        """The job."""
        return self._own

    @property
    def coefficients(self) -> int:
        """How many of the parameters are coefficients: the first ones."""
        return self.classes * len(self._design.parameters)

    def fixed(
        self, values: Mapping[str, float], scale: Scale, pointer: str
    ) -> tuple[Floats, Floats]:
        """Return (g (k, p), v (k,)): these values of parameters are positions with g @ them = v.

        Raises SpecError.
        """
        unit, shift = self._units(pointer)
        places = [self.place(name, pointer) for name in values]
        for name, value in values.items():
            check_number(value, at(pointer, name))
        shown = np.eye(len(unit)) if scale == "design" else matrix(self._design, self.parameters)
        told, rows = np.array(list(values.values()), np.float64), shown[places]
        return rows * unit, told - rows @ shift

    def _units(self, pointer: str) -> tuple[Floats, Floats]:
        """Return (unit (d,), shift (d,)): parameters are shift + unit * positions."""
        low, middle, _ = self._ends()
        if self._bent:
            message = "this model is bent: it has a posterior under its own prior alone"
            raise SpecError(pointer, message)
        return middle - low, low

    def _ends(self) -> Floats:
        """Return parameters (3, d) of positions 0, 1 and 2."""
        return self._released(np.arange(3.0)[:, None] * np.ones(len(self._prior[0])))

    @property
    def _bent(self) -> bool:
        """Whether parameters are not linear in positions."""
        low, middle, high = self._ends()
        return not np.allclose(high - middle, middle - low)

    def _released(self, positions: Floats) -> Floats:
        """Return the parameters at positions (..., d)."""
        model = MODELS[self._own.model.family]
        return np.asarray(model.release(self._design, self._spec, positions))
