"""A release that stops early pays for what it drew, whoever dies and when."""

from typing import Any
from uuid import UUID

import pytest

from app import ledger
from app.storage.rows import JobRow
from dpmcmc.mechanisms import sums
from dpmcmc.privacy.accountant import epsilon, gdp_mu
from dpmcmc.privacy.drawn import begins, steps
from dpmcmc.privacy.event_json import from_dict
from dpmcmc.releases import newton_path
from tests.api.support import Caller, House, job_of
from tests.worker.test_run import Clock, Killed, kinds, recover, row, shown
from worker import run as running
from worker.lost_jobs import Recovery

PAID = ["open", "reserve", "post"]


@pytest.fixture
def analyst(house: House) -> Caller:
    return house.user("analyst")


@pytest.fixture(autouse=True)
def hopeless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any last far look counts as one that saw nothing."""
    monkeypatch.setattr(newton_path._Path, "unseen", lambda path: bool(path._problem.hopeless))


def submitted(analyst: Caller, dataset: str, **changes: Any) -> str:
    body = job_of(dataset) | {"sampler": {"algorithm": "noisy_quadratic"}} | changes
    answer = analyst.post("/v1/jobs", json=body)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


def verified(house: House, dataset: str) -> bool:
    return bool(house.admin.post(f"/v1/datasets/{dataset}/ledger/verify").json()["ok"])


def test_it_pays_for_exactly_what_it_drew(house: House, analyst: Caller) -> None:
    dataset = house.dataset()
    job = submitted(analyst, dataset)
    planned = shown(analyst, job)
    assert planned["cost"] == planned["reserved"]
    house.run(job)
    ended = shown(analyst, job)
    assert kinds(house, dataset) == [*PAID, "return"]
    _, reserve, _, returned = house.admin.get(f"/v1/datasets/{dataset}/ledger").json()["items"]
    drawn, whole = from_dict(returned["event"]), from_dict(reserve["event"])
    assert begins(whole, drawn)
    assert (
        0 < len(steps(drawn)) == len(steps(whole)) - 3
    )  # all but the layers and the near iterates
    assert ended["reserved"] == planned["cost"]
    assert ended["cost"] == {"epsilon": epsilon(drawn, 1e-6), "delta": 1e-6, "mu": gdp_mu(drawn)}
    assert ended["cost"]["epsilon"] < 0.6 * planned["cost"]["epsilon"]
    assert ended["verdict"]["status"] == "unreliable"
    assert "ended there" in ended["verdict"]["sentence"]
    assert ended["progress"]["step"] == ended["progress"]["of"]
    budget = house.admin.get(f"/v1/datasets/{dataset}/budget").json()
    assert budget["mu_spent"] == pytest.approx(ended["cost"]["mu"], rel=1e-14)
    assert budget["reserved"]["epsilon"] == 0
    assert verified(house, dataset)
    told = analyst.post(f"/v1/jobs/{job}/posteriors", json={"num_draws": 100}).json()
    assert told["verdict"]["status"] == "unreliable"
    again = submitted(analyst, dataset)  # its whitening is used again
    house.run(again)
    assert shown(analyst, again)["spec"]["sampler"]["whitening"] == job


def test_all_of_it_is_spent_where_that_is_asked_for(house: House, analyst: Caller) -> None:
    dataset = house.dataset()
    job = submitted(analyst, dataset, spend="all")
    house.run(job)
    ended = shown(analyst, job)
    assert kinds(house, dataset) == PAID
    assert ended["cost"] == ended["reserved"]
    assert ended["spec"]["spend"] == ended["submitted"]["spend"] == "all"


def test_a_pooled_dataset_and_a_cap_are_given_back_too(house: House, analyst: Caller) -> None:
    dataset = house.dataset()
    caps = {"allotments": {analyst.id: 1.0}}
    assert house.admin.call("PATCH", f"/v1/datasets/{dataset}", json=caps).status_code == 200
    job = submitted(analyst, dataset)
    house.run(job)
    (cap,) = house.admin.get(f"/v1/datasets/{dataset}/budget").json()["allotments"].values()
    assert cap["spent"]["epsilon"] == pytest.approx(shown(analyst, job)["cost"]["epsilon"])
    assert verified(house, dataset)


def killed_at(monkeypatch: pytest.MonkeyPatch, house: House, job: str, draw: int) -> None:
    """Let a worker vanish before its draw of this number."""
    real, count = sums.gaussian_noise, iter(range(1000))

    def dies(*given: Any) -> Any:
        if next(count) == draw:
            raise Killed
        return real(*given)

    with monkeypatch.context() as patched:
        patched.setattr(sums, "gaussian_noise", dies)
        with pytest.raises(Killed):
            house.run(job)


@pytest.mark.parametrize("draw", [0, 3, 6])
def test_after_a_lost_worker_the_whole_debit_stays(
    house: House, analyst: Caller, monkeypatch: pytest.MonkeyPatch, draw: int
) -> None:
    dataset = house.dataset()
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
    assert "ended there" in ended["verdict"]["sentence"]


def test_a_worker_that_dies_as_it_succeeds_has_given_nothing_back(
    house: House, analyst: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = house.dataset()
    job = submitted(analyst, dataset)
    real = ledger.return_rest

    def dies(*given: Any) -> None:
        real(*given)
        raise Killed  # before its transaction ends

    with monkeypatch.context() as patched:
        patched.setattr(ledger, "return_rest", dies)
        with pytest.raises(Killed):
            house.run(job)
    assert kinds(house, dataset) == PAID
    clock = Clock()
    recover(house, clock, Recovery(house.services, clock))
    house.run(job)
    assert kinds(house, dataset) == PAID
    assert verified(house, dataset)


def test_what_was_given_back_is_given_back_once_though_the_answer_is_lost(
    house: House, analyst: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = house.dataset()
    job = submitted(analyst, dataset)
    real = running.patiently

    def twice(act: Any) -> Any:
        if act.__qualname__.startswith("_succeed"):
            act()  # committed, and the connection broke
        return real(act)

    monkeypatch.setattr(running, "patiently", twice)
    house.run(job)
    assert kinds(house, dataset) == [*PAID, "return"]
    assert shown(analyst, job)["status"] == "succeeded"


@pytest.mark.parametrize("how", ["cancelled", "lost"])
def test_a_run_that_is_stopped_from_outside_gives_nothing_back(
    house: House, analyst: Caller, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    dataset = house.dataset()
    job = submitted(analyst, dataset)
    real = running._succeed

    def late(services: Any, claim: Any, last: Any) -> str:
        if how == "cancelled":
            analyst.post(f"/v1/jobs/{job}/cancel")
        else:
            with house.services.sessions.write() as session:
                session.get_one(JobRow, UUID(job)).token += 1
        return real(services, claim, last)

    monkeypatch.setattr(running, "_succeed", late)
    house.run(job)
    assert kinds(house, dataset) == PAID
    ended = shown(analyst, job)
    assert ended["cost"] == ended["reserved"]


def test_a_drawn_event_that_is_not_the_jobs_fails_it_and_keeps_the_debit(
    house: House, analyst: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = house.dataset()
    job = submitted(analyst, dataset)
    monkeypatch.setattr(ledger.account, "begins", lambda *_: False)
    house.run(job)
    assert shown(analyst, job)["status"] == "failed"
    assert kinds(house, dataset) == PAID
