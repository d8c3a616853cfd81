"""Posterior samples from sensitive data under differential privacy."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpmcmc.base.errors import LowQualityError, SpecError
    from dpmcmc.fit.budget import Budget, BudgetExhaustedError
    from dpmcmc.fit.local import plan, sample
    from dpmcmc.fit.results import load
    from dpmcmc.fit.run import run
    from dpmcmc.inputs.schema import BinaryColumn, CategoryColumn, NumberColumn, Schema
    from dpmcmc.inputs.spec import (
        JobSpec,
        ModelOptions,
        ModelSpec,
        NormalPrior,
        PrivacySpec,
        UpTo,
    )
    from dpmcmc.posterior.free.priors import CoefficientPrior, horseshoe, r2d2, spike_and_slab
    from dpmcmc.posterior.stored import combine
    from dpmcmc.privacy.affordable import noise_for_epsilon, steps_for_epsilon
    from dpmcmc.queries.checks.call import check_fit
    from dpmcmc.queries.statistics.call import release_statistic
    from dpmcmc.queries.statistics.choice import choose_statistic
    from dpmcmc.queries.statistics.two_stages import release_in_two_stages
    from dpmcmc.queries.summaries.call import describe
    from dpmcmc.queries.summaries.statistics import Counts, Mean, Quantiles
    from dpmcmc.queries.synthetic.call import synthesise

from dpmcmc.base.version import __version__ as __version__

_HOMES = {
    "dpmcmc.fit.budget": ("Budget", "BudgetExhaustedError"),
    "dpmcmc.base.errors": ("LowQualityError", "SpecError"),
    "dpmcmc.posterior.free.priors": ("CoefficientPrior", "horseshoe", "r2d2", "spike_and_slab"),
    "dpmcmc.posterior.stored": ("combine",),
    "dpmcmc.fit.local": ("plan", "sample"),
    "dpmcmc.privacy.affordable": ("noise_for_epsilon", "steps_for_epsilon"),
    "dpmcmc.fit.results": ("load",),
    "dpmcmc.fit.run": ("run",),
    "dpmcmc.inputs.schema": (
        "BinaryColumn",
        "CategoryColumn",
        "DateColumn",
        "NumberColumn",
        "Schema",
    ),
    "dpmcmc.inputs.spec": (
        "JobSpec",
        "ModelOptions",
        "ModelSpec",
        "NormalPrior",
        "PrivacySpec",
        "UpTo",
    ),
    "dpmcmc.queries.checks.call": ("check_fit",),
    "dpmcmc.queries.statistics.call": ("release_statistic",),
    "dpmcmc.queries.statistics.choice": ("choose_statistic",),
    "dpmcmc.queries.statistics.two_stages": ("release_in_two_stages",),
    "dpmcmc.queries.summaries.call": ("describe",),
    "dpmcmc.queries.summaries.statistics": ("Counts", "Mean", "Quantiles"),
    "dpmcmc.queries.synthetic.call": ("synthesise",),
}

__all__ = [
    "BinaryColumn",
    "Budget",
    "BudgetExhaustedError",
    "CategoryColumn",
    "CoefficientPrior",
    "Counts",
    "DateColumn",
    "JobSpec",
    "LowQualityError",
    "Mean",
    "ModelOptions",
    "ModelSpec",
    "NormalPrior",
    "NumberColumn",
    "PrivacySpec",
    "Quantiles",
    "Schema",
    "SpecError",
    "UpTo",
    "check_fit",
    "choose_statistic",
    "combine",
    "describe",
    "horseshoe",
    "load",
    "noise_for_epsilon",
    "plan",
    "r2d2",
    "release_in_two_stages",
    "release_statistic",
    "run",
    "sample",
    "spike_and_slab",
    "steps_for_epsilon",
    "synthesise",
]


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is asked for: the API must not load the samplers."""
    for home, names in _HOMES.items():
        if name in names:
            from dpmcmc.base.loading import loaded

            return getattr(loaded(home), name)
    from dpmcmc.base.errors import near

    message = f"module 'dpmcmc' has no attribute {name!r}{near(name, __all__)}"
    raise AttributeError(message)


def __dir__() -> list[str]:
    """Return also what was not asked for yet, which a notebook completes."""
    return sorted({*globals(), *__all__})
