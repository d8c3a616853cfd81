"""SQLite's log outlives whoever else opens and closes the database."""

import sqlite3
import subprocess
import sys
from pathlib import Path

from app.storage.wal import private

OTHER = """
import sqlite3, sys
other = sqlite3.connect(sys.argv[1])
other.execute("select 1 from t")
other.close()
"""


def test_a_database_that_is_made_private_again_keeps_its_locks(tmp_path: Path) -> None:
    """Else another process believes that it leaves last, and deletes the log that we write to."""
    file = tmp_path / "d.sqlite3"
    private(str(file))
    ours = sqlite3.connect(file, isolation_level=None)
    ours.execute("pragma journal_mode=wal")
    ours.execute("create table t (x)")
    private(str(file))  # as a second engine of this process does
    subprocess.run([sys.executable, "-c", OTHER, str(file)], check=True)
    ours.execute("insert into t values (1)")
    other = sqlite3.connect(file)
    assert other.execute("select x from t").fetchall() == [(1,)]
    other.close()
    ours.close()
