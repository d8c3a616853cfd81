"""Alembic's entry: on the connection it is handed, or on DATABASE_URL from a terminal."""

import os

from alembic import context
from sqlalchemy import Connection

from app.storage.engine import engine_for
from app.storage.rows import Base


def run(connection: Connection) -> None:
    """Run the migrations on a connection. A caller that passed it commits."""
    context.configure(
        connection=connection,
        target_metadata=Base.metadata,
        compare_type=True,
        transactional_ddl=True,
        render_as_batch=connection.dialect.name == "sqlite",
    )
    with context.begin_transaction():
        context.run_migrations()


given = context.config.attributes.get("connection")
if given is not None:
    run(given)
else:
    with engine_for(os.environ["DATABASE_URL"]).begin() as opened:
        run(opened)
