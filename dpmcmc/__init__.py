"""Posterior samples from sensitive data under differential privacy."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpmcmc.budget import Budget, BudgetExhaustedError
    from dpmcmc.errors import SpecError
    from dpmcmc.free.priors import CoefficientPrior
    from dpmcmc.local import sample
    from dpmcmc.planner import plan
    from dpmcmc.privacy.affordable import noise_for_epsilon, steps_for_epsilon
    from dpmcmc.results import load
    from dpmcmc.run import run
    from dpmcmc.schema import BinaryColumn, CategoryColumn, NumberColumn, Schema
    from dpmcmc.spec import JobSpec, ModelOptions, ModelSpec, NormalPrior, PrivacySpec
    from dpmcmc.statistics.call import release_statistic
    from dpmcmc.statistics.choice import choose_statistic
    from dpmcmc.statistics.two_stages import release_in_two_stages
    from dpmcmc.summaries.call import describe
    from dpmcmc.summaries.statistics import Counts, Mean, Quantiles
    from dpmcmc.synthetic.call import synthesise

from dpmcmc.version import __version__ as __version__

_HOMES = {
    "dpmcmc.budget": ("Budget", "BudgetExhaustedError"),
    "dpmcmc.errors": ("SpecError",),
    "dpmcmc.free.priors": ("CoefficientPrior",),
    "dpmcmc.planner": ("plan",),
    "dpmcmc.local": ("sample",),
    "dpmcmc.privacy.affordable": ("noise_for_epsilon", "steps_for_epsilon"),
    "dpmcmc.results": ("load",),
    "dpmcmc.run": ("run",),
    "dpmcmc.schema": ("BinaryColumn", "CategoryColumn", "NumberColumn", "Schema"),
    "dpmcmc.spec": ("JobSpec", "ModelOptions", "ModelSpec", "NormalPrior", "PrivacySpec"),
    "dpmcmc.statistics.call": ("release_statistic",),
    "dpmcmc.statistics.choice": ("choose_statistic",),
    "dpmcmc.statistics.two_stages": ("release_in_two_stages",),
    "dpmcmc.summaries.call": ("describe",),
    "dpmcmc.summaries.statistics": ("Counts", "Mean", "Quantiles"),
    "dpmcmc.synthetic.call": ("synthesise",),
}

__all__ = [
    "BinaryColumn",
    "Budget",
    "BudgetExhaustedError",
    "CategoryColumn",
    "CoefficientPrior",
    "Counts",
    "JobSpec",
    "Mean",
    "ModelOptions",
    "ModelSpec",
    "NormalPrior",
    "NumberColumn",
    "PrivacySpec",
    "Quantiles",
    "Schema",
    "SpecError",
    "choose_statistic",
    "describe",
    "load",
    "noise_for_epsilon",
    "plan",
    "release_in_two_stages",
    "release_statistic",
    "run",
    "sample",
    "steps_for_epsilon",
    "synthesise",
]


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is asked for: the API must not load the samplers."""
    for home, names in _HOMES.items():
        if name in names:
            from dpmcmc.loading import loaded

            return getattr(loaded(home), name)
    from dpmcmc.errors import near

    message = f"module 'dpmcmc' has no attribute {name!r}{near(name, __all__)}"
    raise AttributeError(message)


def __dir__() -> list[str]:
    """Return also what was not asked for yet, which a notebook completes."""
    return sorted({*globals(), *__all__})
