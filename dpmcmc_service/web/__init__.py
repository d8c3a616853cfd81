"""The dashboard and the API's page: they read the REST API and nothing of the house."""

from dpmcmc_service.web.pages import mount

__all__ = ["mount"]
