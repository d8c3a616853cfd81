"""Whatever way draws are taken home, ArviZ says of them what the service and the library say."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpmcmc import BinaryColumn, NumberColumn, Schema, sample
from dpmcmc.inputs.options import DpPenaltyOptions
from tests.api.support import Caller, House, job_of
from tests.sources import Seeded

KINDS = {
    "csv": "text/csv",
    "parquet": "application/vnd.apache.parquet",
    "nc": "application/x-netcdf",
    "json": "application/json",
}
# reads each file as a user of ArviZ would, 0.x or 1.x, and prints its summary of it
READ = """
import json, sys
import arviz, numpy, pandas

def of_draws(draws):
    return arviz.from_dict(draws if arviz.__version__[0] == "0" else {"posterior": draws})

def tree(path):
    if path.endswith(".nc"):
        return arviz.from_netcdf(path)
    if path.endswith(".json"):
        told = json.load(open(path))
        draws = numpy.array(told["draws"])[:, told["num_warmup"]:]
        return of_draws({name: draws[:, :, k] for k, name in enumerate(told["parameters"])})
    frame = pandas.read_csv(path) if path.endswith(".csv") else pandas.read_parquet(path)
    frame = frame[~frame["warmup"].astype(bool)]
    names = [name for name in frame.columns if name not in ("chain", "draw", "warmup")]
    chains = frame["chain"].nunique()
    return of_draws({n: frame[n].to_numpy().reshape(chains, -1) for n in names})

for path in sys.argv[1:]:
    read = tree(path)
    summary = arviz.summary(read, round_to="none").to_dict("index")
    tail = arviz.ess(read, method="tail", prob=(0.05, 0.95))  # 1.x has other ends unless asked
    tail = tail["posterior"] if "posterior" in tail else tail
    for name, said in summary.items():
        said["ess_tail"] = float(tail[name])
        for share in (5, 25, 50, 75, 95):
            said[f"q{share:02}"] = float(numpy.quantile(read["posterior"][name], share / 100))
    print(json.dumps(summary))
"""
SAID = ("mean", "sd", "q05", "q25", "q50", "q75", "q95", "r_hat", "ess_bulk", "ess_tail")


def summaries_of(*files: Path) -> list[dict[str, dict[str, float]]]:
    command = [sys.executable, "-W", "ignore", "-c", READ, *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def agree(read: dict[str, dict[str, float]], told: list[dict[str, Any]]) -> None:
    assert list(read) == [one["name"] for one in told]
    for one in told:
        for what in SAID:
            assert read[one["name"]][what] == pytest.approx(one[what], rel=1e-9), (one, what)


# with a seed, for a tail's ESS may differ by version where many draws are equal to a quantile
@pytest.mark.slow
@pytest.mark.usefixtures("known_noise")
@pytest.mark.parametrize("scale", ["original", "design"])
@pytest.mark.parametrize(
    "sampler",
    [
        {"algorithm": "dp_penalty", "num_steps": 400, "num_chains": 3, "num_warmup": 100},
        {"algorithm": "noisy_quadratic", "num_steps": 300, "num_chains": 2},
    ],
    ids=["chain", "release"],
)
def test_every_file_of_the_service_says_what_its_summary_says(
    house: House, tmp_path: Path, sampler: dict[str, Any], scale: str
) -> None:
    analyst = house.user("analyst")
    answer = analyst.post("/v1/jobs", json=job_of(house.dataset()) | {"sampler": sampler})
    assert answer.status_code == 202, answer.text
    job = answer.json()["id"]
    house.run(job)
    told = analyst.get(f"/v1/jobs/{job}/summary?scale={scale}").json()["parameters"]
    files = [saved(analyst, job, kind, scale, tmp_path) for kind in KINDS]
    for found in summaries_of(*files):
        agree(found, told)


def saved(analyst: Caller, job: str, kind: str, scale: str, folder: Path) -> Path:
    path = folder / f"chain.{kind}"
    headers = {"Accept": KINDS[kind]}
    path.write_bytes(analyst.get(f"/v1/jobs/{job}/chain?scale={scale}", headers=headers).content)
    return path


@pytest.mark.longer
@pytest.mark.parametrize(
    "sampler", [None, DpPenaltyOptions(num_steps=400, num_chains=2, num_warmup=100)]
)
def test_a_tree_and_a_file_of_the_library_say_what_its_summary_says(
    tmp_path: Path, sampler: Any
) -> None:
    rng = np.random.default_rng(1)
    dose = rng.uniform(0, 10, 4000)
    cured = np.where(rng.random(4000) < 1 / (1 + np.exp(2 - 0.5 * dose)), "yes", "no")
    columns = (
        NumberColumn(name="dose", lower=0, upper=10),
        BinaryColumn(name="cured", categories=("no", "yes")),
    )
    schema = Schema(columns=columns, rows=4000)
    data: Any = {"dose": dose, "cured": cured}
    accepted = {"accept_low_quality": True, "random": Seeded(1)}
    fit = sample("cured ~ dose", data, schema, epsilon=4, sampler=sampler, **accepted)
    path = tmp_path / "fit.nc"
    fit.to_datatree().to_netcdf(path, engine="h5netcdf")
    (found,) = summaries_of(path)
    agree(found, [{k: getattr(one, k) for k in ("name", *SAID)} for one in fit.summary()])
