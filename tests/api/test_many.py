"""Pages of a service with 1,000 jobs on 50 datasets stay small, their scripts and styles too."""

import re
from datetime import timedelta
from uuid import UUID, uuid4

from sqlalchemy import insert

from app.storage.rows import JobRow
from tests.api.support import ADMIN, House

MOST_BYTES = 400_000


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
    mine += ["/docs", "/problems", "/me"]
    overseen = ["/datasets", f"/datasets/{datasets[0]}", "/users", "/audit", "/datasets/new"]
    for key, addresses in ((analyst.key, mine), (ADMIN, overseen)):
        house.http.cookies.clear()
        house.http.post("/login", data={"key": key, "then": "/datasets"})
        for address in addresses:
            answer = house.http.get(address)
            assert answer.status_code == 200, address
            assets = set(re.findall(r'(?:src|href)="(/static/[^"]+)"', answer.text))
            assert "/static/board.css" in assets
            whole = len(answer.content) + sum(len(house.http.get(one).content) for one in assets)
            assert whole < MOST_BYTES, address
    house.http.cookies.clear()
    house.http.post("/login", data={"key": analyst.key, "then": "/jobs"})
    listed = house.http.get("/jobs").text
    assert listed.count('name="job"') == 50
    assert "cursor=" in listed
