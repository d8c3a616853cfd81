"""The shared resources of a process: database sessions, vault and message queue."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from app.services.queue import messages
from app.services.vault import Vault, open_vault
from app.settings import Settings
from app.storage.session import SessionFactory


@dataclass(frozen=True, slots=True)
class Services:
    """Created once per process, after any fork. publish: sends a job's id to the workers."""

    settings: Settings
    sessions: SessionFactory
    vault: Vault
    publish: Callable[[UUID], None]

    def close(self) -> None:
        """Close the database connections."""
        self.sessions.dispose()


def open_services(settings: Settings) -> Services:
    """Return this process's services. Raises KeyFileError where the master key is wrong."""
    settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    sessions = SessionFactory(settings.database)
    try:
        vault = open_vault(settings, sessions)
    except BaseException:
        sessions.dispose()
        raise
    return Services(settings, sessions, vault, partial(messages.publish, sessions))
