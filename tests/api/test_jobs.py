"""Plans and jobs over HTTP, their chains in every format, and the money."""

import csv
import io
import json
import math
import subprocess
import sys
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from sqlalchemy import update
from starlette.concurrency import run_in_threadpool

from app.api.sse import Notifier
from app.services.results import fetch
from app.storage.rows import JobRow
from app.storage.types import utc_now
from tests.api.support import Caller, House, job_of

FORMATS = {
    "application/json",
    "text/csv",
    "application/vnd.apache.parquet",
    "application/x-netcdf",
}


@pytest.fixture
def analyst(house: House) -> Caller:
    return house.user("analyst")


@pytest.fixture
def finished(house: House, analyst: Caller) -> str:
    job = house.submit(analyst, house.dataset())
    house.run(job)
    assert analyst.get(f"/v1/jobs/{job}").json()["status"] == "succeeded"
    return job


def test_a_plan_tells_the_cost_and_spends_nothing(house: House, analyst: Caller) -> None:
    dataset = house.dataset()
    plan = analyst.post("/v1/plans", json=job_of(dataset)).json()
    assert plan["epsilon"] == pytest.approx(0.5, rel=1e-6)
    assert plan["epsilon"] <= 0.5
    assert plan["mu"] == pytest.approx(math.sqrt(120) / plan["noise_multiplier"])
    assert plan["affordable"] is True
    assert 0 < plan["remaining_after"]["epsilon"] < 4
    budget = analyst.get(f"/v1/datasets/{dataset}/budget").json()
    assert budget["remaining"]["epsilon"] == pytest.approx(4)
    assert budget["jobs"] == 0


def test_a_plan_beyond_the_budget_is_told_to_be_unaffordable(house: House, analyst: Caller) -> None:
    body = job_of(house.dataset())
    body["privacy"]["epsilon"] = 5.0
    plan = analyst.post("/v1/plans", json=body).json()
    assert plan["affordable"] is False
    assert plan["remaining_after"]["epsilon"] == 0


def test_a_plan_names_the_field_that_cannot_be(house: House, analyst: Caller) -> None:
    body = job_of(house.dataset())
    body["model"]["formula"] = "income ~ wealth"
    answer = analyst.post("/v1/plans", json=body)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/model/formula"


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"sampler": {"algorithm": "dp_penalty", "num_steps": True}}, "/sampler/num_steps"),
        ({"sampler": {"algorithm": "dp_penalty", "num_steps": 1.5}}, "/sampler/num_steps"),
        ({"sampler": {"algorithm": "dp_penalty", "nmu_steps": 10}}, "/sampler/nmu_steps"),
        ({"sampler": {"algorithm": "exact"}}, "/sampler/algorithm"),
        ({"sampler": {"num_steps": 10}}, "/sampler/algorithm"),
        ({"sampler": {"algorithm": None}}, "/sampler/algorithm"),
        (
            {"sampler": {"algorithm": "dp_penalty", "proposal": {"kind": 1}}},
            "/sampler/proposal/kind",
        ),
        ({"privacy": {"epsilon": 1.0, "delta": 1e-6, "seed": 1}}, "/privacy/seed"),
        ({"privacy": {"delta": 1e-6}}, "/privacy"),
        ({"privacy": {"epsilon": -1.0, "delta": 1e-6}}, "/privacy/epsilon"),
        ({"privacy": {"epsilon": 0.0, "delta": 1e-6}}, "/privacy/epsilon"),
        ({"privacy": {"epsilon": 1.0, "delta": 1.5}}, "/privacy/delta"),
        ({"dataset": "x"}, "/dataset"),
        ({"noise": False}, "/noise"),
    ],
)
def test_a_job_is_strict(
    house: House, analyst: Caller, change: dict[str, Any], pointer: str
) -> None:
    answer = analyst.post("/v1/jobs", json=job_of(house.dataset()) | change)
    assert answer.status_code == 422, answer.text
    assert [e["pointer"] for e in answer.json()["errors"]] == [pointer]


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999"])
def test_a_jobs_numbers_are_finite(house: House, analyst: Caller, number: str) -> None:
    text = json.dumps(job_of(house.dataset())).replace("2.5", number)
    kind = {"Content-Type": "application/json"}
    answer = analyst.post("/v1/jobs", content=text, headers=kind)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/model/prior/scale"


def test_submission_reserves_and_answers_202(house: House, analyst: Caller) -> None:
    dataset = house.dataset()
    answer = analyst.post("/v1/jobs", json=job_of(dataset))
    job = answer.json()
    assert answer.status_code == 202
    assert answer.headers["location"] == f"/v1/jobs/{job['id']}"
    assert int(answer.headers["retry-after"]) >= 1
    assert job["status"] == "queued"
    assert job["dataset"] == dataset
    assert job["cost"]["epsilon"] == pytest.approx(0.5, rel=1e-6)
    assert job["progress"] == {"step": 0, "of": 60}
    assert job["error"] is None
    assert [str(sent) for sent in house.sent] == [job["id"]]
    budget = analyst.get(f"/v1/datasets/{dataset}/budget").json()
    assert budget["reserved"]["epsilon"] == pytest.approx(0.5, rel=1e-6)
    assert budget["spent"]["epsilon"] == 0


def test_a_job_beyond_the_budget_is_409_with_both_numbers(house: House, analyst: Caller) -> None:
    body = job_of(house.dataset())
    body["privacy"]["epsilon"] = 5.0
    answer = analyst.post("/v1/jobs", json=body)
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (409, "budget_exhausted")
    assert problem["requested"]["epsilon"] == pytest.approx(5)
    assert problem["remaining"]["epsilon"] == pytest.approx(4)
    assert analyst.get("/v1/jobs").json()["items"] == []
    assert house.sent == []


def test_same_idempotency_key_and_body_is_the_same_job(house: House, analyst: Caller) -> None:
    dataset = house.dataset()
    key = {"Idempotency-Key": "one"}
    first = analyst.post("/v1/jobs", json=job_of(dataset), headers=key)
    text = json.dumps(job_of(dataset), indent=3)
    kind = key | {"Content-Type": "application/json"}
    again = analyst.post("/v1/jobs", content=text, headers=kind)
    assert again.status_code == 202
    assert again.json()["id"] == first.json()["id"]
    assert again.headers["location"] == first.headers["location"]
    assert analyst.get(f"/v1/datasets/{dataset}/budget").json()["jobs"] == 1


def test_same_idempotency_key_and_another_body_is_422(house: House, analyst: Caller) -> None:
    dataset = house.dataset()
    key = {"Idempotency-Key": "one"}
    analyst.post("/v1/jobs", json=job_of(dataset), headers=key)
    answer = analyst.post("/v1/jobs", json=job_of(dataset, num_steps=61), headers=key)
    assert (answer.status_code, answer.json()["code"]) == (422, "idempotency_key_reused")


def test_another_analyst_may_use_the_same_idempotency_key(house: House, analyst: Caller) -> None:
    dataset, other = house.dataset(), house.user("analyst")
    key = {"Idempotency-Key": "one"}
    ours = analyst.post("/v1/jobs", json=job_of(dataset), headers=key).json()["id"]
    theirs = other.post("/v1/jobs", json=job_of(dataset, num_steps=61), headers=key)
    assert theirs.status_code == 202
    assert theirs.json()["id"] != ours


def test_a_refused_job_does_not_use_its_idempotency_key_up(house: House, analyst: Caller) -> None:
    dataset = house.dataset()
    key = {"Idempotency-Key": "one"}
    dear = job_of(dataset)
    dear["privacy"]["epsilon"] = 5.0
    assert analyst.post("/v1/jobs", json=dear, headers=key).status_code == 409
    assert analyst.post("/v1/jobs", json=job_of(dataset), headers=key).status_code == 202


def test_cancelling_a_queued_job_gives_its_reservation_back(house: House, analyst: Caller) -> None:
    dataset = house.dataset()
    job = house.submit(analyst, dataset)
    assert analyst.post(f"/v1/jobs/{job}/cancel").json()["status"] == "cancelled"
    budget = analyst.get(f"/v1/datasets/{dataset}/budget").json()
    assert budget["reserved"]["epsilon"] == 0
    assert budget["remaining"]["epsilon"] == pytest.approx(4)
    house.run(job)
    assert analyst.get(f"/v1/jobs/{job}").json()["status"] == "cancelled"
    assert analyst.post(f"/v1/jobs/{job}/cancel").status_code == 200


def test_a_finished_job_cannot_be_cancelled(analyst: Caller, finished: str) -> None:
    answer = analyst.post(f"/v1/jobs/{finished}/cancel")
    assert (answer.status_code, answer.json()["code"]) == (409, "job_finished")


@pytest.mark.parametrize("what", ["chain", "summary"])
def test_a_job_that_has_not_finished_has_no_results(
    house: House, analyst: Caller, what: str
) -> None:
    job = house.submit(analyst, house.dataset())
    answer = analyst.get(f"/v1/jobs/{job}/{what}")
    assert (answer.status_code, answer.json()["code"]) == (409, "job_not_finished")


@pytest.mark.parametrize("status", ["cancelled", "failed", "running"])
def test_blocks_of_a_job_that_did_not_succeed_cannot_be_read(
    house: House, analyst: Caller, finished: str, status: str
) -> None:
    """Whatever a lost attempt has stored: the status alone decides."""
    with house.services.sessions.write() as session:
        row = update(JobRow).where(JobRow.id == UUID(finished)).values(status=status)
        ended = {} if status != "running" else {"finished_at": None}
        session.execute(row.values(released_attempt=None, **ended))
    code = "job_not_finished" if status == "running" else "job_without_chain"
    for what in ("chain", "summary", "result"):
        answer = analyst.get(f"/v1/jobs/{finished}/{what}")
        assert (answer.status_code, answer.json().get("code")) == (409, code), what
    answer = analyst.post(f"/v1/jobs/{finished}/posteriors", json={})
    assert (answer.status_code, answer.json().get("code")) == (409, code)


def test_a_succeeded_job_has_spent_what_it_reserved(
    house: House, analyst: Caller, finished: str
) -> None:
    job = analyst.get(f"/v1/jobs/{finished}").json()
    budget = analyst.get(f"/v1/datasets/{job['dataset']}/budget").json()
    assert job["progress"] == {"step": 60, "of": 60}
    assert budget["spent"]["epsilon"] == pytest.approx(0.5, rel=1e-6)
    assert budget["reserved"]["epsilon"] == 0
    (item,) = analyst.get("/v1/budget").json()["items"]
    assert [step["kind"] for step in item["history"]] == ["open", "reserve", "post"]
    assert item["history"][-1]["job"] == finished
    assert item["history"][-1]["epsilon_after"] == pytest.approx(0.5, rel=1e-6)


def chain_of(analyst: Caller, job: str, kind: str) -> bytes:
    answer = analyst.get(f"/v1/jobs/{job}/chain", headers={"Accept": kind})
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith(kind)
    return bytes(answer.content)


@pytest.mark.longer
def test_every_format_holds_the_same_draws(analyst: Caller, finished: str, tmp_path: Path) -> None:
    import pyarrow.parquet

    released = json.loads(chain_of(analyst, finished, "application/json"))
    draws = np.array(released["draws"])
    assert draws.shape == (2, 60, 3)
    assert released["parameters"] == ["Intercept", "age", "sex[Male]"]
    warmup = released["num_warmup"]

    lines = list(csv.reader(io.StringIO(chain_of(analyst, finished, "text/csv").decode())))
    assert lines[0] == ["chain", "draw", "warmup", "Intercept", "age", "sex[Male]"]
    table = np.array(lines[1:], dtype=float)
    np.testing.assert_array_equal(table[:, 3:].reshape(2, 60, 3), draws)
    assert table[:, 2].sum() == 2 * warmup

    packed = chain_of(analyst, finished, "application/vnd.apache.parquet")
    frame = pyarrow.parquet.read_table(io.BytesIO(packed))
    np.testing.assert_array_equal(frame["sex[Male]"].to_numpy().reshape(2, 60), draws[:, :, 2])

    file = tmp_path / "chain.nc"
    file.write_bytes(chain_of(analyst, finished, "application/x-netcdf"))
    script = (
        "import arviz, sys; t = arviz.from_netcdf(sys.argv[1]); p, w = t.posterior,"
        " t.warmup_posterior; print(dict(p.sizes), float(p['age'][1, -1]), float(w['age'][1, 0]),"
        " dict(w.sizes), dict(t.sample_stats.accepted.sizes), t.attrs['algorithm'],"
        " t.attrs['relation'], arviz.summary(t, round_to='none')['mean']['age'])"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, file],
        capture_output=True,
        text=True,
        check=True,
    )
    sizes, before = {"chain": 2, "draw": 60 - warmup}, {"chain": 2, "draw": warmup}
    head = f"{sizes} {draws[1, 59, 1]} {draws[1, 0, 1]} {before} {sizes} dp_penalty replace_one"
    told, _, mean = done.stdout.strip().rpartition(" ")
    assert told == head
    summary = analyst.get(f"/v1/jobs/{finished}/summary").json()["parameters"][1]
    assert float(mean) == pytest.approx(summary["mean"], rel=1e-12)


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        (None, "application/json"),
        ("*/*", "application/json"),
        ("text/*", "text/csv"),
        ("application/json;q=0.5, text/csv", "text/csv"),
        ("text/csv;q=0, */*;q=0.1", "application/json"),
        ("image/png, application/x-netcdf;q=0.2", "application/x-netcdf"),
        ("image/png", None),
        ("application/json;q=0", None),
    ],
)
def test_accept_chooses_the_format(accept: str | None, kind: str | None) -> None:
    from app.api.formats import negotiate

    assert negotiate(accept or "") == kind


def test_an_unknown_format_is_406(analyst: Caller, finished: str) -> None:
    answer = analyst.get(f"/v1/jobs/{finished}/chain", headers={"Accept": "image/png"})
    assert (answer.status_code, answer.json()["code"]) == (406, "not_acceptable")


def test_parameters_named_like_other_columns_stay_apart() -> None:
    from app.api.formats import columns

    assert columns(["chain", "a/b", "a|b", "draw"]) == ["chain_", "a|b", "a|b_", "draw_"]


def test_the_summary_is_of_the_draws_after_warmup(analyst: Caller, finished: str) -> None:
    released = json.loads(chain_of(analyst, finished, "application/json"))
    kept = np.array(released["draws"])[:, released["num_warmup"] :]
    summary = analyst.get(f"/v1/jobs/{finished}/summary").json()
    assert (summary["chains"], summary["draws"]) == kept.shape[:2]
    for k, row in enumerate(summary["parameters"]):
        assert row["mean"] == pytest.approx(kept[:, :, k].mean())
        assert row["q95"] == pytest.approx(np.quantile(kept[:, :, k], 0.95))
        assert {"sd", "r_hat", "ess_bulk", "ess_tail"} <= set(row)


def events_in(text: str) -> list[tuple[str, Any]]:
    """The names and data of a stream's events."""
    told = [dict(line.split(": ", 1) for line in e.splitlines()) for e in text.split("\n\n") if e]
    return [(e["event"], json.loads(e["data"])) for e in told]


def test_events_end_with_the_final_status(analyst: Caller, finished: str) -> None:
    answer = analyst.get(f"/v1/jobs/{finished}/events")
    assert answer.headers["content-type"].startswith("text/event-stream")
    told = events_in(answer.text)
    assert [name for name, _ in told] == ["progress", "status"]
    ended = told[-1][1]
    assert ended["status"] == "succeeded"
    assert ended["verdict"] == analyst.get(f"/v1/jobs/{finished}").json()["verdict"]


@pytest.mark.parametrize("runs", [True, False])
def test_events_tell_that_a_job_ran_between_two_looks(
    house: House, analyst: Caller, monkeypatch: pytest.MonkeyPatch, runs: bool
) -> None:
    """A job may be over before the stream looks again; one that was cancelled never ran."""
    job = house.submit(analyst, house.dataset())
    end = partial(house.run, job) if runs else partial(analyst.post, f"/v1/jobs/{job}/cancel")

    async def two_looks(_: Any, caller: Any, first: fetch.Watched) -> Any:
        yield first
        await run_in_threadpool(end)
        yield fetch.watched(house.services, {first.id}, {caller})[0][first.id]

    monkeypatch.setattr(Notifier, "follow", two_looks)
    told = events_in(analyst.get(f"/v1/jobs/{job}/events").text)
    statuses = [data["status"] for name, data in told if name == "status"]
    assert statuses == (["queued", "running", "succeeded"] if runs else ["queued", "cancelled"])


def test_several_jobs_are_followed_in_one_stream(house: House, analyst: Caller) -> None:
    dataset = house.dataset()
    first, second = house.submit(analyst, dataset), house.submit(analyst, dataset)
    house.run(first)
    analyst.post(f"/v1/jobs/{second}/cancel")
    address = f"/v1/jobs/events?job={first}&job={second}&job={first}"
    told = events_in(analyst.get(address).text)
    assert [(name, data["id"], data["status"]) for name, data in told] == [
        ("job", first, "succeeded"),
        ("job", second, "cancelled"),
    ]
    assert told[0][1]["verdict"] == analyst.get(f"/v1/jobs/{first}").json()["verdict"]
    other = house.user("analyst")
    assert other.get(address).status_code == 404
    assert other.get("/v1/jobs/events").json()["code"] == "invalid_request"


def test_jobs_that_are_cancelled_before_they_run_are_bounded(house: House, analyst: Caller) -> None:
    """Each leaves entries that nothing deletes: a loop of them would fill the disk."""
    dataset = house.dataset()
    object.__setattr__(house.settings, "max_cancelled", 3)
    for _ in range(3):
        assert analyst.post(f"/v1/jobs/{house.submit(analyst, dataset)}/cancel").is_success
    answer = analyst.post("/v1/jobs", json=job_of(dataset))
    assert (answer.status_code, answer.json()["code"]) == (429, "too_many_cancelled")
    assert "retry-after" in answer.headers
    other = house.user("analyst")
    ran = house.submit(other, dataset)
    house.run(ran)
    assert other.get(f"/v1/jobs/{ran}").json()["status"] == "succeeded"
    with house.services.sessions.write() as session:
        hour_ago = utc_now() - timedelta(seconds=3601)
        session.execute(update(JobRow).values(created_at=hour_ago))
    house.submit(analyst, dataset)


def test_too_many_waiting_jobs_are_429(house: House, analyst: Caller) -> None:
    dataset = house.dataset()
    object.__setattr__(house.settings, "max_jobs_waiting", 1)
    house.submit(analyst, dataset)
    answer = analyst.post("/v1/jobs", json=job_of(dataset))
    assert (answer.status_code, answer.json()["code"]) == (429, "too_many_jobs")
    assert "retry-after" in answer.headers


@pytest.mark.parametrize(
    ("setting", "limit", "pointer"),
    [("max_draws", 359, "/sampler/num_steps"), ("job_memory_bytes", 2**29, "/dataset")],
)
def test_a_job_that_is_too_large_is_422_and_costs_nothing(
    house: House, analyst: Caller, setting: str, limit: int, pointer: str
) -> None:
    dataset = house.dataset()
    object.__setattr__(house.settings, setting, limit)
    answer = analyst.post("/v1/jobs", json=job_of(dataset))
    assert (answer.status_code, answer.json()["code"]) == (422, "job_too_large")
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]
    assert analyst.get(f"/v1/datasets/{dataset}/budget").json()["jobs"] == 0
    object.__setattr__(house.settings, setting, 2**34)
    assert analyst.post("/v1/jobs", json=job_of(dataset)).status_code == 202


@pytest.mark.parametrize("kind", ["samplers", "models"])
def test_what_is_registered_is_described_each_in_its_own_words(analyst: Caller, kind: str) -> None:
    items = analyst.get(f"/v1/{kind}").json()["items"]
    first = {item["description"].partition("\n")[0] for item in items}
    assert len(first) == len(items) >= 7
    assert all(len(line) > 20 for line in first)


def test_registries_tell_the_schema_of_every_option(house: House, analyst: Caller) -> None:
    from dpmcmc.families import MODELS
    from dpmcmc.samplers.algorithms import ALGORITHMS

    samplers = {s["name"]: s for s in analyst.get("/v1/samplers").json()["items"]}
    assert set(samplers) == set(ALGORITHMS)
    for name, sampler in samplers.items():
        assert sampler["options"]["properties"]["algorithm"]["const"] == name
        assert sampler["options"]["additionalProperties"] is False
        assert sampler["description"]
    models = {m["name"]: m for m in analyst.get("/v1/models").json()["items"]}
    assert set(models) == set(MODELS)


def test_the_price_list_quotes_every_notion(house: House, analyst: Caller) -> None:
    step = {"kind": "gaussian", "noise_multiplier": 20.0, "neighbouring": "replace_one"}
    body = {"events": [{"kind": "repeat", "event": step, "count": 100}, step], "delta": 1e-6}
    quote = analyst.post("/v1/accounting/compose", json=body).json()
    assert quote["mu"] == pytest.approx(math.sqrt(101) / 20)
    assert quote["epsilon"] < quote["notions"]["zcdp_loose"]
    assert quote["rho"] == pytest.approx(101 / 800)


GAUSSIAN = {"kind": "gaussian", "noise_multiplier": 1.0}
PART = {"kind": "without_replacement", "event": GAUSSIAN, "batch": 1, "rows": 2}


@pytest.mark.parametrize(
    ("event", "pointer"),
    [
        ({"kind": "magic"}, "/kind"),
        ({"noise_multiplier": 1.0}, "/kind"),
        ([], ""),
        (GAUSSIAN | {"noise_multiplier": 0.0}, "/noise_multiplier"),
        (GAUSSIAN | {"noise_multiplier": "1"}, "/noise_multiplier"),
        (GAUSSIAN | {"noise_multiplier": True}, "/noise_multiplier"),
        (GAUSSIAN | {"neighbouring": "twins"}, "/neighbouring"),
        (GAUSSIAN | {"sigma": 2.0}, "/sigma"),
        ({"kind": "gaussian"}, "/noise_multiplier"),
        ({"kind": "repeat", "event": GAUSSIAN, "count": 0}, "/count"),
        ({"kind": "repeat", "event": {"kind": "x"}, "count": 2}, "/event/kind"),
        (PART | {"batch": 3}, "/batch"),
        (PART | {"event": PART}, ""),
        ({"kind": "compose", "events": []}, ""),
        ({"kind": "parallel", "events": [GAUSSIAN, PART | {"rows": 2.0}]}, "/events/1/rows"),
    ],
)
def test_the_price_list_refuses_what_is_no_event(
    house: House, analyst: Caller, event: Any, pointer: str
) -> None:
    body = {"events": [GAUSSIAN, event], "delta": 1e-6}
    answer = analyst.post("/v1/accounting/compose", json=body)
    assert answer.status_code == 422
    assert [e["pointer"] for e in answer.json()["errors"]] == [f"/events/1{pointer}"]


def test_the_price_list_bounds_how_much_it_computes(house: House, analyst: Caller) -> None:
    """Distinct mechanisms are counted wherever they stand; the same one again costs nothing."""
    steps = [{"kind": "gaussian", "noise_multiplier": 1.0 + n} for n in range(33)]
    nested = {"kind": "compose", "events": steps[1:]}
    apart = [{"kind": "parallel", "events": [{"kind": "compose", "events": steps[:9]}] * 4}]
    many = [{"kind": "compose", "events": [steps[0]] * 1000}]
    for events in (steps, [steps[0], nested], apart, many):
        body = {"events": events, "delta": 1e-6}
        answer = analyst.post("/v1/accounting/compose", json=body)
        assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/events")
    body = {"events": [steps[0]] * 100, "delta": 1e-6}
    assert analyst.post("/v1/accounting/compose", json=body).status_code == 200


def test_a_job_has_a_name_and_a_note_that_its_analyst_changes(house: House) -> None:
    ada, eve = house.user("analyst"), house.user("analyst")
    dataset = house.dataset(grants=[ada.id, eve.id])
    words = {"name": "Visits by age", "note": "first try,\nsmall budget"}
    asked = job_of(dataset) | words
    job = ada.post("/v1/jobs", json=asked, headers={"Idempotency-Key": "once"}).json()
    assert {key: job[key] for key in words} == words
    again = ada.post("/v1/jobs", json=asked, headers={"Idempotency-Key": "once"}).json()
    assert again["id"] == job["id"]
    other = asked | {"name": "Another"}
    answer = ada.post("/v1/jobs", json=other, headers={"Idempotency-Key": "once"})
    assert answer.json()["code"] == "idempotency_key_reused"
    address = f"/v1/jobs/{job['id']}"
    changed = ada.call("PATCH", address, json={"note": None}).json()
    assert (changed["name"], changed["note"]) == ("Visits by age", None)
    assert ada.call("PATCH", address, json={"name": "Age <b>"}).json()["name"] == "Age <b>"
    assert ada.get(address).json()["name"] == "Age <b>"
    assert [one["id"] for one in ada.get("/v1/jobs?text=AGE <B").json()["items"]] == [job["id"]]
    assert ada.get("/v1/jobs?text=visits").json()["items"] == []
    assert eve.call("PATCH", address, json={"name": "mine"}).status_code == 404
    for wrong in (
        {"name": ""},
        {"name": "a\nb"},
        {"note": "x\0"},
        {"note": "x" * 2001},
        {"formula": "y"},
    ):
        assert ada.call("PATCH", address, json=wrong).status_code == 422, wrong


def test_jobs_without_words_have_none(house: House) -> None:
    ada = house.user("analyst")
    job = house.submit(ada, house.dataset(grants=[ada.id]))
    told = ada.get(f"/v1/jobs/{job}").json()
    assert (told["name"], told["note"]) == (None, None)
