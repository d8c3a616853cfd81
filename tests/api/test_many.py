"""Pages of a service with 1,000 jobs on 50 datasets stay small, with their scripts and styles.

Below 250 kB before compression; pages with many drawings as they are sent, scripts in gzip.

So do budgets with thousands of ledger entries, and what they take to work out.
"""

import re
from datetime import timedelta
from uuid import UUID, uuid4

import httpx
import pytest
from sqlalchemy import insert, select

from app.ledger import read
from app.services.datasets.records import MOST_STEPS
from app.storage.rows import JobRow, LedgerRow
from tests.api.support import ADMIN, METADATA, House, signed_in

MOST_BYTES = 250_000


@pytest.mark.longer
def test_pages_stay_small_whatever_there_is(house: House) -> None:
    analyst = house.user("analyst")
    datasets = [house.dataset(name=f"people {k}") for k in range(50)]
    first = house.submit(analyst, datasets[0])
    columns = [column.key for column in JobRow.__table__.columns]
    with house.services.sessions.write() as session:
        one = session.get_one(JobRow, UUID(first))
        like = {name: getattr(one, name) for name in columns}
        session.execute(
            insert(JobRow),
            [
                like
                | {
                    "id": uuid4(),
                    "dataset_id": UUID(datasets[k % 50]),
                    "created_at": one.created_at - timedelta(minutes=k),
                    "reserved_until": None,
                }
                for k in range(1, 1000)
            ],
        )
    mine = ["/datasets", "/jobs", "/jobs?text=age", "/jobs/new", "/tasks/new", f"/jobs/{first}"]
    mine += ["/docs", "/docs/post-v1-jobs", "/problems", "/me", "/help", "/requests"]
    mine += [f"/compare?job={first}", f"/datasets/{datasets[0]}"]
    overseen = ["/datasets", f"/datasets/{datasets[0]}", "/users", "/audit", "/datasets/new"]
    overseen += [f"/users/{analyst.id}", "/requests", "/login"]
    for key, addresses in ((analyst.key, mine), (ADMIN, overseen)):
        house.http.cookies.clear()
        house.http.post("/login", data={"key": key, "then": "/datasets"})
        for address in addresses:
            answer = house.http.get(address)
            assert answer.status_code == 200, address
            assets = set(re.findall(r'(?:src|href)="(/static/[^"]+)"', answer.text))
            assert "/static/board.css" in assets
            plain = len(answer.content) + sum(len(house.http.get(one).content) for one in assets)
            assert sent(answer) + sum(sent(house.http.get(one)) for one in assets) < MOST_BYTES
            assert plain < MOST_BYTES, address
    house.http.cookies.clear()
    house.http.post("/login", data={"key": analyst.key, "then": "/jobs"})
    listed = house.http.get("/jobs").text
    assert listed.count('name="job"') == 50
    assert "cursor=" in listed


def sent(answer: httpx.Response) -> int:
    """How many bytes a browser receives: of scripts and styles those in gzip."""
    packed = answer.request.url.path.endswith((".js", ".css", ".svg"))
    assert (answer.headers.get("content-encoding") == "gzip") == packed, answer.request.url
    return int(answer.headers["content-length"])


def test_the_page_of_a_job_stays_small_with_many_drawings(house: House) -> None:
    analyst = house.user("analyst")
    names = [f"x{k}" for k in range(15)]
    columns = [{"name": name, "type": "number", "lower": 0, "upper": 9} for name in ("y", *names)]
    rows = "\n".join(",".join(str((k * j) % 10) for j in range(1, 17)) for k in range(200))
    told = METADATA | {"columns": columns, "name": "wide"}
    made = house.admin.upload(f"{','.join(('y', *names))}\n{rows}\n".encode(), told)
    dataset = made.json()["id"]
    model = {"family": "linear", "formula": f"y ~ {' + '.join(names)}"}
    sampler = {"algorithm": "dp_penalty", "num_steps": 2000, "num_chains": 4}
    privacy = {"epsilon": 1.0, "delta": 1e-6}
    body = {"dataset": dataset, "model": model, "sampler": sampler, "privacy": privacy}
    answer = analyst.post("/v1/jobs", json=body | {"accept_low_quality": True})
    assert answer.status_code == 202, answer.text
    job = answer.json()["id"]
    house.run(job)
    signed_in(house, analyst.key)
    page = house.http.get(f"/jobs/{job}")
    assert page.text.count('data-kind="trace"') == 6
    assets = set(re.findall(r'(?:src|href)="(/static/[^"]+)"', page.text))
    assert sent(page) + sum(sent(house.http.get(one)) for one in assets) < MOST_BYTES


def test_all_budgets_with_thousands_of_entries_are_some_steps_each(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    analyst = house.user("analyst")
    datasets = [house.dataset(name=f"people {k}") for k in range(25)]
    house.submit(analyst, datasets[0])
    columns = [column.key for column in LedgerRow.__table__.columns]
    with house.services.sessions.write() as session:
        (one,) = session.scalars(select(LedgerRow).where(LedgerRow.kind == "reserve"))
        of_job = dict.fromkeys(("job_id", "analyst_id", "event", "event_digest", "cost"))
        like = {name: getattr(one, name) for name in columns} | of_job | {"kind": "raise_budget"}
        for dataset in datasets:
            rows = [like | {"dataset_id": UUID(dataset), "seq": k} for k in range(10, 300)]
            session.execute(insert(LedgerRow), rows)
    worked_out, plain = list[str](), read._epsilon.__wrapped__

    def epsilon(terms: str, total: str) -> float:
        worked_out.append(total)
        return float(plain(terms, total))

    monkeypatch.setattr(read, "_epsilon", epsilon)
    items = analyst.get("/v1/budget").json()["items"]
    each = MOST_STEPS // len(datasets)
    assert [len(item["history"]) for item in items] == [each] * len(datasets)
    assert len(worked_out) == MOST_STEPS
    (last,) = analyst.get("/v1/budget?limit=1").json()["items"]
    assert len(last["history"]) == 200
    assert last["history"][-1] == items[0]["history"][-1]
