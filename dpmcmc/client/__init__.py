"""The Python client and the command line. Speaks HTTP only, knows nothing of the house behind."""

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
