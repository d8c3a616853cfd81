"""Several that open a new SQLite file at once all get it, with its write-ahead log."""

import sqlite3
import threading
from pathlib import Path

from app.storage.wal import use_wal

AT_ONCE, FILES = 6, 150


def test_a_new_file_may_be_opened_by_several_at_once(tmp_path: Path) -> None:
    together = threading.Barrier(AT_ONCE, timeout=60)
    refused: list[sqlite3.Error] = []

    def open_all() -> None:
        for number in range(FILES):
            path = str(tmp_path / f"{number}.db")
            together.wait()
            connection = sqlite3.connect(path, timeout=30, isolation_level=None)
            try:
                use_wal(connection, path)
                connection.execute("CREATE TABLE IF NOT EXISTS a (b)")
            except sqlite3.Error as error:
                refused.append(error)
            finally:
                connection.close()

    threads = [threading.Thread(target=open_all) for _ in range(AT_ONCE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert refused == []
