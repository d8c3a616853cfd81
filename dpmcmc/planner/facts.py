"""The public facts of a job's model, derived once for a whole plan."""

from dataclasses import dataclass, replace
from functools import cached_property

from dpmcmc.base.names import ROW
from dpmcmc.families import MODELS
from dpmcmc.families.assumptions import Assumptions, Guess
from dpmcmc.families.forms import Form
from dpmcmc.formula.design import Design
from dpmcmc.inputs.spec import JobSpec
from dpmcmc.privacy import accountant
from dpmcmc.releases.base import Facts, prior_of
from dpmcmc.samplers.starting import beginning


@dataclass(frozen=True, eq=False)  # no slots: a plan asks for the same facts some hundred times
class PublicFacts:
    """The design and model of a job. Of spec only the model is used."""

    design: Design
    spec: JobSpec

    def of(self, spec: JobSpec) -> "PublicFacts":
        """Return the facts of a job on the same design: these, if its model is the same."""
        return self if spec.model == self.spec.model else PublicFacts(self.design, spec)

    @cached_property
    def form(self) -> Form:
        """Return the form of the model: its public facts for the kernels."""
        return MODELS[self.spec.model.family].form(self.design, self.spec)

    @cached_property
    def known(self) -> Assumptions:
        """Return the assumptions on the model, without a budget."""
        guess = MODELS[self.spec.model.family].guess(self.design, self.spec)
        known = Assumptions(guess, self.design.schema.rows, self.spec.model.tempering or 1.0)
        return replace(known, beginning=beginning(self.design, self.spec, known))

    @cached_property
    def of_release(self) -> Facts:
        """Return the public facts that releases plan with."""
        prior = prior_of(self.form, len(self.form.start))[1]
        gaps, options = self.design.gaps, self.spec.model.options
        grouping = self.design.grouping
        return Facts(
            self.known,
            self.form.max_row_norm,
            prior,
            family=self.spec.model.family,
            gaps=gaps,
            holders=self.design.schema.holders,
            known_scale=options.noise_scale is not None or options.dispersion is not None,
            unit_rows=self.design.schema.unit_rows,
            persons=self.design.schema.unit != ROW,
            groups=0 if grouping is None else grouping.count,
            effects=2 if self.design.slope else 1,
            outer_groups=0 if grouping is None else len(grouping.outer_categories),
        )

    def assumptions(self, spec: JobSpec) -> Assumptions:
        """Return the assumptions on the model, with the budget of a job."""
        return replace(self.known, mu=mu_of(spec))

    @cached_property
    def guess_of_large(self) -> Guess:
        """Return the guess of a posterior with large effects; the usual one where there is none."""
        guess = MODELS[self.spec.model.family].guess_of_large
        return self.known.guess if guess is None else guess(self.design, self.spec)


def mu_of(spec: JobSpec) -> float | None:
    """Return the mu of the job's budget; None without an epsilon."""
    if spec.privacy.most is None:
        return None
    return accountant.mu_of_epsilon(spec.privacy.most, spec.privacy.delta)
