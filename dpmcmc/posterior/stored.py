"""Stored releases: posteriors under other priors, predictions, contrasts and tests.

All of it is post-processing of released numbers and public facts: no row is read, at no cost.
"""

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from dpmcmc.base.errors import SpecError, near
from dpmcmc.base.names import INTERCEPT
from dpmcmc.families import MODELS
from dpmcmc.families.priors import column_unit
from dpmcmc.families.scores.base import Family, is_additive, is_apart, is_measured, is_skewed
from dpmcmc.families.scores.given import log_middle
from dpmcmc.formula import cuts
from dpmcmc.formula.design import Design, make_design
from dpmcmc.formula.variables import column_of
from dpmcmc.inputs.options import AlgorithmOptions
from dpmcmc.inputs.schema import NumberColumn, Schema
from dpmcmc.inputs.spec import JobSpec, NormalPrior
from dpmcmc.posterior.breadth import notes
from dpmcmc.posterior.free.closed import Closed
from dpmcmc.posterior.free.posterior import FreePosterior, ModelWeight
from dpmcmc.posterior.free.priors import (
    OF_R2D2,
    SELECTING,
    CoefficientPrior,
    Floats,
    check_number,
    checked,
    half,
    least_concentration,
    of_text,
)
from dpmcmc.posterior.free.settings import at
from dpmcmc.posterior.free.walk import walked
from dpmcmc.posterior.remedies import epsilon_at, remarks, remedy
from dpmcmc.posterior.units import Scale, matrix
from dpmcmc.posterior.verdicts import MAX_RHAT, Verdict, dependence_reasons, joined, of_release
from dpmcmc.privacy.noise import RandomSource, SystemRandom
from dpmcmc.releases import few_events, prior_conflict
from dpmcmc.releases.base import Posterior, Stored, prior_of
from dpmcmc.releases.dp_vi import Variational
from dpmcmc.releases.grouped_posterior import Arrow
from dpmcmc.releases.newton_path import UNSEEN
from dpmcmc.releases.quadratic import Quadratic
from dpmcmc.releases.quadratic_verdict import MAX_LAST_STEP, MAX_PREDICTOR_SD, lost, predictor_sd
from dpmcmc.releases.reuse import POINTER, in_order
from dpmcmc.releases.sufficient_statistics import Sums
from dpmcmc.releases.whitening import Whitening
from dpmcmc.samplers.starting import release_of

NUM_DRAWS, MOST_DRAWS = 4000, 1_000_000
LEAST_VARIANCE = 1e-3  # of a column, of its mean square
Unwritten = NormalPrior | CoefficientPrior
RequestedPrior = Unwritten | str


class StoredRelease:
    """The stored release of a job: posteriors and predictions from it cost nothing more.

    parameters: names for priors, contrasts and nulls. classes: number of linear predictors of a
    row.
    """

    def __init__(self, schema: Schema, spec: JobSpec, stored: Stored) -> None:
        """spec: resolved by the planner. stored: the numbers of its release."""
        self._release, self._stored = release_of(spec), stored
        self._spec = replace(spec, model=self._release.model(spec.model))
        self._own, self._design = spec, make_design(schema, spec.model.formula)
        model = MODELS[spec.model.family]
        form = model.form(self._design, self._spec)
        self._prior, self.classes = prior_of(form, len(form.start)), form.classes
        self.parameters = model.parameters(self._design, spec.model)

    @classmethod
    def read(cls, schema: Schema, spec: JobSpec, content: dict[str, Any]) -> "StoredRelease":
        """Return a release from its dictionary. Raises ValueError where it stores no numbers."""
        read = release_of(spec).read
        if read is None:
            raise ValueError("this release stores nothing")
        return cls(schema, spec, read(content))

    def to_dict(self) -> dict[str, Any]:
        """Return the release as a dictionary of JSON values."""
        return self._stored.to_dict()

    @property
    def verdict(self) -> Verdict:
        """The verdict on the posterior under the job's prior.

        Of a run that ended where its noise hid the rows it is that alone: all else follows from it.
        """
        if self._hidden:
            return self.alone
        return joined(self.alone, (*self._conflict(*self._prior), *self._few(*self._prior)))

    @property
    def alone(self) -> Verdict:
        """The verdict on the released numbers, for any prior."""
        judge, moments = self._release.judge, self._stored.moments()
        column_notes = notes(self._design, *moments) if moments is not None else ()
        dependence = dependence_reasons(self._design.schema, self._release.name)
        if judge is None:
            return joined(of_release(None, column_notes), dependence)
        judged = judge(self._stored, self._verdict_prior)
        known = judged, self._stored, self._own, self._design
        spent = self._spent
        words = (remedy(judged, spent), *(() if self._hidden else remarks(*known)))
        epsilon = epsilon_at(spent, judged.more) if judged.fault else None
        return joined(of_release(judged, column_notes, words, epsilon), dependence)

    @property
    def _hidden(self) -> bool:
        """Return whether the run ended before its last Newton steps, as noise hid the rows."""
        return getattr(self._stored, "stopped", "") == UNSEEN

    @property
    def _spent(self) -> JobSpec:
        """Return the job with the noise multiplier of the rounds that were drawn."""
        if not isinstance(self._stored, Quadratic) or not self._stored.rounds:
            return self._own
        drawn = self._stored.noise_multiplier
        return replace(self._own, privacy=replace(self._own.privacy, noise_multiplier=drawn))

    def after_round(self) -> tuple[bool, Stored]:
        """Return whether a job stops after this round, and the statistics that remain stored.

        A function of released numbers and of public facts: it ends where its verdict is reliable,
        and where no reliable answer will come.
        """
        stored: Any = self._stored
        if self.verdict.status == "reliable":
            return True, stored
        no_hope, z = self._release.no_hope, self._own.privacy.noise_multiplier
        why = no_hope(stored, z, self._verdict_prior) if no_hope is not None and z else ""
        options: Any = self._own.sampler
        if not why or stored.rounds == options.rounds:
            return False, stored
        return True, replace(stored, stopped=f"{why}, and more rounds would not mend that")

    @property
    def moments(self) -> Floats | None:
        """The mean of x x^T of the standardised design, as released; None where it was not."""
        moments = self._stored.moments()
        return None if moments is None else moments[0]

    def own_posterior(self, random: RandomSource) -> Posterior:
        """Return the posterior under the job's prior."""
        return self._stored.posterior(*self._prior, random)

    def __repr__(self) -> str:
        """Return the formula and the verdict."""
        label = f"{type(self).__name__}({self._own.model.formula!r}): "
        return self.verdict.text(sys.stdout.isatty(), label)

    def whitening(self, design: Design) -> Whitening:
        """Return the whitening of this release, in the order of a design's columns.

        Raises SpecError where it is of other columns, or the release has none.
        """
        if not isinstance(self._stored, Quadratic):
            raise SpecError(POINTER, "this release has no whitening; noisy_quadratic has")
        return in_order(self._stored.paid, self._design, design)

    def posterior(
        self,
        prior: Mapping[str, RequestedPrior] | RequestedPrior | None = None,
        num_draws: int = NUM_DRAWS,
        *,
        scale: Scale = "original",
        random: RandomSource | None = None,
    ) -> FreePosterior:
        """Return the posterior under another prior, at no cost.

        Parameters
        ----------
        prior
            Priors by parameter, of the standardised coefficients as in a job, for any scale; those
            that are written, such as "normal(0, 0.02)", are in the units of the columns. Other
            parameters keep the job's prior. One prior alone, such as horseshoe(), is of every
            standardised coefficient but intercepts. With normal priors the posterior has a closed
            form; with others, which only coefficients can have, it is sampled.
        num_draws
            Number of draws.
        scale
            original: summaries in the units of the columns; design: standardised.
        random
            For tests only.

        Returns
        -------
        FreePosterior
            Draws, with predictions, contrasts, effects and Bayes factors.

        Raises
        ------
        SpecError
            If a parameter or a prior is not valid; the message names it and the remedy.

        Examples
        --------
        >>> fit.release.posterior({"dose": CoefficientPrior(kind="laplace", scale=0.5)})
        """
        if type(num_draws) is not int or not 1 <= num_draws <= MOST_DRAWS:
            raise SpecError("/num_draws", f"must be a whole number between 1 and {MOST_DRAWS}")
        random = random or SystemRandom()
        grouped, prior = self._of_sds(self._by_name(prior or {}))
        (mean, precision), others = self._joined(prior)
        job_posterior = grouped.posterior(mean, precision, random)
        conflict = self._conflict(mean, precision, prior or ())
        if others:
            posterior = self._sampled(job_posterior, (mean, precision), others, num_draws, random)
            return replace(posterior, scale=scale, reasons=(*posterior.reasons, *conflict))
        conflict = (*conflict, *self._few(mean, precision))
        draws = self._released(job_posterior.draws(1, num_draws, random)[0])
        tested, priors = (
            Closed(job_posterior, (mean, precision)),
            self._in_units((mean, precision), {}),
        )
        reasons = (*self._judged(draws, precision if prior else None), *conflict)
        return FreePosterior(self, draws, tested, priors, reasons, scale)

    def compare(
        self,
        formulas: Sequence[str],
        prior: Mapping[str, RequestedPrior] | None = None,
        *,
        random: RandomSource | None = None,
    ) -> list[ModelWeight]:
        """Return posterior probabilities of smaller models of the same rows, at no cost.

        Each is the job's model without some of its terms: its coefficients of them are 0. Its
        marginal likelihood over the job's is the density of the posterior there over that of the
        prior (Savage-Dickey), the noise of the release included.

        Parameters
        ----------
        formulas
            One or more, of the job's response, each with some of the terms of the job's formula.
            The job's own is always compared, and first.
        prior
            Priors that are not the job's, by parameter, as of `posterior`: normal, or with a
            density at 0.
        random
            For tests only.

        Returns
        -------
        list of ModelWeight
            The job's model and the others in their order. Before the release all are as probable.

        Raises
        ------
        SpecError
            If a formula has what the job's has not; the message names it.

        Examples
        --------
        >>> fit.release.compare(["cured ~ dose", "cured ~ 1"])
        """
        return self.posterior(prior, random=random).compare_models(formulas)

    def without(self, formula: str, pointer: str) -> tuple[str, ...]:
        """Return the parameters of the job's model that a smaller formula's model lacks.

        Raises SpecError where it has others, or another response.
        """
        if not isinstance(formula, str):
            raise SpecError(pointer, 'must be a formula, such as "y ~ a"')
        try:
            smaller = make_design(self._design.schema, formula)
        except SpecError as error:
            raise SpecError(pointer, error.message) from None
        model, full = replace(self._own.model, formula=formula), self._design
        names = MODELS[model.family].parameters(smaller, model)
        if (smaller.response, smaller.offsets) != (full.response, full.offsets):
            raise SpecError(pointer, "must have the response and the offsets of the job's formula")
        others = [name for name in names if name not in self.parameters]
        if others or smaller.grouping != full.grouping:
            absent = ", ".join(others) or "other groups"
            raise SpecError(pointer, f"has what the job's formula has not: {absent}")
        dropped = tuple(name for name in self.parameters if name not in names)
        curves = [name for name in dropped if name in self._held_by()]
        if curves:
            message = (
                f"leaves out a curve, whose sd says how large it is: {self._held_by()[curves[0]]}"
            )
            raise SpecError(pointer, message)
        if any(name.split(":")[-1] == INTERCEPT for name in dropped):
            raise SpecError(pointer, "has no intercept: columns are then not centred as the job's")
        return dropped

    def _by_name(
        self, prior: Mapping[str, RequestedPrior] | RequestedPrior
    ) -> Mapping[str, Unwritten]:
        """Return priors by parameter; a single prior applies to all but intercepts."""
        if isinstance(prior, Mapping):
            return {name: self._unwritten(entry, name) for name, entry in prior.items()}
        if isinstance(prior, str):
            prior = of_text(prior, "/prior")
        if not isinstance(prior, CoefficientPrior) or not prior.selects:
            message = 'must be priors by parameter, such as {"age": CoefficientPrior(...)}'
            raise SpecError("/prior", f"{message}, or alone {' or '.join(SELECTING)}")
        d, first = len(self._design.parameters), cuts.count(self._design, self.parameters)
        slopes = [
            k
            for k in range(first, self.coefficients)
            if first or self._design.parameters[k % d] != INTERCEPT
        ]
        slopes = [k for k in slopes if self.parameters[k] not in self._held_by()]
        if not slopes:
            raise SpecError("/prior", "is of all coefficients but intercepts: there are none")
        return {self.parameters[k]: prior for k in slopes}

    def _unwritten(self, prior: RequestedPrior, name: str) -> Unwritten:
        """Return a parsed prior, converted from columns' units where it is in these.

        Raises SpecError.
        """
        if not isinstance(prior, str):
            return prior
        self.index(name, "/prior")
        parsed = of_text(prior, at("/prior", name))
        if parsed.selects:
            return parsed
        return parsed.within(
            column_unit(self._design, self.parameters, name, at("/prior", name)), 0.0
        )

    def _of_sds(self, prior: Mapping[str, Unwritten]) -> tuple[Stored, Mapping[str, Unwritten]]:
        """Return the release with the requested priors of sds, and the remaining priors.

        Raises SpecError.
        """
        names, stored = self._design.sds, self._stored
        if not names or not isinstance(prior, Mapping):
            return stored, prior
        for name, sd in self._held_by().items():
            if name in prior:
                message = f"has the prior that {sd} is the sd of: give that a prior"
                raise SpecError(at("/prior", name), message)
        unit = MODELS[self._own.model.family].unit(self._design, self._own.model)
        for k, name in enumerate(names):
            if name not in prior:
                continue
            scale, df = half(prior[name], at("/prior", name))
            if isinstance(stored, Arrow):
                stored = stored.with_prior_of(k, scale / unit, df)
            elif isinstance(stored, Quadratic) and stored.smooth_priors is not None:
                priors = stored.smooth_priors.copy()
                priors[:, k] = scale / unit, df
                stored = replace(stored, smooth_priors=priors)
        return stored, {other: prior[other] for other in prior if other not in names}

    def _held_by(self) -> dict[str, str]:
        """Return, for each parameter with a common sd, the name of that sd."""
        design = self._design
        held = {design.parameters[k]: s.sd for s in design.smooths for k in s.penalised}
        grouping = design.grouping
        if grouping is None:
            return held
        return {
            **dict.fromkeys(grouping.effects_of_outer, grouping.sds[0]),
            **dict.fromkeys(grouping.levels_of_effects, grouping.sd),
            **dict.fromkeys(grouping.slopes, grouping.sds[-1]),
            **dict.fromkeys(grouping.law[len(grouping.sds) :], grouping.sd),
        }

    def _joined(
        self, prior: Mapping[str, Unwritten]
    ) -> tuple[tuple[Floats, Floats], dict[int, CoefficientPrior]]:
        """Return normal priors as (mean, precision), each (d,), and the other priors by index."""
        if not isinstance(prior, Mapping):
            message = 'must be priors by parameter, such as {"age": CoefficientPrior(...)}'
            raise SpecError("/prior", message)
        mean, precision = (part.copy() for part in self._prior)
        others: dict[int, CoefficientPrior] = {}
        if prior:
            unit, shift = self._units("/prior")
        for name, entry in prior.items():
            pointer = at("/prior", name)
            k, checked_prior = self.index(name, "/prior"), checked(entry, pointer)
            if checked_prior.kind == "r2d2" and k < self.coefficients:
                checked_prior = checked_prior.filled(float(unit[k]) * self._effect(k, pointer))
            elif checked_prior.selects and k < self.coefficients:
                sd = float(unit[k]) * float(self._prior[1][k]) ** -0.5
                checked_prior = checked_prior.filled(sd)
            scaled_prior = checked_prior.within(float(unit[k]), float(shift[k]))
            if scaled_prior.plain and scaled_prior.scale is not None:
                mean[k], precision[k] = scaled_prior.loc, scaled_prior.scale**-2.0
            elif k >= self.coefficients:
                message = f"must be normal, without bounds, for {name!r}"
                raise SpecError(f"{pointer}/kind", message)
            else:
                mean[k], precision[k], others[k] = 0.0, 0.0, scaled_prior
        self._check_shared([prior for prior in others.values() if prior.kind == "r2d2"])
        return (mean, precision), others

    def _check_shared(self, priors: Sequence[CoefficientPrior]) -> None:
        """Refuse R2-D2 priors that differ, or with an impossible concentration."""
        numbers = {tuple(getattr(prior, field) for field in OF_R2D2) for prior in priors}
        if len(numbers) > 1:
            raise SpecError(
                "/prior", "r2d2 is one prior of several coefficients: give all the same"
            )
        if priors and priors[0].cons_d2 is not None:
            least = least_concentration(priors)
            if priors[0].cons_d2 < least:
                message = f"must have a cons_d2 of at least {least:.3g}: mean_r2 times prec_r2 over"
                raise SpecError("/prior", f"{message} the number of coefficients")

    def _effect(self, k: int, pointer: str) -> float:
        """Return the residual sd over that of a coefficient's column, in positions.

        The residual sd of log odds is that of a logistic distribution, and that of logs of means is
        1. Raises SpecError where the release has no moments of columns.
        """
        stored, family = self._stored, self._family
        if not isinstance(stored, Quadratic) or family is None:
            message = "r2d2 needs the spread of columns, which noisy_quadratic without groups has"
            raise SpecError(pointer, message)
        second, d = stored.moments()[0], len(self._design.parameters)
        j = max(k - max(cuts.count(self._design, self.parameters) - 1, 0), 0) % d
        centred = self._design.parameters[0] == INTERCEPT and j > 0
        variance = float(second[j, j] - second[0, j] ** 2 if centred else second[j, j])
        variance = max(variance, LEAST_VARIANCE * float(second[j, j]), 1e-12)
        if stored.log_scale:
            sd = math.exp(float(stored.place[-1]))
        elif family.link == "identity":
            sd = stored.residual_sd
        else:
            of_logs = family.link == "log" or (stored.hurdle and k < d)
            sd = 1.0 if of_logs else math.pi / math.sqrt(3.0)
        return sd / math.sqrt(variance)

    def _sampled(
        self,
        job_posterior: Posterior,
        normals: tuple[Floats, Floats],
        others: Mapping[int, CoefficientPrior],
        num_draws: int,
        random: RandomSource,
    ) -> FreePosterior:
        """Return draws under priors of which some are not normal."""
        means, roots = job_posterior.parts()
        walk = walked(means, roots @ roots.swapaxes(1, 2), others, normals, num_draws, random)
        positions = job_posterior.completed(*walk.coefficients(num_draws, random), random)
        draws = self._released(positions)
        precision = normals[1].copy()
        for k, prior in others.items():
            scale = prior.slab_sd or prior.scale
            precision[k] = 0.0 if scale is None else scale**-2.0
        reasons = self._judged(draws, precision)
        if not walk.r_hat <= MAX_RHAT:
            problem = f"chains from the prior and from the estimate differ (R-hat {walk.r_hat:.3f})"
            reasons = (*reasons, f"{problem}: give a wider prior, or fewer that are not normal")
        if self._link is not None and isinstance(self._stored, Quadratic | Variational):
            known = positions[:, : positions.shape[1] - len(self._design.sds)]
            spread = np.atleast_2d(np.cov(known, rowvar=False))
            sampled = few_events.Posterior(known.mean(axis=0), spread)
            problems = few_events.problems(self._stored, self._design, self._link, sampled)
            reasons = (*reasons, *problems)
        inclusion = {self.parameters[k]: share for k, share in walk.inclusion.items()}
        priors = self._in_units(normals, others)
        return FreePosterior(self, draws, walk, priors, reasons, inclusion=inclusion)

    def _in_units(
        self, normals: tuple[Floats, Floats], others: Mapping[int, CoefficientPrior]
    ) -> dict[str, CoefficientPrior]:
        """Return the prior of every parameter of the design; empty where it is nonlinear."""
        if self._nonlinear:
            return {}
        unit, shift = self._units("/prior")
        priors = {}
        for k, name in enumerate(self.parameters[: len(normals[0])]):
            if name in self._held_by():
                continue
            mean, precision = float(normals[0][k]), float(normals[1][k])
            scale = max(precision, 1e-300) ** -0.5
            prior = others.get(k, CoefficientPrior(kind="normal", loc=mean, scale=scale))
            priors[name] = prior.within(1.0 / float(unit[k]), -float(shift[k] / unit[k]))
        return priors

    def _judged(self, draws: Floats, precision: Floats | None) -> tuple[str, ...]:
        """Return the problems of draws under another prior, in addition to those of the release.

        precision: (d,) of that prior, about 1 / scale^2; None if it is the job's. A likelihood that
        is not quadratic was approximated around the release's position only.
        """
        family = self._family
        if precision is None or not isinstance(self._stored, Quadratic) or family is None:
            return ()
        p, reasons = len(self._stored.place), []
        if family.quadratic or p > draws.shape[1]:
            return ()
        job_precision, stored = self._prior[1], self._stored
        if lost(stored, precision) and not lost(stored, job_precision):
            reasons.append("some direction is known from the job's prior alone, not from the rows")
        if (
            predictor_sd(stored, precision)
            > MAX_PREDICTOR_SD
            >= predictor_sd(stored, job_precision)
        ):
            reasons.append("under this prior the posterior is too wide to be normal")
        distance = float(np.linalg.norm(self._whitened_difference(draws[:, :p].mean(axis=0))))
        if distance > MAX_LAST_STEP:
            reasons.append(
                f"this prior moves the posterior {distance:.2g} sds of a row's information from"
                f" the last Newton step; the approximation holds within {MAX_LAST_STEP:g}"
            )
        return tuple(reasons)

    def _conflict(
        self, mean: Floats, precision: Floats, named: Iterable[str] = ()
    ) -> tuple[str, ...]:
        """Return a sentence where normal priors (d,) conflict with the data.

        named: parameters whose prior the caller gave, which are not checked.
        """
        stored = self._stored
        if not isinstance(stored, Quadratic):
            return ()
        pulls, ratios = prior_conflict.pulls(stored, mean, stored.prior_precisions(mean, precision))
        named = {*named, *self._held_by()}
        pulls *= [name not in named for name in self.parameters[: len(pulls)]]
        worst = [int(k) for k in np.argsort(-pulls) if pulls[k] > 0.0]
        if not worst or self._nonlinear:
            return ()
        names, scales = [self.parameters[k] for k in worst], self._units("/prior")[0][worst]
        return (prior_conflict.sentence(names, scales * ratios[worst], float(pulls.max())),)

    def _few(self, mean: Floats, precision: Floats) -> tuple[str, ...]:
        """Return problems of groups of rows with very few events, under normal priors (d,).

        The likelihood of such a group is not quadratic, as the release assumes.
        """
        stored, link = self._stored, self._link
        if link is None or not isinstance(stored, Quadratic | Variational):
            return ()
        if isinstance(stored, Quadratic):
            precision = stored.prior_precisions(mean, precision)
        posterior = few_events.normal(stored, mean, precision)
        return few_events.problems(stored, self._design, link, posterior)

    @property
    def _link(self) -> few_events.Link | None:
        """Return the link between predictors and expected responses; None for the identity."""
        family = self._family
        if family is None or (is_additive(family) and not is_skewed(family)):
            return None
        middle_weight = 1.0
        if self._own.model.weights is not None:
            column = column_of(self._design.schema, self._own.model.weights)
            if isinstance(column, NumberColumn):
                middle_weight = 0.5 * column.lower + 0.5 * column.upper
        middle_weight *= self._design.usual_trials
        shift, time = self._design.middle_offset, self._design.answer
        if self._design.kind == "event" and isinstance(time, NumberColumn):
            if is_measured(family) and is_skewed(family):
                unit = MODELS[self._own.model.family].unit(self._design, self._own.model)
                return few_events.Link(True, shift=(log_middle(time) - shift) / unit, of_times=True)
            shift += log_middle(time)
        if family.link == "cumulative":
            return few_events.Link(False, ordered=True)
        if family.link == "hurdle":
            return few_events.Link(False, shift=shift, hurdle=True)
        if is_apart(family) and family.link != "log":
            return None  # no share is an event
        size = family.variance.size
        if is_apart(family) and isinstance(self._stored, Quadratic):
            size = math.exp(float(self._stored.place[-1]))
        return few_events.Link(family.link == "log", size, shift, middle_weight)

    @property
    def _family(self) -> Family | None:
        """Return the family of scores; None where noisy_quadratic does not support it."""
        model = self._own.model
        return MODELS[model.family].rows(model.options)

    @property
    def _verdict_prior(self) -> tuple[Floats, Floats] | None:
        """Return the prior for the verdict; None where the likelihood is quadratic."""
        family = self._family
        if family is None or family.quadratic:
            return None
        mean, precision = self._prior
        if isinstance(self._stored, Quadratic):
            precision = self._stored.prior_precisions(mean, precision)
        return mean, precision

    def _whitened_difference(self, coefficients: Floats) -> Floats:
        """Return the whitened difference of coefficients (p,) from the expansion point."""
        stored: Any = self._stored
        unit, shift = self._units("/prior")
        p = len(coefficients)
        positions = (coefficients - shift[:p]) / unit[:p]
        return np.asarray(np.linalg.solve(stored.root, positions - stored.place))

    def index(self, name: str, pointer: str) -> int:
        """Return the index of a parameter. Raises SpecError where there is none of this name."""
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
        """Number of coefficients, which are the first parameters."""
        d, first = len(self._design.parameters), cuts.count(self._design, self.parameters)
        return first + d - 1 if first else self.classes * d

    def fixed(
        self, values: Mapping[str, float], scale: Scale, pointer: str
    ) -> tuple[Floats, Floats]:
        """Return g (k, p), v (k,): parameters at these values are positions with g @ them = v.

        Raises SpecError.
        """
        unit, shift = self._units(pointer)
        indices = [self.index(name, pointer) for name in values]
        curves = next((name for name in values if name in self._held_by()), None)
        if curves is not None:
            message = f"is part of a curve: {self._held_by()[curves]} says how large that is"
            raise SpecError(at(pointer, curves), message)
        for name, value in values.items():
            check_number(value, at(pointer, name))
        to_shown = np.eye(len(self.parameters))
        if scale != "design":
            to_shown = matrix(self._design, self.parameters)
        if any(k >= len(unit) for k in indices):
            raise SpecError(pointer, "names what groups have: only coefficients can be fixed")
        to_shown = to_shown[: len(unit), : len(unit)]
        numbers, rows = np.array(list(values.values()), np.float64), to_shown[indices]
        return rows * unit, numbers - rows @ shift

    def _units(self, pointer: str) -> tuple[Floats, Floats]:
        """Return (unit (d,), shift (d,)): parameters are shift + unit * positions."""
        low, middle, _ = self._ends()
        if self._nonlinear:
            message = "is fixed: parameters of this model are not linear, so only its prior is used"
            raise SpecError(pointer, message)
        return middle - low, low

    def _ends(self) -> Floats:
        """Return parameters (3, d) of positions 0, 1 and 2."""
        return self._released(np.arange(3.0)[:, None] * np.ones(len(self._prior[0])))

    @property
    def _nonlinear(self) -> bool:
        """Whether parameters are not linear in positions."""
        low, middle, high = self._ends()
        return not np.allclose(high - middle, middle - low)

    def _released(self, positions: Floats) -> Floats:
        """Return the parameters at positions (..., d)."""
        model = MODELS[self._own.model.family]
        return np.asarray(model.release(self._design, self._spec, positions))


def combine(releases: Sequence[StoredRelease]) -> StoredRelease:
    """Return one release of the rows of several data holders, at no cost.

    Each holder runs `sufficient_statistics` on its own rows, with noise of its own, pays for it and
    sends the release, as `fit.save` and `dpmcmc.load` do: nobody sees the rows of another.

    Parameters
    ----------
    releases
        `fit.release` of each holder's fit: the same model, columns and bounds, the same method and
        the same `noise_multiplier`. No row may be in two of them.

    Returns
    -------
    StoredRelease
        The release of all rows, whose `posterior()` and `verdict` are those of a pooled dataset.

    Raises
    ------
    SpecError
        If the releases do not belong together; the message says what differs.

    Examples
    --------
    >>> whole = dpmcmc.combine([dpmcmc.load(path).release for path in ("north.zip", "south.zip")])
    >>> whole.posterior().summary()
    """
    parts = list(releases) if isinstance(releases, Sequence) else []
    if not parts or not all(isinstance(part, StoredRelease) for part in parts):
        raise SpecError("/releases", "must be a list of releases, such as [a.release, b.release]")
    first = parts[0]
    schema = first.design.schema
    for part in parts:
        if not isinstance(part._stored, Sums):
            raise SpecError("/releases", "must be of sufficient_statistics, whose sums add up")
        for what, same in (
            ("columns or bounds", part.design.schema.columns == schema.columns),
            ("options", _without_draws(part.spec.sampler) == _without_draws(first.spec.sampler)),
            ("models", part.spec.model == first.spec.model),
        ):
            if not same:
                raise SpecError("/releases", f"are of different {what}: all must have the same")
    stored = [cast("Sums", part._stored) for part in parts]
    try:
        sums = Sums.joined(stored)
    except ValueError as error:
        raise SpecError("/releases", str(error)) from None
    holders: list[int] = []
    for part, part_sums in zip(parts, stored, strict=True):
        part_schema = part.design.schema
        holders += part_schema.holders if len(part_sums.noisy.rows) > 1 else [part_schema.rows]
    joined_schema = replace(schema, rows=sum(holders), holders=tuple(holders))
    mean, precision = first._prior
    posterior = sums.posterior(mean, precision, SystemRandom()).release
    return StoredRelease(joined_schema, first.spec, posterior or sums)


def _without_draws(options: AlgorithmOptions) -> AlgorithmOptions:
    """Return options without the numbers of draws, which cost nothing."""
    return replace(options, num_steps=None, num_chains=None, num_warmup=None)
