"""The Python client and the command line. Speaks HTTP only, knows nothing of the house behind."""

from dpmcmc_service.client.client import ApiError, Client, Event

__all__ = ["ApiError", "Client", "Event"]
