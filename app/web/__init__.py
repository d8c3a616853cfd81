"""The dashboard and the API's page: they read the REST API and nothing of the house."""

from app.web.pages import mount

__all__ = ["mount"]
