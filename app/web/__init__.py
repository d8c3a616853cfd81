"""The dashboard and the API's page: two documents, their assets and nothing of the house."""

from app.web.pages import mount

__all__ = ["mount"]
