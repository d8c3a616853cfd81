"""The Python client and the command line. Speaks HTTP only, knows nothing of the house behind."""

from dpmcmc_service.client.answers import ApiError, Event, Fit
from dpmcmc_service.client.async_client import AsyncClient
from dpmcmc_service.client.client import Client
from dpmcmc_service.client.connection import UnreachedError, WrongAddressError, WrongKeyError
from dpmcmc_service.client.named import UnclearError
from dpmcmc_service.client.released import (
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
