"""Ids on the command line, from a name or the first digits of an id."""

from collections.abc import Iterable
from typing import Protocol

from dpmcmc.client.named import Json, UnclearError, id_of, is_id
from dpmcmc.client.terminal import complain


class Listed(Protocol):
    """The part of a client that lists what has an id."""

    def datasets(self) -> Iterable[Json]:
        """Yield the datasets."""

    def users(self) -> Iterable[Json]:
        """Yield the users."""

    def jobs(self) -> Iterable[Json]:
        """Yield the jobs."""

    def requests(self) -> Iterable[Json]:
        """Yield the access requests."""


def dataset(client: Listed, name: str) -> str:
    """The id of a dataset from its name, its id or the id's first digits; exits where none fits."""
    return name if is_id(name) else _only("dataset", name, list(client.datasets()))


def user(client: Listed, name: str) -> str:
    """The id of a user from a name, an id or the first digits of it; exits where none fits."""
    return name if is_id(name) else _only("user", name, list(client.users()))


def job(client: Listed, prefix: str) -> str:
    """The id of a job from its id or the first digits of it; exits where none fits."""
    return prefix if is_id(prefix) else _only("job", prefix, list(client.jobs()))


def access_request(client: Listed, prefix: str) -> str:
    """The id of an access request from its id or the first digits of it; exits where none fits."""
    return prefix if is_id(prefix) else _only("access request", prefix, list(client.requests()))


def _only(kind: str, name: str, items: list[Json]) -> str:
    try:
        return id_of(kind, name, items, shortened=True)
    except UnclearError as error:
        complain(str(error))
