"""A job over REST that goes on until its result is reliable: what it reserves and returns."""

import io
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import pytest
import xarray

from app.services.jobs.kinds.chains import ChainJob
from app.storage.columns import schema_of
from app.storage.rows import DatasetRow
from dpmcmc import planner
from dpmcmc.fit import run as runs
from dpmcmc.posterior.stored import StoredRelease
from dpmcmc.privacy.accountant import epsilon, gdp_mu
from dpmcmc.privacy.drawn import begins, steps
from dpmcmc.privacy.event_json import from_dict
from tests.api.support import Caller, House, job_of, signed_in
from tests.worker.test_early_stop import PAID, killed_at, verified
from tests.worker.test_run import Clock, kinds, recover, row, shown
from worker.lost_jobs import Recovery

UNTIL = {"up_to": 4.0, "until": "reliable"}
LOOKS = 3  # of a later round
BUDGET = {"neighbouring": "replace_one", "epsilon": 6.0, "delta": 1e-6}


@pytest.fixture
def analyst(house: House) -> Caller:
    return house.user("analyst")


@pytest.fixture(autouse=True)
def second(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs end after their second round."""

    def after(release: Any) -> Any:
        return release._stored.rounds >= 2, release._stored

    monkeypatch.setattr(StoredRelease, "after_round", after)


def body_of(dataset: str, **changes: Any) -> dict[str, Any]:
    privacy = {"epsilon": UNTIL, "delta": 1e-6}
    sampler = {"algorithm": "noisy_quadratic", "rounds": 4}
    return job_of(dataset) | {"sampler": sampler, "privacy": privacy} | changes


def submitted(analyst: Caller, dataset: str, **changes: Any) -> str:
    answer = analyst.post("/v1/jobs", json=body_of(dataset, **changes))
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


def test_it_reserves_all_draws_two_rounds_and_returns_the_rest(
    house: House, analyst: Caller
) -> None:
    dataset = house.dataset(privacy=BUDGET)
    made = analyst.post("/v1/plans", json=body_of(dataset)).json()
    assert made["epsilon"] == made["rounds"][3] == pytest.approx(4.0)
    job = submitted(analyst, dataset)
    planned = shown(analyst, job)
    assert planned["cost"] == planned["reserved"]
    house.run(job)
    ended = shown(analyst, job)
    assert ended["status"] == "succeeded"
    assert kinds(house, dataset) == [*PAID, "return"]
    _, reserve, _, returned = house.admin.get(f"/v1/datasets/{dataset}/ledger").json()["items"]
    drawn, whole = from_dict(returned["event"]), from_dict(reserve["event"])
    assert begins(whole, drawn)
    assert len(steps(drawn)) == len(steps(whole)) - 2 * LOOKS
    assert ended["cost"] == {"epsilon": epsilon(drawn, 1e-6), "delta": 1e-6, "mu": gdp_mu(drawn)}
    assert ended["cost"]["epsilon"] == pytest.approx(made["rounds"][1], rel=1e-9)
    assert ended["reserved"] == planned["cost"]
    assert ended["submitted"]["privacy"]["epsilon"] == UNTIL
    budget = house.admin.get(f"/v1/datasets/{dataset}/budget").json()
    assert budget["mu_spent"] == pytest.approx(ended["cost"]["mu"], rel=1e-14)
    assert budget["reserved"]["epsilon"] == 0
    assert verified(house, dataset)
    chain = analyst.get(f"/v1/jobs/{job}/chain", headers={"Accept": "application/json"})
    assert chain.status_code == 200


def test_the_library_plans_the_same(house: House, analyst: Caller) -> None:
    dataset = house.dataset(privacy=BUDGET)
    body = body_of(dataset)
    made = analyst.post("/v1/plans", json=body).json()
    job = ChainJob.read({k: body[k] for k in ("model", "sampler", "privacy")})
    with house.services.sessions.read() as session:
        schema = schema_of(session.get_one(DatasetRow, UUID(dataset)))
    own = planner.plan(schema, job.spec)
    assert list(own.rounds) == made["rounds"]
    assert list(own.reasons) == made["reasons"]
    assert (own.cost.epsilon, own.usable) == (made["epsilon"], made["usable"])


@pytest.mark.parametrize("draw", [0, 5, 9, 12])
def test_after_a_lost_worker_the_whole_debit_stays(
    house: House, analyst: Caller, monkeypatch: pytest.MonkeyPatch, draw: int
) -> None:
    dataset = house.dataset(privacy=BUDGET)
    job = submitted(analyst, dataset)
    killed_at(monkeypatch, house, job, draw)
    clock = Clock()
    recover(house, clock, Recovery(house.services, clock))
    house.run(job)
    ended = shown(analyst, job)
    assert ended["status"] == "succeeded"
    assert row(house, job).released_attempt == 2
    assert kinds(house, dataset) == PAID
    assert ended["cost"] == ended["reserved"]
    assert verified(house, dataset)


def test_a_job_that_is_cancelled_between_its_rounds_keeps_its_debit(
    house: House, analyst: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = house.dataset(privacy=BUDGET)
    job = submitted(analyst, dataset)
    real = runs._until_reliable

    def cancelled(*given: Any) -> Any:
        release = real(*given)
        assert analyst.post(f"/v1/jobs/{job}/cancel").status_code < 300
        return release

    monkeypatch.setattr(runs, "_until_reliable", cancelled)
    house.run(job)
    ended = shown(analyst, job)
    assert ended["status"] == "cancelled"
    assert kinds(house, dataset) == PAID
    assert ended["cost"] == ended["reserved"]


def test_two_jobs_at_once_share_what_is_left(house: House, analyst: Caller) -> None:
    """Each reserves all of it: of two that do not fit together one is refused, until it returns."""
    dataset = house.dataset(privacy=BUDGET | {"epsilon": 5.0})
    with ThreadPoolExecutor(2) as pool:
        answers = list(
            pool.map(lambda _: analyst.post("/v1/jobs", json=body_of(dataset)), range(2))
        )
    assert sorted(answer.status_code for answer in answers) == [202, 409]
    (job,) = [answer.json()["id"] for answer in answers if answer.status_code == 202]
    house.run(job)
    second = submitted(analyst, dataset)  # it fits into what the first did not draw
    house.run(second)
    budget = house.admin.get(f"/v1/datasets/{dataset}/budget").json()
    paid = [shown(analyst, name)["cost"]["mu"] for name in (job, second)]
    assert budget["mu_spent"] ** 2 == pytest.approx(paid[0] ** 2 + paid[1] ** 2, rel=1e-12)
    assert budget["mu_spent"] < budget["mu_total"]
    assert verified(house, dataset)


def test_the_same_request_is_the_same_job(house: House, analyst: Caller) -> None:
    dataset, head = house.dataset(privacy=BUDGET), {"Idempotency-Key": "one"}
    first = analyst.post("/v1/jobs", json=body_of(dataset), headers=head)
    again = analyst.post("/v1/jobs", json=body_of(dataset), headers=head)
    assert (first.status_code, again.json()["id"]) == (202, first.json()["id"])
    whole = body_of(dataset, privacy={"epsilon": 4.0, "delta": 1e-6}, sampler={"algorithm": "auto"})
    other = analyst.post("/v1/jobs", json=whole, headers=head)
    assert other.json()["code"] == "idempotency_key_reused"


@pytest.mark.longer
@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"spend": "all"}, "/spend"),
        ({"sampler": {"algorithm": "dp_penalty"}}, "/privacy/epsilon/until"),
        ({"sampler": {"algorithm": "noisy_quadratic", "rounds": 9}}, "/sampler/rounds"),
        ({"epsilon": {"up_to": 0.0, "until": "reliable"}}, "/privacy/epsilon/up_to"),
        ({"epsilon": {"up_to": 4.0, "until": "usable"}}, "/privacy/epsilon/until"),
        ({"epsilon": {"up_to": "much", "until": "reliable"}}, "/privacy/epsilon/up_to"),
        ({"epsilon": {"until": "reliable"}}, "/privacy/epsilon/up_to"),
        ({"epsilon": {"up_to": 4.0, "until": "reliable", "by": 2}}, "/privacy/epsilon/by"),
        ({"epsilon": 1.0}, "/sampler/rounds"),
        ({"epsilon": "much"}, "/privacy/epsilon"),
    ],
)
def test_what_cannot_go_on_is_refused_by_its_pointer(
    house: House, analyst: Caller, changes: dict[str, Any], pointer: str
) -> None:
    dataset = house.dataset(privacy=BUDGET)
    if "epsilon" in changes:
        changes = {"privacy": {"delta": 1e-6} | changes}
    for path in ("/v1/plans", "/v1/jobs"):
        answer = analyst.post(path, json=body_of(dataset, **changes))
        assert answer.status_code == 422, answer.text
        assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]
    assert kinds(house, dataset) == ["open"]


def test_a_task_does_not_go_on(house: House, analyst: Caller) -> None:
    dataset = house.dataset(privacy=BUDGET)
    body = {
        "dataset": dataset,
        "task": {"kind": "summaries", "statistics": [{"kind": "mean", "column": "age"}]},
        "privacy": {"epsilon": UNTIL, "delta": 1e-6},
    }
    answer = analyst.post("/v1/jobs", json=body)
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"][0]["pointer"].startswith("/privacy/epsilon")


def test_its_pages_say_what_was_paid_of_what_was_reserved(house: House, analyst: Caller) -> None:
    dataset = house.dataset(privacy=BUDGET)
    job = submitted(analyst, dataset)
    house.run(job)
    signed_in(house, analyst.key)
    text = house.http.get(f"/jobs/{job}").text
    reserved = text.partition("<dt>Was reserved</dt>")[2].partition("</div>")[0]
    assert "ε 4" in reserved
    assert "it went on until its result was" in reserved
    assert "the rest was returned" in reserved
    assert 'name="until" value="reliable" checked' in house.http.get(f"/jobs/new?like={job}").text
    assert 'name="until" value="reliable">' in house.http.get("/jobs/new").text


def test_a_file_of_its_draws_says_what_it_paid_and_might_have(
    house: House, analyst: Caller
) -> None:
    job = submitted(analyst, house.dataset(privacy=BUDGET))
    house.run(job)
    head = {"Accept": "application/x-netcdf"}
    file = analyst.get(f"/v1/jobs/{job}/chain", headers=head)
    assert file.status_code == 200
    tree = xarray.load_datatree(io.BytesIO(file.content), engine="h5netcdf")
    assert tree.attrs["epsilon"] == pytest.approx(shown(analyst, job)["cost"]["epsilon"])
    assert tree.attrs["epsilon_up_to"] == pytest.approx(4.0)
