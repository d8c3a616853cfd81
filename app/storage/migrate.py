"""Bring a database to the present schema, at start or by hand."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, Engine, text

MIGRATIONS = Path(__file__).resolve().parents[2] / "migrations"
_LOCK = 0x64706D636D63


def _config(connection: Connection) -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def _alone(connection: Connection) -> None:
    """Wait for other migrators. SQLite's writer transaction is alone already."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})


def upgrade(engine: Engine, revision: str = "head") -> None:
    """Apply missing migrations in one transaction. Safe when several processes start at once."""
    with engine.begin() as connection:
        _alone(connection)
        command.upgrade(_config(connection), revision)


def downgrade(engine: Engine, revision: str, *, drop_ledgers: bool = False) -> None:
    """Take migrations back to `revision` ("base": all), in one transaction.

    drop_ledgers: whether ledgers and the audit trail may go with their tables. Raises RuntimeError
    where they would and were not meant to.
    """
    with engine.begin() as connection:
        _alone(connection)
        config = _config(connection)
        config.attributes["drop_ledgers"] = drop_ledgers
        command.downgrade(config, revision)
