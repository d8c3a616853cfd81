"""Names of columns through the boundary: any letters, those of parameters and of dimensions too."""

import csv
import io
import math
from typing import Any

import numpy as np
import pyarrow
import pytest
import xarray
from pyarrow import parquet

from dpmcmc.client.released import posterior_of
from tests.api.support import METADATA, Caller, House

ROWS = 2000
MICRO, MU, RING, WIDE = "\u00b5g", "\u03bcg", "\u212b", "\uff58"
NAMES = (MICRO, MU, "log_sigma", "chain", "draw", "Intercept", RING, WIDE, "a/b", "y")
SLOPES = dict(zip(NAMES[:-1], (2.0, -3.0, 1.0, 0.5, -0.5, 1.5, 0.0, 0.0, 0.0), strict=True))


def rows() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(2)
    made = {name: rng.uniform(0, 1, ROWS).round(6) for name in NAMES[:-1]}
    made["y"] = sum(SLOPES[name] * values for name, values in made.items())
    made["y"] = (made["y"] + 0.3 * rng.standard_normal(ROWS)).round(6)
    return made


def as_file(kind: str) -> bytes:
    if kind == "parquet":
        out = pyarrow.BufferOutputStream()
        parquet.write_table(pyarrow.table(rows()), out)
        return out.getvalue().to_pybytes()
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(NAMES)
    writer.writerows(zip(*rows().values(), strict=True))
    return text.getvalue().encode()


@pytest.fixture(params=["csv", "parquet"])
def dataset(house: House, request: pytest.FixtureRequest) -> str:
    numbers = [{"name": name, "type": "number", "lower": 0, "upper": 1} for name in NAMES[:-1]]
    columns = [*numbers, {"name": "y", "type": "number", "lower": -10, "upper": 10}]
    privacy = {"neighbouring": "replace_one", "epsilon": 2e3, "delta": 1e-6}
    answer = house.admin.upload(
        as_file(request.param), METADATA | {"columns": columns, "privacy": privacy}
    )
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def released(house: House, analyst: Caller, dataset: str, **model: Any) -> str:
    body = {
        "dataset": dataset,
        "model": {"family": "linear", **model},
        "privacy": {"epsilon": 500.0, "delta": 1e-6},
    }
    plan = analyst.post("/v1/plans", json=body)
    assert plan.status_code == 200, plan.text
    job = analyst.post("/v1/jobs", json=body)
    assert job.status_code == 202, job.text
    house.run(job.json()["id"])
    return f"/v1/jobs/{job.json()['id']}"


FORMULA = f"y ~ {MICRO} + {MU} + log_sigma + chain + draw + Intercept"
CALLED = ("Intercept", MICRO, MU, "log_sigma_", "chain_", "draw_", "Intercept_", "log_sigma")


def test_every_answer_and_file_has_each_parameter_once(house: House, dataset: str) -> None:
    analyst = house.user("analyst")
    prior = {f"{name}_": {"kind": "normal", "loc": 0, "scale": 10} for name in ("draw", "chain")}
    prior[MICRO] = {"kind": "normal", "loc": 0, "scale": 10}
    job = released(house, analyst, dataset, formula=FORMULA, prior=prior)
    summary = {p["name"]: p for p in analyst.get(f"{job}/summary").json()["parameters"]}
    assert tuple(summary) == CALLED
    for name, slope in SLOPES.items():
        if name in FORMULA.split():
            own = name if name in (MICRO, MU) else f"{name}_"
            assert summary[own]["mean"] == pytest.approx(slope, abs=0.15)
    assert summary["log_sigma"]["mean"] == pytest.approx(math.log(0.3), abs=0.1)

    def chain(kind: str) -> bytes:
        return analyst.get(f"{job}/chain", headers={"Accept": kind}).content

    told = analyst.get(f"{job}/chain").json()
    assert tuple(told["parameters"]) == CALLED
    header = next(csv.reader(io.StringIO(chain("text/csv").decode())))
    assert header == ["chain", "draw", "warmup", *CALLED]
    table = parquet.read_table(pyarrow.BufferReader(chain("application/vnd.apache.parquet")))
    assert table.column_names == header
    tree = xarray.load_datatree(io.BytesIO(chain("application/x-netcdf")), engine="h5netcdf")
    assert tuple(tree["posterior"].data_vars) == CALLED
    for name in CALLED:
        here = float(tree["posterior"][name].mean())
        assert here == pytest.approx(summary[name]["mean"], rel=1e-9)
        assert np.mean(table[name].to_numpy()) == pytest.approx(here, rel=1e-9)
    given = dict.fromkeys(FORMULA.split()[2::2], 0.5)
    question = {
        "num_draws": 400,
        "prior": {MU: {"kind": "normal", "loc": -1.45, "scale": 1e-5}},
        "given": [given, given | {MU: 1.0}, given | {MICRO: 1.0}],
        "contrasts": [{MICRO: 1}, {MU: 1}, {"log_sigma_": 1}, {"log_sigma": 1}],
    }
    answer = analyst.post(f"{job}/posteriors", json=question)
    assert answer.status_code == 200, answer.text
    means = [one["mean"] for one in answer.json()["contrasts"]]
    assert means[1] == pytest.approx(-2.9, abs=0.001)  # of the prior, per half of the range
    assert means[2] == pytest.approx(1.0, abs=0.15)
    base, more, other = (one["expected"]["mean"] for one in answer.json()["predictions"])
    assert more - base == pytest.approx(-1.45, abs=0.001)
    assert other - base == pytest.approx(0.5 * means[0], abs=0.05)
    typed = posterior_of(answer.json())
    assert tuple(typed.parameters) == CALLED
    assert tuple(typed.to_arviz()["posterior"].data_vars) == CALLED


@pytest.mark.parametrize("dataset", ["csv"], indirect=True)
@pytest.mark.parametrize("name", [MICRO, RING, WIDE, "a/b"])
def test_calls_read_the_column_that_they_name(house: House, dataset: str, name: str) -> None:
    analyst = house.user("analyst")
    written = name if name != "a/b" else "`a/b`"
    model = {"family": "linear", "formula": f"y ~ log(1 + {written}) + poly({written}, 2, raw=T)"}
    body = {"dataset": dataset, "model": model, "privacy": {"epsilon": 100, "delta": 1e-6}}
    answer = analyst.post("/v1/plans", json=body)
    assert answer.status_code == 200, answer.text
    parts = ["Intercept", f"log(1 + {written})", name, f"I({written} ** 2)", "log_sigma"]
    assert answer.json()["parameters"] == parts
    for option in ("raw=1", "raw='yes'", "raw=true", "degree=3", "simple=T"):
        model["formula"] = f"y ~ poly({written}, 2, {option})"
        refused = analyst.post("/v1/plans", json=body)
        assert refused.status_code == 422
        (error,) = refused.json()["errors"]
        assert error["pointer"] == "/model/formula"
        assert option.split("=")[0] in error["message"]
