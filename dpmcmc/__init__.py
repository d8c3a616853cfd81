"""Posterior samples from sensitive data under differential privacy."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpmcmc.planner import plan
    from dpmcmc.run import run, sample

_HOMES = {"plan": "dpmcmc.planner", "run": "dpmcmc.run", "sample": "dpmcmc.run"}

__all__ = ["plan", "run", "sample"]


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is asked for: the API must not load the samplers."""
    if name not in _HOMES:
        raise AttributeError(name)
    return getattr(import_module(_HOMES[name]), name)
