"""Posterior samples from sensitive data under differential privacy."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpmcmc.free.priors import CoefficientPrior
    from dpmcmc.planner import plan
    from dpmcmc.run import run, sample
    from dpmcmc.schema import BinaryColumn, CategoryColumn, NumberColumn, Schema
    from dpmcmc.spec import JobSpec, ModelOptions, ModelSpec, NormalPrior, PrivacySpec

_HOMES = {
    "dpmcmc.free.priors": ("CoefficientPrior",),
    "dpmcmc.planner": ("plan",),
    "dpmcmc.run": ("run", "sample"),
    "dpmcmc.schema": ("BinaryColumn", "CategoryColumn", "NumberColumn", "Schema"),
    "dpmcmc.spec": ("JobSpec", "ModelOptions", "ModelSpec", "NormalPrior", "PrivacySpec"),
}

__all__ = [
    "BinaryColumn",
    "CategoryColumn",
    "CoefficientPrior",
    "JobSpec",
    "ModelOptions",
    "ModelSpec",
    "NormalPrior",
    "NumberColumn",
    "PrivacySpec",
    "Schema",
    "plan",
    "run",
    "sample",
]


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is asked for: the API must not load the samplers."""
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    raise AttributeError(name)
