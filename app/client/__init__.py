"""The Python client and the command line. Speaks HTTP only and knows nothing of the house behind it."""

from app.client.client import ApiError, Client, Event

__all__ = ["ApiError", "Client", "Event"]
