"""Datasets, users and jobs by the names that people use: ids are asked of nobody."""

from collections.abc import Iterable
from typing import Protocol

from dpmcmc.client.named import Json, UnclearError, is_id, meant
from dpmcmc.client.terminal import complain


class Listed(Protocol):
    """A client, as far as it lists what there is."""

    def datasets(self) -> Iterable[Json]:
        """Yield the datasets."""

    def users(self) -> Iterable[Json]:
        """Yield the users."""

    def jobs(self) -> Iterable[Json]:
        """Yield the jobs."""


def dataset(client: Listed, word: str) -> str:
    """The id of a dataset, given its name, its id or how that begins. Exits where none fits."""
    return word if is_id(word) else _only("dataset", word, list(client.datasets()))


def user(client: Listed, word: str) -> str:
    """The id of a user, given a name, an id or how that begins. Exits where none fits."""
    return word if is_id(word) else _only("user", word, list(client.users()))


def job(client: Listed, word: str) -> str:
    """The id of a job, given its id or how that begins. Exits where none fits."""
    return word if is_id(word) else _only("job", word, list(client.jobs()))


def _only(kind: str, word: str, known: list[Json]) -> str:
    try:
        return meant(kind, word, known, shortened=True)
    except UnclearError as error:
        complain(str(error))
