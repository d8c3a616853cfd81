"""Many clients at once against a budget for ten jobs."""

import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.support import ADMIN, CSV, METADATA, client, job_of, running

CLIENTS, AFFORDABLE = 64, 10
STEPS, CHAINS = 50, 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "database", ["sqlite", pytest.param("postgresql", marks=pytest.mark.services)]
)
def test_64_clients_against_a_budget_for_10_jobs(
    database: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    environment = {"DPMCMC_WORKERS": "0"}
    if database == "postgresql":
        environment["DATABASE_URL"] = request.getfixturevalue("postgres_url")
    rows = tmp_path / "rows.csv"
    rows.write_bytes(CSV)
    with running(tmp_path, environment) as (_, service):
        admin = client(service, ADMIN)
        dataset = admin.upload(rows, METADATA)["id"]
        key = admin.create_user("Ada", "analyst")["key"]
        analyst = client(service, key)
        mu2 = analyst.budget(dataset)["mu_total"] ** 2 / (AFFORDABLE + 0.5)
        body = job_of(dataset, num_steps=STEPS, num_chains=CHAINS)
        z = (STEPS * CHAINS / mu2) ** 0.5
        body["privacy"] = {"noise_multiplier": z, "delta": 1e-6}
        answers = rush(service.url, key, body)
        statuses = [answer.status_code for answer in answers]
        assert statuses.count(202) == AFFORDABLE
        assert statuses.count(409) == CLIENTS - AFFORDABLE
        problems = [answer.json() for answer in answers if answer.status_code == 409]
        assert {problem["code"] for problem in problems} == {"budget_exhausted"}
        assert all(p["requested"]["epsilon"] > p["remaining"]["epsilon"] for p in problems)
        debits = [e for e in admin.ledger(dataset) if e["kind"] == "reserve"]
        assert len(debits) == AFFORDABLE
        total = sum(int(entry["cost"][0]) for entry in debits) / 2**96
        assert total <= analyst.budget(dataset)["mu_total"] ** 2
        assert analyst.budget(dataset)["jobs"] == AFFORDABLE
        assert len(list(analyst.jobs())) == AFFORDABLE
        assert admin.verify(dataset)["ok"] is True


def rush(url: str, key: str, body: dict[str, Any]) -> list[httpx.Response]:
    """The answers to as many clients that submit at the same moment."""
    answers: list[httpx.Response] = []
    gate = threading.Barrier(CLIENTS)

    def submit() -> None:
        with httpx.Client(base_url=url, timeout=120) as client:
            gate.wait()
            headers = {"Authorization": f"Bearer {key}"}
            answers.append(client.post("/v1/jobs", json=body, headers=headers))

    threads = [threading.Thread(target=submit) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers
