"""Files of rows by column, which earlier versions cannot read.

No table changes. The revision keeps an earlier version, which would set such datasets aside as
damaged, from starting on this database or beside this version.
"""

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    """Change nothing: files of the first format are read as they are."""


def downgrade() -> None:
    """Change nothing: an earlier version cannot read the rows of datasets uploaded since."""
