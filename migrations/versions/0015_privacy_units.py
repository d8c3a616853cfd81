"""The privacy unit of a dataset: rows, or persons with several rows."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    """Add the column; it is empty for existing datasets."""
    op.add_column("datasets", sa.Column("privacy_unit", sa.JSON(), nullable=True))
    op.add_column("jobs", sa.Column("protects", sa.JSON(), nullable=True))


def downgrade() -> None:
    """Drop the column. Refuses where persons are protected."""
    datasets = sa.table("datasets", sa.column("privacy_unit", sa.JSON()))
    declared = [unit for (unit,) in op.get_bind().execute(sa.select(datasets.c.privacy_unit))]
    if any(isinstance(unit, dict) for unit in declared):
        raise RuntimeError("some datasets protect persons: an older release would protect rows")
    op.drop_column("jobs", "protects")
    op.drop_column("datasets", "privacy_unit")
