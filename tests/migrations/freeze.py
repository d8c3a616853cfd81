"""Writes down what the present code stores, for migrations to be tried on once it is the past.

    python -m tests.migrations.freeze > tests/migrations/data/REVISION.json

Everything goes through the service: users, datasets, a job in each final state, a chain, grants, a
raised budget, an archived and a destroyed dataset. Run it before a change of the schema.
"""

import base64
import json
import sys
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import MetaData, select, text

from app import logs
from tests.api.support import METADATA, Caller, House, house_in


def main() -> None:
    """Print the record; everything else goes elsewhere."""
    logs.configure("json", "ERROR")
    with tempfile.TemporaryDirectory() as folder, house_in(Path(folder)) as house:
        known = lived_in(house)
        json.dump(written_down(house, known), sys.stdout, indent=1)
        house.services.close()
    sys.stdout.write("\n")


def lived_in(house: House) -> dict[str, Any]:
    """Do everything once. Returns ids and keys that a test asks about later."""
    analyst, auditor = house.user("analyst", "ann"), house.user("auditor", "bob")
    dataset = house.dataset(grants=[analyst.id])
    archived, destroyed = house.dataset(name="old"), house.dataset(name="gone")
    succeeded, cancelled = house.submit(analyst, dataset), house.submit(analyst, dataset)
    house.run(succeeded)
    done(analyst, "POST", f"/v1/jobs/{cancelled}/cancel")
    queued = house.submit(analyst, dataset)
    stopped = house.submit(analyst, destroyed)
    raised = {"privacy": {"epsilon": METADATA["privacy"]["epsilon"] + 1}}
    done(house.admin, "PATCH", f"/v1/datasets/{dataset}", json=raised)
    done(house.admin, "PATCH", f"/v1/datasets/{archived}", json={"archived": True})
    done(house.admin, "DELETE", f"/v1/datasets/{destroyed}")
    chain = done(analyst, "GET", f"/v1/jobs/{succeeded}/chain").json()
    return {
        "analyst": analyst.key,
        "auditor": auditor.key,
        "dataset": dataset,
        "destroyed": destroyed,
        "succeeded": succeeded,
        "queued": queued,
        "stopped": stopped,
        "chain": chain,
    }


def done(who: Caller, method: str, path: str, **request: Any) -> Any:
    """A call that must work."""
    answer = who.call(method, path, **request)
    if not answer.is_success:
        raise RuntimeError(f"{method} {path}: {answer.text}")
    return answer


def written_down(house: House, known: dict[str, Any]) -> dict[str, Any]:
    """All tables in the order of their foreign keys, the files of rows, and the master key."""
    tables = MetaData()
    with house.services.sessions.read() as session:
        connection = session.connection()
        tables.reflect(connection)
        revision = session.scalar(text("SELECT version_num FROM alembic_version"))
        rows = {
            table.name: [
                {name: plain(value) for name, value in row.items()}
                for row in connection.execute(select(table)).mappings()
            ]
            for table in tables.sorted_tables
            if table.name != "alembic_version"
        }
    folder = house.settings.data_dir
    files = {path.name: packed(path.read_bytes()) for path in house.settings.datasets_dir.iterdir()}
    key = (folder / "master.key").read_text().strip()
    return {
        "revision": revision,
        "known": known,
        "master_key": key,
        "files": files,
        "tables": rows,
    }


def packed(content: bytes) -> str:
    """Bytes as text."""
    return base64.b64encode(content).decode()


def plain(value: Any) -> Any:
    """A stored value as JSON; the column it goes into says what it was."""
    if isinstance(value, bytes):
        return packed(value)
    return value.isoformat() if isinstance(value, datetime) else value


if __name__ == "__main__":
    main()
