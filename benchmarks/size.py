"""A large dataset and a long chain, over HTTP, with the embedded default.

    python -m benchmarks.size [--rows 1000000] [--columns 50] [--draws 100000] [--only PART ...]

Uploads rows x columns as CSV and as Parquet, runs a component-wise penalty job and a short HMC
job on them, then a chain of `--draws` draws on a small dataset, fetched in every format. Prints,
for each part, the seconds it took and the most memory that a process of the service held
meanwhile.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet

from app.local_service import Service, local_service
from dpmcmc.client import Client
from dpmcmc.client.answers import FINAL, MEDIA_TYPES

PATIENCE = 600.0
BATCH = 50_000
DECIMALS = 6
MIB = 2**20


@dataclass(frozen=True, slots=True)
class Scene:
    """A running service, somebody who may upload and sample, and a folder for files."""

    service: Service
    admin: Client
    analyst: Client
    folder: Path


def batches(rows: int, columns: int) -> Iterator[pa.RecordBatch]:
    """Made-up rows: numbers x1, x2, … in [-1, 1] and a binary y that depends on the first two."""
    draw = np.random.default_rng(1)
    names = [f"x{k}" for k in range(1, columns)]
    for first in range(0, rows, BATCH):
        count = min(BATCH, rows - first)
        x = draw.uniform(-1, 1, (columns - 1, count)).round(DECIMALS)
        odds = 1 / (1 + np.exp(-(x[0] - 0.5 * x[1 % len(x)])))
        y = np.where(draw.random(count) < odds, "1", "0")
        arrays = [*(pa.array(values) for values in x), pa.array(y)]
        yield pa.RecordBatch.from_arrays(arrays, names=[*names, "y"])


def write(path: Path, rows: int, columns: int) -> None:
    """Write the rows as the file's ending says."""
    made = batches(rows, columns)
    first = next(made)
    writer: Any = (
        csv.CSVWriter(path, first.schema, write_options=csv.WriteOptions(quoting_style="none"))
        if path.suffix == ".csv"
        else parquet.ParquetWriter(path, first.schema)
    )
    with writer:
        writer.write_batch(first)
        for batch in made:
            writer.write_batch(batch)


def metadata(name: str, columns: int) -> dict[str, Any]:
    """The public promises about the rows."""
    numbers = [
        {"name": f"x{k}", "type": "number", "lower": -1, "upper": 1} for k in range(1, columns)
    ]
    response = {"name": "y", "type": "binary", "categories": ["0", "1"]}
    budget = {"neighbouring": "replace_one", "epsilon": 100.0, "delta": 1e-9}
    return {"name": name, "privacy": budget, "columns": [*numbers, response]}


def job(dataset: str, columns: int, algorithm: str, steps: int, chains: int) -> dict[str, Any]:
    """A job on every column."""
    covariates = " + ".join(f"x{k}" for k in range(1, columns))
    return {
        "dataset": dataset,
        "model": {"family": "logistic", "formula": f"y ~ {covariates}"},
        "sampler": {"algorithm": algorithm, "num_steps": steps, "num_chains": chains},
        "privacy": {"epsilon": 1.0, "delta": 1e-9},
        "accept_low_quality": True,
    }


def processes() -> dict[int, str]:
    """The service's processes: those that our own process started, and theirs."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
    found = {os.getpid()}
    for _ in range(4):
        found |= {pid for pid, parent in parents.items() if parent in found}
    return {pid: f"/proc/{pid}" for pid in found - {os.getpid()}}


def forget_peaks() -> None:
    """Let the kernel measure the most memory from here on."""
    for place in processes().values():
        Path(place, "clear_refs").write_text("5")


def peak() -> float:
    """The most memory that any one process of the service held, in MiB."""
    most = 0
    for place in processes().values():
        for line in Path(place, "status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                most = max(most, int(line.split()[1]))
    return most / 1024


def timed(what: str, act: Callable[[], Any], note: Callable[[Any], str] = lambda _: "") -> Any:
    """Do it, and print a line about it."""
    forget_peaks()
    began = time.perf_counter()
    given = act()
    seconds = time.perf_counter() - began
    sys.stdout.write(f"| {what} | {seconds:.1f} s | {peak():.0f} MiB | {note(given)} |\n")
    sys.stdout.flush()
    return given


@contextmanager
def scene() -> Iterator[Scene]:
    """The embedded default in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="dpmcmc-size-") as name:
        folder = Path(name)
        with (
            local_service(folder) as service,
            Client(service.url, service.admin_key, timeout=PATIENCE) as admin,
        ):
            key = str(admin.create_user("Ada", "analyst")["key"])
            with Client(service.url, key, timeout=PATIENCE) as analyst:
                yield Scene(service, admin, analyst, folder)


def upload(at: Scene, ending: str, rows: int, columns: int) -> str:
    """Upload the rows in one format. Returns the dataset."""
    path = at.folder / f"rows.{ending}"
    write(path, rows, columns)
    size = path.stat().st_size / MIB
    made = timed(
        f"upload of {rows:,} x {columns} as {ending}",
        lambda: at.admin.upload(path, metadata(ending, columns)),
        lambda _: f"{size:.0f} MiB",
    )
    path.unlink()
    return str(made["id"])


def run(at: Scene, body: dict[str, Any], what: str) -> str:
    """Run a job to its end. Returns its id. Raises RuntimeError where it did not succeed."""

    def ended() -> dict[str, Any]:
        made = at.analyst.submit(body)["id"]
        return at.analyst.wait(made, timeout=PATIENCE)

    found = timed(what, ended, lambda found: f"{found['progress']['of']:,} steps")
    if found["status"] != "succeeded":
        raise RuntimeError(f"the job {found['status']}: {found['error']}")
    return str(found["id"])


def large_dataset(at: Scene, rows: int, columns: int) -> None:
    """Both formats, and two samplers."""
    dataset = upload(at, "csv", rows, columns)
    upload(at, "parquet", rows, columns)
    for algorithm, steps in (("dp_penalty_component", 200), ("dp_hmc", 20)):
        run(at, job(dataset, columns, algorithm, steps, 2), f"{algorithm} on them, 2 chains")
    made = at.analyst.submit(job(dataset, columns, "dp_hmc", 100, 2))["id"]
    while (seen := at.analyst.job(made))["status"] not in FINAL and seen["progress"]["step"] == 0:
        time.sleep(0.1)
    at.analyst.cancel(made)
    timed("dp_hmc, from cancel to cancelled", lambda: at.analyst.wait(made))


def long_chain(at: Scene, draws: int) -> None:
    """A chain on a small dataset, and the ways to fetch it."""
    columns = 10
    dataset = upload(at, "csv", 1000, columns)
    made = run(at, job(dataset, columns, "dp_penalty", draws, 1), f"a chain of {draws:,} draws")
    for name, kind in MEDIA_TYPES.items():
        timed(f"the chain as {name}", lambda kind=kind: fetched(at, made, kind), size_of)
    timed("its summary", lambda: at.analyst.summary(made))


def fetched(at: Scene, made: str, kind: str) -> int:
    """Read a chain and forget it. Returns its bytes."""
    headers = {"Accept": kind, "Authorization": at.analyst._http.headers["Authorization"]}
    url = f"{at.service.url}/v1/jobs/{made}/chain"
    with httpx.stream("GET", url, headers=headers, timeout=PATIENCE) as answer:
        answer.raise_for_status()
        return sum(len(piece) for piece in answer.iter_raw())


def size_of(number: int) -> str:
    """Bytes in words."""
    return f"{number / MIB:.1f} MiB"


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=50)
    parser.add_argument("--draws", type=int, default=100_000)
    parser.add_argument("--only", choices=("dataset", "chain"))
    given = parser.parse_args(arguments)
    sys.stdout.write("| what | time | most memory of a process | |\n|---|---|---|---|\n")
    with scene() as at:
        if given.only != "chain":
            large_dataset(at, given.rows, given.columns)
        if given.only != "dataset":
            long_chain(at, given.draws)


if __name__ == "__main__":
    main()
