"""What a Dask cluster on this machine takes for a release, and that kills change no bit of it.

    python -m benchmarks.cluster [--rows 4e6] [--workers 1 2] [--kills 20]

Makes a dataset as benchmarks.streams does, and releases a linear regression of all of its columns
with the same random numbers: in one process on one thread, and on clusters of so many workers, of
one core each. Told are seconds, and the seconds of the processor that the workers had a second.
Then two workers are killed in turn while releases are under way, so many times in all. Exits with 1
where a bit differs.
"""

import argparse
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from benchmarks.streams import DATASET, FORMULAS, make, schema_of, stored
from tests.sources import Seeded
from tests.storage.clusters import Running, running

PAUSE_SECONDS = 12.0  # a worker takes some seconds to begin


def release(folder: Path, rows: int, spread: Any = None) -> np.ndarray:
    """Return the draws of a release."""
    from app.storage.columns import columns_json
    from app.storage.rows import DatasetRow
    from dpmcmc import JobSpec, ModelSpec, PrivacySpec, plan
    from dpmcmc.base.private import Permit
    from dpmcmc.fit.run import run
    from dpmcmc.privacy.event_json import digest

    schema = schema_of(rows)
    row = DatasetRow(
        id=DATASET,
        columns=columns_json(schema.columns),
        rows=rows,
        neighbouring="replace_one",
        wrapped_key=(folder / "wrapped").read_bytes(),
    )
    model = ModelSpec(family="linear", formula=FORMULAS["10 columns"])
    planned = plan(schema, JobSpec(model=model, privacy=PrivacySpec(epsilon=1.0, delta=1e-9)))
    permit = Permit(subject=str(DATASET), event_digest=digest(planned.event))
    private = stored(folder).load(row, spread=spread)
    blocks = run(schema, planned.spec, private, permit, random=Seeded(1))
    return np.concatenate([block.value for block in blocks], axis=1)


def used(made: Running) -> float:
    """Seconds of the processor that the workers have had."""
    children = [c for w in made.workers for c in psutil.Process(w.pid).children(recursive=True)]
    return sum(sum(child.cpu_times()[:2]) for child in children)


def main() -> int:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, default=4e6)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--kills", type=int, default=20)
    given = parser.parse_args()
    from app.storage import files
    from dpmcmc.inputs import blocks
    from dpmcmc.releases import design_rows

    blocks.THREADS, files.LARGEST_HELD, design_rows.HELD_NUMBERS = 1, 0, 0
    rows, wrong = int(given.rows), 0
    with tempfile.TemporaryDirectory(prefix="dpmcmc-cluster-") as name:
        folder = Path(name)
        datasets = folder / "datasets"
        datasets.mkdir()
        make(datasets, rows)
        began = time.perf_counter()
        wanted = release(datasets, rows)
        print(f"one process: {time.perf_counter() - began:.1f} s", flush=True)
        for workers in given.workers:
            with running(folder, workers) as made:
                before, began = used(made), time.perf_counter()
                found = release(datasets, rows, made.cluster.spread("benchmark"))
                taken = time.perf_counter() - began
                busy = used(made) - before
            same = bool((found == wanted).all())
            wrong += not same
            told = f"{taken:.1f} s, {busy / taken:.2f} cores, the same bits: {same}"
            print(f"{workers} workers: {told}", flush=True)
        kills = releases = 0
        with running(folder, 2) as made, ThreadPoolExecutor(1) as pool:
            while kills < given.kills:
                asked = pool.submit(release, datasets, rows, made.cluster.spread("benchmark"))
                while not asked.done() and kills < given.kills:
                    time.sleep(PAUSE_SECONDS)
                    made.kill(made.workers[kills % 2])
                    kills += 1
                releases += 1
                wrong += not bool((asked.result() == wanted).all())
        print(f"{kills} kills in {releases} releases: {wrong} differ", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
