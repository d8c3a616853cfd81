"""What a release takes of rows that lie in a store: time, rows a second, and the most memory.

    python -m benchmarks.streams [--rows 1e6 1e7] [--library] [--folder FOLDER]

Makes a dataset of ten columns, encrypted as the service keeps it, in pieces, and releases a linear
regression of two or of all of its columns, in a process of its own. Told are the seconds that the
release takes, the passes over the rows, the seconds of one pass over the seconds of reading and
decrypting the columns, and the most memory of the process, its libraries included. With --library
the rows are Parquet files, which `sample` reads as a dataset of Arrow. FOLDER keeps what was made.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np

from dpmcmc import JobSpec, ModelSpec, NumberColumn, PrivacySpec, Schema, plan

COLUMNS, PIECE = 10, 2**20
DATASET, KEY = UUID(int=1), bytes(32)
FORMULAS = {"2 of 10 columns": "c0 ~ c1", "10 columns": "c0 ~ ."}


def schema_of(rows: int) -> Schema:
    """Return ten numbers between -1 and 1."""
    names = [f"c{k}" for k in range(COLUMNS)]
    return Schema(
        columns=tuple(NumberColumn(name=n, lower=-1.0, upper=1.0) for n in names), rows=rows
    )


def pieces(rows: int) -> Any:
    """Yield the columns (10, m) of so many rows; the first depends on the others."""
    rng = np.random.default_rng(5)
    for first in range(0, rows, PIECE):
        values = rng.uniform(-1.0, 1.0, (COLUMNS, min(PIECE, rows - first)))
        values[0] = np.clip(0.1 * values[1:].sum(axis=0) + 0.2 * values[0], -1.0, 1.0)
        yield values


def stored(folder: Path) -> Any:
    """Return the files of a folder."""
    from app.storage.files import DatasetFiles
    from app.storage.keys import MasterKey
    from app.storage.local_store import LocalStore

    return DatasetFiles(LocalStore(folder), MasterKey(KEY))


def make(folder: Path, rows: int) -> None:
    """Write the encrypted file, as an upload does."""
    files = stored(folder)
    key, wrapped = files.new_key(DATASET)
    with files.write(DATASET, key, schema_of(rows).columns) as writer:
        for values in pieces(rows):
            writer.add(list(values))
    (folder / "wrapped").write_bytes(wrapped)


def make_parquet(folder: Path, rows: int) -> None:
    """Write Parquet files of the same rows."""
    import pyarrow as pa
    from pyarrow import parquet

    for number, values in enumerate(pieces(rows)):
        table = pa.table({f"c{k}": column for k, column in enumerate(values)})
        parquet.write_table(table, folder / f"{number:04}.parquet")


def most_memory() -> int:
    """VmHWM of this process, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


def release(folder: Path, rows: int, formula: str) -> dict[str, float]:
    """Release a regression of the stored rows in this process."""
    from app.storage.columns import columns_json
    from app.storage.files import RowReader
    from app.storage.rows import DatasetRow
    from dpmcmc.base.private import Permit
    from dpmcmc.fit.run import run
    from dpmcmc.formula.design import make_design
    from dpmcmc.privacy.event_json import digest

    schema, files = schema_of(rows), stored(folder)
    row = DatasetRow(
        id=DATASET,
        columns=columns_json(schema.columns),
        rows=rows,
        neighbouring="replace_one",
        wrapped_key=(folder / "wrapped").read_bytes(),
    )
    privacy = PrivacySpec(epsilon=1.0, delta=1e-9)
    job = JobSpec(model=ModelSpec(family="linear", formula=formula), privacy=privacy)
    planned = plan(schema, job)
    tables, passes = RowReader.tables, [0]

    def counted(*given: Any) -> Any:
        passes[0] += 1
        return tables(*given)

    RowReader.tables = counted  # type: ignore[method-assign]
    before = most_memory()
    permits = [Permit(subject=str(DATASET), event_digest=digest(planned.event)) for _ in "12"]
    source = files.load(row).open(permits[0])
    began = time.perf_counter()
    for _ in source.parts(make_design(schema, formula).read):
        pass
    read, passes[0] = time.perf_counter() - began, 0
    began = time.perf_counter()
    for _ in run(schema, planned.spec, files.load(row), permits[1]):
        pass
    taken = time.perf_counter() - began
    found = {"read": read, "seconds": taken, "passes": passes[0]}
    return found | {"before": before, "most": most_memory()}


def release_library(folder: Path, rows: int, formula: str) -> dict[str, float]:
    """Fit a regression of the Parquet files in this process."""
    from pyarrow import dataset

    from dpmcmc import sample

    source, before = dataset.dataset(folder, format="parquet"), most_memory()
    began = time.perf_counter()
    sample(formula, source, schema_of(rows), epsilon=1.0, delta=1e-9)
    taken = time.perf_counter() - began
    return {"seconds": taken, "before": before, "most": most_memory()}


def told(rows: int, name: str, found: dict[str, float]) -> str:
    """Return a line of the table in docs/scaling.md."""
    cells = [f"{rows:,}", name, f"{found['seconds']:.0f}"]
    if "passes" in found:
        each = found["seconds"] / found["passes"]
        cells += [f"{found['passes']:.0f}", f"{each:.1f}", f"{found['read']:.1f}"]
    cells += [f"{found['most'] / 2**20:.0f}", f"{found['before'] / 2**20:.0f}"]
    return f"| {' | '.join(cells)} |\n"


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", nargs="+", type=float, default=[1e6, 1e7])
    parser.add_argument("--library", action="store_true")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        act = release_library if given.library else release
        found = act(given.folder, int(given.one[0]), given.one[1])
        sys.stdout.write(json.dumps(found) + "\n")
        return
    for rows in map(int, given.rows):
        with tempfile.TemporaryDirectory(prefix="dpmcmc-streams-") as made:
            folder = Path(made) if given.folder is None else given.folder / str(rows)
            if not folder.exists() or not any(folder.iterdir()):
                folder.mkdir(parents=True, exist_ok=True)
                (make_parquet if given.library else make)(folder, rows)
            for name, formula in FORMULAS.items():
                call = [sys.executable, "-m", "benchmarks.streams", "--one", str(rows), formula]
                call += ["--folder", str(folder)] + ["--library"] * given.library
                done = subprocess.run(call, check=True, stdout=subprocess.PIPE, text=True)
                found = json.loads(done.stdout.splitlines()[-1])
                sys.stdout.write(told(rows, name, found))
                sys.stdout.flush()


if __name__ == "__main__":
    main()
