"""The Python client and the command line of a service. They speak HTTP and nothing else."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpmcmc.client.answers import ApiError, Event, Fit
    from dpmcmc.client.async_client import AsyncClient
    from dpmcmc.client.client import Client
    from dpmcmc.client.connection import UnreachedError, WrongAddressError, WrongKeyError
    from dpmcmc.client.named import UnclearError
    from dpmcmc.client.released import (
        Inference,
        Posterior,
        Statistic,
        Summaries,
        Synthetic,
        Task,
        TwoStages,
    )

_HOMES = {
    "dpmcmc.client.answers": (
        "ApiError",
        "Event",
        "Fit",
    ),
    "dpmcmc.client.async_client": ("AsyncClient",),
    "dpmcmc.client.client": ("Client",),
    "dpmcmc.client.connection": (
        "UnreachedError",
        "WrongAddressError",
        "WrongKeyError",
    ),
    "dpmcmc.client.named": ("UnclearError",),
    "dpmcmc.client.released": (
        "Inference",
        "Posterior",
        "Statistic",
        "Summaries",
        "Synthetic",
        "Task",
        "TwoStages",
    ),
}

__all__ = [
    "ApiError",
    "AsyncClient",
    "Client",
    "Event",
    "Fit",
    "Inference",
    "Posterior",
    "Statistic",
    "Summaries",
    "Synthetic",
    "Task",
    "TwoStages",
    "UnclearError",
    "UnreachedError",
    "WrongAddressError",
    "WrongKeyError",
]


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is asked for: the command says what is not installed."""
    for module, names in _HOMES.items():
        if name in names:
            from dpmcmc.base.loading import loaded

            return getattr(loaded(module), name)
    message = f"module 'dpmcmc.client' has no attribute {name!r}"
    raise AttributeError(message)
