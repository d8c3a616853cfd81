"""The R package: checked as CRAN does, and run against a service beside the Python client.

Needs R and its packages (Debian's, as .ci/run installs them). `./dev r` runs this alone.
"""

import gzip
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.local_service import Service
from dpmcmc.client import Client
from tests.conftest import ROOT, absent
from tests.docs.pages import blocks
from tests.e2e.conftest import service  # noqa: F401 - a fixture

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

PACKAGE = ROOT / "clients" / "r"
NEEDED = ("httr2", "cli", "posterior", "openssl", "testthat", "knitr", "rmarkdown", "jsonlite")
FORMULA = "any_visit ~ chronic + sex + income"
ROWS = 20_000
OFFLINE = {  # what asks the network, or programs that only make the manual
    "_R_CHECK_CRAN_INCOMING_": "false",
    "_R_CHECK_SYSTEM_CLOCK_": "false",
    "_R_CHECK_RD_VALIDATE_RD2HTML_": "false",
    "_R_CHECK_RD_MATH_RENDERING_": "false",
}


def run(*words: object, folder: Path, **variables: str) -> str:
    """What a program prints. It must end well."""
    done = subprocess.run(
        [str(word) for word in words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        env={**os.environ, "LC_ALL": "C.UTF-8", **OFFLINE, **variables},
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def r(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library with the package, built without a service. Beside it lies what was built."""
    if not shutil.which("Rscript"):
        absent("R")
    folder: Path = tmp_path_factory.mktemp("r")
    found = "cat(sapply(commandArgs(TRUE), requireNamespace, quietly = TRUE))"
    said = run("Rscript", "-e", found, *NEEDED, folder=folder)
    if "FALSE" in said:
        absent(f"one of R's packages {', '.join(NEEDED)}")
    run("R", "CMD", "build", PACKAGE, folder=folder)
    library = folder / "library"
    library.mkdir()
    run("R", "CMD", "INSTALL", "-l", library, built(folder), folder=folder)
    return library


def built(folder: Path) -> Path:
    (package,) = folder.glob("dpmcmcR_*.tar.gz")
    return package


def upload_clinic(client: Client, folder: Path) -> None:
    """Rows of which mass is 30 + age / 2 on average, and whose columns have names of all sorts."""
    random = np.random.default_rng(1)
    age, dose = random.uniform(20, 80, ROWS), random.uniform(0, 10, ROWS)
    kind = np.array(["a", "b", "c"])[random.integers(0, 3, ROWS)]
    rows = {
        "cured": np.where(random.random(ROWS) < 1 / (1 + np.exp(2 - 0.4 * dose)), "yes", "no"),
        "mass": 30 + 0.5 * age + random.normal(0, 5, ROWS),
        "age": age,
        "dose": dose,
        "kind": kind,
        "body mass": random.uniform(15, 40, ROWS),
        "T": random.uniform(-1, 1, ROWS),
        "größe": random.uniform(140, 200, ROWS),
        "day": np.datetime64("2020-01-01") + random.integers(0, 365, ROWS),
    }
    numbers = {"mass": (0, 120), "age": (20, 80), "dose": (0, 10), "body mass": (15, 40)}
    numbers |= {"T": (-1, 1), "größe": (140, 200)}
    columns: list[dict[str, Any]] = [
        {"name": name, "type": "number", "lower": low, "upper": high}
        for name, (low, high) in numbers.items()
    ]
    columns += [
        {"name": "cured", "type": "binary", "categories": ["no", "yes"]},
        {"name": "kind", "type": "category", "categories": ["a", "b", "c"]},
        {"name": "day", "type": "date", "lower": "2020-01-01", "upper": "2020-12-31"},
    ]
    table = folder / "clinic.csv"
    lines = [",".join(rows), *(",".join(map(str, row)) for row in zip(*rows.values(), strict=True))]
    table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    privacy = {"neighbouring": "replace_one", "epsilon": 8.0, "delta": 1e-6}
    client.upload(table, {"name": "clinic", "privacy": privacy, "columns": columns})


def upload_visits(client: Client, folder: Path) -> None:
    data = ROOT / "experiments" / "data"
    table = folder / "visits.csv"
    table.write_bytes(gzip.decompress((data / "randhie.csv.gz").read_bytes()))
    client.upload(table, {**json.loads((data / "randhie.json").read_text()), "name": "visits"})


def by_python(client: Client) -> dict[str, Any]:
    """A job of the Python client, with all that R is to get of it as well."""
    visits = client.dataset("visits")
    body = {
        "dataset": visits["id"],
        "model": {"family": "logistic", "formula": FORMULA},
        "privacy": {"epsilon": 1, "delta": visits["privacy"]["delta"]},
    }
    fit = client.fit(client.submit({**body, "accept_low_quality": True})["id"])
    plan = client.plan(body)  # after the job, whose whitening R's plan can use as well
    posterior = fit.to_arviz()["posterior"]
    rows = [{"chronic": chronic, "sex": "male", "income": 5000} for chronic in (1, 5, 20)]
    prior = {"chronic": {"kind": "laplace", "scale": 0.5}}
    free = client.posteriors(fit.job, {"prior": prior, "num_draws": 4000})
    predictions = client.posteriors(fit.job, {"given": rows})["predictions"]
    asked = {"kind": "predictive_check", "job": fit.job}
    privacy = {"epsilon": 0.2, "delta": visits["privacy"]["delta"]}
    check = client.submit({"dataset": visits["id"], "task": asked, "privacy": privacy})["id"]
    client.wait(check)
    return {
        "job": fit.job,
        "check": {"job": check, "result": client.result(check)},
        "formula": FORMULA,
        "plan": plan,
        "summary": dict(fit.summary),
        "draws": {name: posterior[name].values.tolist() for name in posterior.data_vars},
        "free": {"summary": free["summary"]},
        "predictions": [one["expected"]["mean"] for one in predictions],
    }


@pytest.fixture(scope="module")
def asked(
    service: Service,  # noqa: F811
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, str]:
    """The environment of R's tests: the service, an analyst's key, and what Python got."""
    folder: Path = tmp_path_factory.mktemp("asked")
    with Client(service.url, service.admin_key) as admin:
        upload_visits(admin, folder)
        upload_clinic(admin, folder)
        key = admin.create_user("Ada", "analyst")["key"]
    with Client(service.url, key) as client:
        answers = folder / "python.json"
        answers.write_text(json.dumps(by_python(client)))
    return {
        "DPMCMC_TEST_URL": service.url,
        "DPMCMC_TEST_KEY": key,
        "DPMCMC_TEST_PYTHON": str(answers),
    }


def test_check_is_clean_and_no_test_is_skipped(r: Path, asked: dict[str, str]) -> None:
    folder = r.parent
    check = ("R", "CMD", "check", "--as-cran", "--no-manual", built(folder))
    said = run(*check, folder=folder, **asked)
    assert "Status: OK" in said, said
    printed = (folder / "dpmcmcR.Rcheck" / "tests" / "testthat.Rout").read_text()
    (skipped, passed) = re.findall(r"FAIL 0 \| WARN \d+ \| SKIP (\d+) \| PASS (\d+)", printed)[-1]
    assert int(skipped) == 0, printed
    assert int(passed) > 150


@pytest.mark.longer
def test_guide_runs_as_printed(r: Path, asked: dict[str, str], tmp_path: Path) -> None:
    script = tmp_path / "guide.R"
    script.write_text("\n".join(blocks("from_r.md", "r")))
    url, key = asked["DPMCMC_TEST_URL"], asked["DPMCMC_TEST_KEY"]
    said = run("Rscript", script, folder=tmp_path, R_LIBS=str(r), DPMCMC_URL=url, DPMCMC_KEY=key)
    for shown in ("expected width", "eliable", "It cost epsilon 1", "log_bayes_factor"):
        assert shown in said, said
    assert "remaining budget does not allow this job" in said
    assert key not in said


def without_output(vignette: str) -> list[str]:
    """Prose and code of a page that was run; what was printed has noise in it."""
    return [line for line in vignette.splitlines() if line and not line.startswith("#>")]


def test_vignette_is_that_of_its_source(r: Path, asked: dict[str, str], tmp_path: Path) -> None:
    name = "dpmcmcR.Rmd"
    shutil.copy(PACKAGE / "vignettes" / f"{name}.orig", tmp_path)
    knit = f"invisible(knitr::knit('{name}.orig', '{name}', quiet = TRUE))"
    run("Rscript", "-e", knit, folder=tmp_path, R_LIBS=str(r), **asked)
    kept = ROOT / "var" / "r"
    kept.mkdir(parents=True, exist_ok=True)
    shutil.copy(tmp_path / name, kept)  # to be put in place of the old one where it has changed
    new, old = (tmp_path / name).read_text(), (PACKAGE / "vignettes" / name).read_text()
    assert without_output(new) == without_output(old)
    assert asked["DPMCMC_TEST_KEY"] not in old
