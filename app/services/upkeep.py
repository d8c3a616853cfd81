"""Start-up maintenance: disk space, migrations, and deletion of orphaned files."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import inspect, select
from sqlalchemy.exc import SQLAlchemyError

from app import logs
from app.services.context import Services
from app.services.presence import refuse_while_running
from app.settings import Settings
from app.storage.errors import StoreError, is_full
from app.storage.migrate import NewerSchemaError, is_current, upgrade
from app.storage.rows import DatasetRow, ProcessRow
from app.storage.session import SessionFactory

LEFTOVER_SECONDS = 24 * 3600.0  # longer than any upload takes


@contextmanager
def room_to_start(what: str, data_dir: Path) -> Iterator[None]:
    """Exit with a message where a start-up step finds the disk full.

    Or where a later version has migrated the database.
    """
    try:
        yield
    except NewerSchemaError as error:
        sys.exit(f"{what} does not start: {error}")
    except (OSError, SQLAlchemyError, StoreError) as error:
        if not is_full(error):
            raise
        sys.exit(f"{what} does not start: the disk of {data_dir} or of the database is full")


def migrate(settings: Settings, *, stopped: bool = False) -> None:
    """Migrate the database to the present schema.

    stopped: whether a migration may only be applied while no process of the installation runs.
    Raises RunningError where one does, and NewerSchemaError.
    """
    settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    sessions = SessionFactory(settings.database)
    try:
        if stopped and inspect(sessions.engine).has_table(ProcessRow.__tablename__):
            if is_current(sessions.engine):
                return
            refuse_while_running(sessions)
        upgrade(sessions.engine)
    finally:
        sessions.dispose()


def sweep(services: Services) -> None:
    """Delete files of unrecorded uploads and of destroyed datasets.

    A store that is away is no error: the next start sweeps.
    """
    with services.sessions.read() as session:
        known = set(session.scalars(select(DatasetRow.id).where(DatasetRow.destroyed_at.is_(None))))
    try:
        deleted = services.vault.files.sweep(known, older_than=time.time() - LEFTOVER_SECONDS)
    except StoreError as error:
        logs.logger().warning("sweep_failed", reason=error.reason)
        return
    if deleted:
        logs.logger().info("leftovers_deleted", files=deleted)
