"""Run by test_memory.py in a process of its own: what a large upload and a job on it take.

python -m tests.worker.large FOLDER ROWS COLUMNS. Prints, in bytes, the most memory beyond what the
process held before: of the upload and of the job; and what was declared for the job.
"""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from app.services.accounts.keys import authenticate
from app.services.datasets.uploads import Definition, create
from app.services.jobs.kinds.base import BASE_BYTES
from app.services.jobs.kinds.chains import ChainJob
from app.storage.columns import schema_of
from app.storage.rows import DatasetRow
from benchmarks.size import job, metadata, write
from dpmcmc.inputs.options import DpPenaltyComponentOptions
from dpmcmc.inputs.spec import JobSpec, ModelSpec, PrivacySpec
from dpmcmc.planner import plan
from tests.api.support import ADMIN, House, house_in

STEPS, CHAINS = 50, 2


def held(what: str) -> int:
    """VmRSS or VmHWM of this process, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(f"{what}:"))


def most(act: Callable[[], object]) -> int:
    """The most memory beyond the present that it takes."""
    Path("/proc/self/clear_refs").write_text("5")
    before = held("VmRSS")
    act()
    return held("VmHWM") - before


def take(house: House, path: Path, columns: int, found: list[DatasetRow]) -> None:
    """Take the file in, as the API does once it has received it, and note the dataset."""
    admin, told = authenticate(house.services, ADMIN), metadata("large", columns)
    if admin is None:
        raise LookupError("admin")
    definition = Definition(
        name="large", description="", columns=told["columns"], **told["privacy"]
    )
    with path.open("rb") as file:
        found.append(create(house.services, admin, definition, [file]).dataset.row)


def declared(row: DatasetRow, body: dict) -> int:
    """What a job is said to need beside the program."""
    spec = JobSpec(
        model=ModelSpec(family="logistic", formula=body["model"]["formula"]),
        sampler=DpPenaltyComponentOptions(num_steps=STEPS, num_chains=CHAINS),
        privacy=PrivacySpec(**body["privacy"]),
    )
    schema = schema_of(row)
    return ChainJob(spec).memory_bytes(schema, plan(schema, spec)) - BASE_BYTES


def main(folder: Path, rows: int, columns: int) -> None:
    """The same on few rows first: what is loaded once belongs to no upload and no job."""
    with house_in(folder) as house:
        analyst = house.user("analyst")
        for number in (1000, rows):
            path = folder / f"{number}.csv"
            write(path, number, columns)
            found: list[DatasetRow] = []
            upload = most(partial(take, house, path, columns, found))
            body = job(str(found[0].id), columns, "dp_penalty_component", STEPS, CHAINS)
            made = analyst.post("/v1/jobs", json=body).json()["id"]
            run = most(partial(house.run, made))
            if analyst.get(f"/v1/jobs/{made}").json()["status"] != "succeeded":
                raise RuntimeError("the job did not succeed")
        sys.stdout.write(f"\n{upload} {run} {declared(found[0], body)}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
