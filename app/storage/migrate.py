"""Migration of a database to the present schema."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.script.revision import ResolutionError
from alembic.util import CommandError
from sqlalchemy import Connection, Engine, text

MIGRATIONS = Path(__file__).resolve().parents[2] / "migrations"
_LOCK = 0x64706D636D63


class NewerSchemaError(RuntimeError):
    """The database has the schema of a later version."""


def _config(connection: Connection) -> Config:
    """Return Alembic's configuration for a connection."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def _alone(connection: Connection) -> None:
    """Wait for concurrent migrations. SQLite's write transaction is exclusive already."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})


def upgrade(engine: Engine, revision: str = "head") -> None:
    """Apply missing migrations in one transaction; safe for concurrent processes.

    Raises NewerSchemaError where the database knows migrations that these sources do not.
    """
    with engine.begin() as connection:
        _alone(connection)
        _missing(connection)
        command.upgrade(_config(connection), revision)


def is_current(engine: Engine) -> bool:
    """Return whether no migration is missing. Raises NewerSchemaError as `upgrade` does."""
    with engine.connect() as connection:
        return not _missing(connection)


def _missing(connection: Connection) -> bool:
    """Return whether a migration is missing. Raises NewerSchemaError."""
    applied = MigrationContext.configure(connection).get_current_heads()
    scripts = ScriptDirectory.from_config(_config(connection))
    try:
        scripts.get_revisions(applied)
    except (CommandError, ResolutionError):
        raise NewerSchemaError(
            f"a later version has migrated the database (to {', '.join(applied)}): start that"
            " version, or take the database back with it (alembic downgrade)"
        ) from None
    return set(applied) != set(scripts.get_heads())


def downgrade(engine: Engine, revision: str, *, drop_ledgers: bool = False) -> None:
    """Revert migrations down to `revision` ("base": all), in one transaction.

    drop_ledgers: whether ledgers and the audit trail may go with their tables. Raises RuntimeError
    where they would and were not meant to.
    """
    with engine.begin() as connection:
        _alone(connection)
        config = _config(connection)
        config.attributes["drop_ledgers"] = drop_ledgers
        command.downgrade(config, revision)
