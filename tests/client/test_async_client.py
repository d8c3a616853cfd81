"""The async client, and typed results, against a service that runs."""

import asyncio
import inspect
import io
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.local_service import Service
from dpmcmc.client import (
    ApiError,
    AsyncClient,
    Client,
    Fit,
    Inference,
    Statistic,
    Summaries,
    Synthetic,
    Task,
    UnclearError,
)
from tests.api.support import ADMIN, CSV, METADATA, job_of, running
from tests.docs.pages import blocks


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running(tmp_path_factory.mktemp("service"), {"DPMCMC_WORKERS": "1"}) as started:
        yield started[1]


@pytest.fixture(scope="module")
def told(service: Service, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """An analyst's key and a dataset."""
    rows = tmp_path_factory.mktemp("rows") / "rows.csv"
    rows.write_bytes(CSV)
    with Client(service.url, ADMIN) as admin:
        return admin.create_user("ann", "analyst")["key"], admin.upload(rows, METADATA)["id"]


def body(dataset: str, **changes: Any) -> dict[str, Any]:
    sampler = {"algorithm": "noisy_quadratic", "num_steps": 300}
    return job_of(dataset) | {"sampler": sampler, "spend": "all"} | changes


@pytest.mark.longer
def test_an_address_for_mail_is_set_and_taken_back(service: Service, told: tuple[str, str]) -> None:
    async def changed() -> tuple[dict[str, Any], dict[str, Any]]:
        async with AsyncClient(service.url, told[0]) as client:
            return await client.set_email("ann@example.org"), await client.me()

    given, me = asyncio.run(changed())
    assert given["email"] == me["email"] == "ann@example.org"
    with Client(service.url, told[0]) as client:
        assert client.set_email(None)["email"] is None
        assert (client.me()["name"], client.me()["email"]) == ("ann", None)


def test_dummy_rows_are_the_same_by_both_clients(service: Service, told: tuple[str, str]) -> None:
    key, dataset = told

    async def asked() -> dict[str, list[Any]]:
        async with AsyncClient(service.url, key) as client:
            return await client.dummy("people", 30, seed=2)

    with Client(service.url, key) as client:
        rows = client.dummy(dataset, 30, seed=2)
    assert rows == asyncio.run(asked())
    assert [len(values) for values in rows.values()] == [30, 30, 30]
    assert rows["income"][0] in ("<=50K", ">50K")


def test_many_jobs_are_waited_for_at_once(service: Service, told: tuple[str, str]) -> None:
    key, dataset = told

    async def work() -> list[Fit]:
        async with AsyncClient(service.url, key) as asked:
            plan = await asked.plan(body(dataset))
            assert plan["affordable"]
            made = [await asked.submit(body(dataset)) for _ in range(3)]
            fits = await asyncio.gather(*(asked.fit(one["id"]) for one in made))
            events = [event async for event in asked.events(made[0]["id"])]
            assert events[-1].data["status"] == "succeeded"
            listed = [one["id"] async for one in asked.jobs()]
            assert {one["id"] for one in made} <= set(listed)
            assert (await asked.budget(dataset))["jobs"] >= 3
            assert await asked.budget("people") == await asked.budget(dataset)
            assert (await asked.plan(body("people")))["epsilon"] == pytest.approx(plan["epsilon"])
            with pytest.raises(UnclearError, match="Did you mean people"):
                await asked.plan(body("peopel"))
            assert [one["id"] async for one in asked.datasets()] == [dataset]
            again = await asked.posteriors(made[0]["id"], {"num_draws": 10})
            assert again["cost"]["epsilon"] == 0.0
            with pytest.raises(ApiError, match="not_found"):
                await asked.job("00000000-0000-4000-8000-000000000000")
            return fits

    for fit in asyncio.run(work()):
        assert list(fit.parameters) == ["Intercept", "age", "sex[Male]"]
        assert fit.epsilon == pytest.approx(0.5, rel=1e-3)


QUESTION = {
    "prior": {"age": {"kind": "normal", "scale": 1.0}},
    "num_draws": 400,
    "given": [{"age": 40, "sex": "Male"}],
    "contrasts": [{"age": 2.0}],
    "comparisons": [
        {"given": {"age": 60, "sex": "Male"}, "against": {"age": 30, "sex": "Male"}},
    ],
    "effects": [{"covariate": "age", "given": [{"age": 40, "sex": "Male"}]}],
    "null": [{"age": 0.0}],
}


def test_a_posterior_is_typed_and_goes_to_arviz(service: Service, told: tuple[str, str]) -> None:
    key, dataset = told
    with Client(service.url, key) as asked:
        job = asked.submit(body(dataset))["id"]
        asked.wait(job)
        found = asked.posterior(job, QUESTION)
        assert list(found.parameters) == ["Intercept", "age", "sex[Male]"]
        age, (contrast,) = found.parameters["age"], found.contrasts
        assert age.q05 < age.mean < age.q95
        assert (contrast.weights, found.scale) == ({"age": 2.0}, "original")
        assert contrast.spread.mean == pytest.approx(2.0 * age.mean)
        assert (found.priors["age"].kind, found.priors["age"].scale) == ("normal", 1.0)
        (prediction,), (comparison,), (effect,) = (
            found.predictions,
            found.comparisons,
            found.effects,
        )
        assert prediction.expected is not None
        assert 0.0 < prediction.expected.mean < 1.0
        assert (prediction.response, prediction.probabilities) == (None, None)
        assert comparison.predictor.mean == pytest.approx(30.0 * age.mean)
        assert comparison.ratio is not None
        assert (comparison.multiplies, effect.covariate, effect.value) == ("odds", "age", None)
        assert found.bayes_factors[0].null == {"age": 0.0}
        assert found.verdict is not None
        assert "Bayes factors" in str(found)
        tree = found.to_arviz()
        assert dict(tree["posterior"].sizes) == {"chain": 1, "draw": 400}
        drawn = tree["posterior"]["age"].to_numpy()
        assert drawn.mean() == pytest.approx(age.mean)
        assert np.std(drawn, ddof=1) == pytest.approx(age.sd)
        assert tree.attrs["verdict"] == found.verdict.status


SUM = {"kind": "statistic", "column": "age", "noise": "gaussian"}
TASKS = {
    Summaries: {"kind": "summaries", "statistics": [{"kind": "mean", "column": "age"}]},
    Synthetic: {"kind": "synthetic", "columns": ["sex"], "tables": 3},
    Statistic: SUM,
}


def test_tasks_and_inferences_are_typed(service: Service, told: tuple[str, str]) -> None:
    key, dataset = told
    privacy = {"epsilon": 0.5, "delta": 1e-6}
    family = {"family": "normal_mean", "options": {"sd": 13}, "draws": 200}
    family |= {"prior": {"kind": "uniform", "lower": 17, "upper": 90}}

    async def work() -> tuple[list[Task], Inference, Inference]:
        async with AsyncClient(service.url, key) as asked:
            made = [
                await asked.submit({"dataset": dataset, "task": task, "privacy": privacy})
                for task in TASKS.values()
            ]
            found = [await asked.task(one["id"], level=0.8) for one in made]
            short = await asked.infer(made[2]["id"], family)
        with Client(service.url, key) as plain:
            assert plain.task(made[0]["id"], level=0.8) == found[0]

            def put_off(job: str, question: Any) -> Any:
                later_on = {"Prefer": "respond-async"}
                path = f"/v1/jobs/{job}/inferences"
                return plain._json("POST", path, json=question, headers=later_on)

            plain.inference = put_off  # type: ignore[method-assign]
            long = plain.infer(made[2]["id"], family)
        return found, short, long

    found, short, long = asyncio.run(work())
    assert [type(one) for one in found] == list(TASKS)
    summaries, synthetic, statistic = found
    assert isinstance(summaries, Summaries)
    assert summaries.level == 0.8
    assert summaries.epsilon == pytest.approx(0.5, rel=1e-3)
    (mean, sd) = summaries.estimates
    assert (mean.name, sd.name) == ("mean of age", "sd of age")
    assert mean.lower < mean.estimate < mean.upper
    assert "mean of age" in str(summaries)
    assert isinstance(synthetic, Synthetic)
    assert (synthetic.tables, synthetic.columns) == (3, ("sex",))
    assert len(synthetic.marginals[0].counts) == len(synthetic.levels["sex"]) == 2
    assert isinstance(statistic, Statistic)
    assert len(statistic.released.values) == 1
    for one in (short, long):
        assert one.parameter.q05 < one.parameter.mean < one.parameter.q95
        tree = one.to_arviz()["posterior"]
        assert float(tree[one.parameter.name].mean()) == pytest.approx(one.parameter.mean)
        assert tree.sizes["draw"] == len(one.draws[0])


def test_the_guide_asks_from_python(service: Service, told: tuple[str, str]) -> None:
    (code,) = blocks("command_line.md", "python")
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "DPMCMC_URL": service.url, "DPMCMC_KEY": told[0]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "sex[Male]" in ran.stdout


def test_datasets_are_named_in_place_of_their_ids(service: Service, told: tuple[str, str]) -> None:
    key, dataset = told
    with Client(service.url, key) as asked:
        assert asked.dataset("people")["id"] == dataset
        assert asked.plan(body("people"))["epsilon"] == asked.plan(body(dataset))["epsilon"]
        for wrong in ("peopel", dataset[:8], ""):  # how an id begins may be another's name
            with pytest.raises(UnclearError):
                asked.budget(wrong)


def test_a_fit_is_typed_and_goes_to_arviz(service: Service, told: tuple[str, str]) -> None:
    key, dataset = told
    with Client(service.url, key) as asked:
        fit = asked.fit(asked.submit(body(dataset))["id"])
        age = fit.parameters["age"]
        assert age.q05 < age.mean < age.q95
        assert fit.verdict is not None
        assert fit.verdict.status in ("reliable", "unreliable")
        assert "age" in str(fit)
        tree = fit.to_arviz()
        drawn = tree["posterior"]["age"].to_numpy()
        assert drawn.mean() == pytest.approx(age.mean)
        assert np.std(drawn, ddof=1) == pytest.approx(age.sd)
        assert tree.attrs["algorithm"] == "noisy_quadratic"


def test_a_job_without_a_result_says_why(service: Service, told: tuple[str, str]) -> None:
    key, dataset = told
    long = body(dataset, sampler={"algorithm": "dp_penalty", "num_steps": 100_000}, name="long")
    with Client(service.url, key) as asked:
        job = asked.submit(long)["id"]
        asked.cancel(job)
        assert asked.rename(job, note="too long")["name"] == "long"
        with pytest.raises(ApiError, match="cancelled"):
            asked.fit(job)

    async def work() -> None:
        async with AsyncClient(service.url, key) as also:
            renamed = await also.rename(job, name=None)
            assert (renamed["name"], renamed["note"]) == (None, "too long")
            with pytest.raises(ApiError, match="cancelled"):
                await also.fit(job)

    asyncio.run(work())


def test_calls_of_both_clients_have_the_same_names() -> None:
    """What the async client has, the other one has, with the same arguments."""
    for name, call in inspect.getmembers(AsyncClient, inspect.isfunction):
        if name.startswith("_") or name in ("call", "items"):
            continue
        assert list(inspect.signature(call).parameters) == list(
            inspect.signature(getattr(Client, name)).parameters
        ), name


def test_files_are_named_by_words_or_paths(service: Service, tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_bytes(CSV)
    metadata = METADATA | {"separate_budget": {"reason": "a test uploads one table twice"}}
    with Client(service.url, ADMIN) as admin:
        assert admin.inspect(str(rows)) == admin.inspect(rows)
        assert admin.upload(str(rows), metadata | {"name": "by a word"})["rows"] == 200
        with pytest.raises(TypeError, match="not a BytesIO: write a frame"):
            admin.upload(io.BytesIO(CSV), metadata)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="not a dict"):
            admin.inspect({"x": [1.0]})  # type: ignore[arg-type]

    async def uploaded() -> dict[str, Any]:
        async with AsyncClient(service.url, ADMIN) as admin:
            assert await admin.inspect(str(rows))
            return await admin.upload(str(rows), metadata | {"name": "by a word, asynchronously"})

    assert asyncio.run(uploaded())["rows"] == 200
