"""What a start of the service does before anybody calls."""

import time

from sqlalchemy import select

from app import logs
from app.jobs.services import Services
from app.settings import Settings
from app.storage.errors import StoreError
from app.storage.migrate import upgrade
from app.storage.rows import DatasetRow
from app.storage.session import SessionFactory
from dpmcmc import planner
from dpmcmc.samplers import DpPenaltyOptions
from dpmcmc.schema import BinaryColumn, NumberColumn, Schema
from dpmcmc.spec import JobSpec, ModelSpec, PrivacySpec

LEFTOVER_SECONDS = 24 * 3600.0  # longer than any upload takes


def migrate(settings: Settings) -> None:
    """Bring the database to the present schema."""
    settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    sessions = SessionFactory(settings.database)
    try:
        upgrade(sessions.engine)
    finally:
        sessions.dispose()


def sweep(services: Services) -> None:
    """Delete files of uploads that a crash left unrecorded, and of datasets that were destroyed.

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


def load_planner() -> None:
    """Plan a made-up job, so that the first caller does not wait for the planner's libraries."""
    columns = (
        NumberColumn(name="x", lower=-1.0, upper=1.0),
        BinaryColumn(name="y", categories=("0", "1")),
    )
    spec = JobSpec(
        model=ModelSpec(family="logistic", formula="y ~ x"),
        sampler=DpPenaltyOptions(),
        privacy=PrivacySpec(delta=1e-6, epsilon=1.0),
    )
    planner.plan(Schema(columns=columns, rows=1000), spec)
