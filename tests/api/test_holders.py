"""Several data holders: a dataset and a ledger each, and a pooled one that debits all of them."""

import json
import random
import threading
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import delete, select, update

from app import rotate_key
from app.services import presence
from app.services.budgets import rewind
from app.services.upkeep import migrate
from app.storage.rows import DatasetRow, LedgerHeadRow, LedgerRow
from tests.api.support import Caller, House, house_in

NAMES = ["north", "south", "west"]
ROWS = {"north": 300, "south": 200, "west": 100}
METADATA: dict[str, Any] = {
    "name": "clinics",
    "privacy": {"epsilon": 4.0, "delta": 1e-6},
    "columns": [
        {"name": "x", "type": "number", "lower": -1, "upper": 1},
        {"name": "y", "type": "number", "lower": -3, "upper": 3},
    ],
}


def rows_of(site: str) -> list[str]:
    draw = random.Random(site)
    xs = [draw.uniform(-1, 1) for _ in range(ROWS[site])]
    return [f"{x:.6f},{x + 0.3 * draw.gauss(0, 1):.6f}" for x in xs]


def one_file(mixed: bool = True) -> bytes:
    """The rows of all, one after another's, with a column that says whose they are."""
    lines = [f"{line},{site}" for site in NAMES for line in rows_of(site)]
    if mixed:
        random.Random(7).shuffle(lines)
    return "\n".join(["x,y,site", *lines, ""]).encode()


def parts(files: list[bytes], metadata: dict[str, Any]) -> list[Any]:
    told: list[Any] = [("metadata", (None, json.dumps(metadata)))]
    return told + [("file", (f"{at}.csv", content)) for at, content in enumerate(files)]


def send(house: House, files: list[bytes], **changes: Any) -> Any:
    return house.admin.post("/v1/datasets", files=parts(files, METADATA | changes))


BY_COLUMN = {"holders": {"names": NAMES, "column": "site"}}
BY_FILES = {"holders": {"names": NAMES}}


def pooled(house: House, **changes: Any) -> tuple[str, dict[str, str]]:
    answer = send(house, [one_file()], **BY_COLUMN | changes)
    assert answer.status_code == 201, answer.text
    made = answer.json()
    return made["id"], {one["name"]: one["dataset"] for one in made["holders"]}


def job_on(dataset: str, epsilon: float = 0.5, **sampler: Any) -> dict[str, Any]:
    return {
        "dataset": dataset,
        "model": {"family": "linear", "formula": "y ~ x"},
        "sampler": {"algorithm": "sufficient_statistics", "num_steps": 100} | sampler,
        "privacy": {"epsilon": epsilon, "delta": 1e-6},
        "accept_low_quality": True,
    }


def submit(analyst: Caller, dataset: str, epsilon: float = 0.5, **sampler: Any) -> str:
    answer = analyst.post("/v1/jobs", json=job_on(dataset, epsilon, **sampler))
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


def budget(house: House, dataset: str) -> dict[str, Any]:
    found: dict[str, Any] = house.admin.get(f"/v1/datasets/{dataset}/budget").json()
    return found


def held(house: House, dataset: str) -> float:
    found = budget(house, dataset)
    return float(found["spent"]["epsilon"] + found["reserved"]["epsilon"])


def verified(house: House, *datasets: str) -> None:
    for dataset in datasets:
        found = house.admin.post(f"/v1/datasets/{dataset}/ledger/verify").json()
        assert found["ok"], found


def test_a_column_or_a_file_each_says_whose_the_rows_are(house: House) -> None:
    files = ["\n".join(["x,y", *rows_of(site), ""]).encode() for site in NAMES]
    for content, changes in (([one_file()], BY_COLUMN), (files, BY_FILES)):
        answer = send(house, content, name=f"clinics {len(content)}", **changes)
        assert answer.status_code == 201, answer.text
        made = answer.json()
        assert made["rows"] == sum(ROWS.values())
        assert [column["name"] for column in made["columns"]] == ["x", "y"]
        assert {one["name"]: one["rows"] for one in made["holders"]} == ROWS
        for one in made["holders"]:
            own = house.admin.get(f"/v1/datasets/{one['dataset']}").json()
            assert own["pool"] == made["id"]
            assert own["name"] == f"{made['name']}/{one['name']}"
            assert own["rows"] == one["rows"]
        at = UUID(made["id"])
        with house.services.sessions.read() as session:
            pool = session.get_one(DatasetRow, at)
            holders = [session.get_one(DatasetRow, UUID(one["dataset"])) for one in pool.holders]
        files_of = house.services.vault.files
        table = files_of.load(pool, holders)._Private__value  # type: ignore[attr-defined]
        found = [f"{x:.6f},{y:.6f}" for x, y in zip(*table.columns.values(), strict=True)]
        wanted = [rows_of(site) for site in NAMES]
        start = 0
        for rows in wanted:  # each holder's rows are together, in the order of the holders
            assert sorted(found[start : start + len(rows)]) == sorted(rows)
            start += len(rows)


def test_a_holders_job_costs_its_own_ledger_and_a_pooled_one_all(either_house: House) -> None:
    house = either_house
    ada = house.user("analyst")
    pool, holders = pooled(house)
    house.run(submit(ada, holders["north"], 1.0))
    assert held(house, holders["north"]) == pytest.approx(1.0, abs=0.01)
    assert held(house, holders["south"]) == held(house, pool) == 0.0
    assert budget(house, pool)["remaining"] == budget(house, holders["north"])["remaining"]
    assert budget(house, pool)["remaining"]["epsilon"] < 4.0
    job = submit(ada, pool, 1.0, num_holders=3)
    house.run(job)
    assert ada.get(f"/v1/jobs/{job}").json()["status"] == "succeeded"
    assert held(house, pool) == held(house, holders["south"]) == pytest.approx(1.0, abs=0.01)
    assert held(house, holders["north"]) > 1.3  # two jobs, composed
    entries = house.admin.get(f"/v1/datasets/{holders['south']}/ledger").json()["items"]
    assert [entry["kind"] for entry in entries] == ["open", "reserve", "post"]
    assert entries[1]["details"]["dataset"] == pool
    assert entries[1]["event"]["kind"] == "parallel"
    verified(house, pool, *holders.values())


def test_what_one_holder_cannot_pay_nobody_pays(either_house: House) -> None:
    house = either_house
    ada = house.user("analyst")
    pool, holders = pooled(house)
    submit(ada, holders["west"], 3.9)
    plan = ada.post("/v1/plans", json=job_on(pool, 2.0)).json()
    assert not plan["affordable"]
    answer = ada.post("/v1/jobs", json=job_on(pool, 2.0))
    assert (answer.status_code, answer.json()["code"]) == (409, "budget_exhausted")
    assert answer.json()["remaining"]["epsilon"] < 1.0
    for dataset in (pool, holders["north"], holders["south"]):
        assert held(house, dataset) == 0.0
        assert budget(house, dataset)["jobs"] == 0
    submit(ada, holders["south"], 3.9)
    verified(house, pool, *holders.values())


def test_a_cancelled_job_gives_back_to_all(either_house: House) -> None:
    house = either_house
    ada = house.user("analyst")
    pool, holders = pooled(house)
    job = submit(ada, pool, 1.0)
    assert all(held(house, at) > 0.9 for at in (pool, *holders.values()))
    assert ada.post(f"/v1/jobs/{job}/cancel").json()["status"] == "cancelled"
    assert all(held(house, at) == 0.0 for at in (pool, *holders.values()))
    verified(house, pool, *holders.values())


def test_a_cap_on_a_holders_dataset_holds_for_pooled_jobs(house: House) -> None:
    ada, bob = house.user("analyst"), house.user("analyst")
    pool, holders = pooled(house)
    caps = {"allotments": {ada.id: 0.5}}
    changed = house.admin.call("PATCH", f"/v1/datasets/{holders['west']}", json=caps)
    assert changed.status_code == 200, changed.text
    answer = ada.post("/v1/jobs", json=job_on(pool, 1.0))
    assert (answer.status_code, answer.json()["of"]) == (409, "allotment")
    assert not ada.post("/v1/plans", json=job_on(pool, 1.0)).json()["affordable"]
    submit(bob, pool, 1.0)


def test_a_holder_that_leaves_ends_the_pool_and_nobody_elses_rows(either_house: House) -> None:
    house = either_house
    ada = house.user("analyst")
    pool, holders = pooled(house)
    waiting = submit(ada, pool)
    gone = house.admin.call("DELETE", f"/v1/datasets/{holders['north']}")
    assert gone.status_code == 204
    status = {
        name: house.admin.get(f"/v1/datasets/{at}").json()["status"]
        for name, at in {"pool": pool, **holders}.items()
    }
    assert status == {"pool": "destroyed", "north": "destroyed", "south": "open", "west": "open"}
    assert ada.get(f"/v1/jobs/{waiting}").json()["status"] == "cancelled"
    assert held(house, holders["south"]) == 0.0
    assert ada.post("/v1/jobs", json=job_on(pool)).status_code in (404, 409)
    house.run(submit(ada, holders["south"]))
    verified(house, pool, *holders.values())


def test_a_destroyed_pool_leaves_no_holders_file(house: House) -> None:
    pool, holders = pooled(house)
    folder = house.settings.datasets_dir
    assert len(list(folder.glob("*.rows"))) == 3
    assert house.admin.call("DELETE", f"/v1/datasets/{pool}").status_code == 204
    assert not list(folder.glob("*.rows"))
    for at in holders.values():
        assert house.admin.get(f"/v1/datasets/{at}").json()["status"] == "destroyed"


def test_a_raised_pool_raises_its_holders_and_lowers_none(house: House) -> None:
    pool, holders = pooled(house)
    change = {"privacy": {"epsilon": 6.0}}
    for at in (holders["west"], pool):
        answer = house.admin.call("PATCH", f"/v1/datasets/{at}", json=change)
        assert answer.status_code == 200, answer.text
        change = {"privacy": {"epsilon": 5.0}}
    found = {name: budget(house, at)["epsilon"] for name, at in {"pool": pool, **holders}.items()}
    assert found == {"pool": 5.0, "north": 5.0, "south": 5.0, "west": 6.0}
    verified(house, pool, *holders.values())


REFUSED: list[tuple[dict[str, Any], int, str]] = [
    ({"holders": {"names": ["north"], "column": "site"}}, 1, "/metadata/holders/names"),
    ({"holders": {"names": ["north", "north"], "column": "site"}}, 1, "/metadata/holders"),
    ({"holders": {"names": ["north", "south"], "column": "site"}}, 1, "/metadata/holders/column"),
    ({"holders": {"names": NAMES, "column": "place"}}, 1, "/metadata/holders/column"),
    ({"holders": {"names": NAMES, "column": "x"}}, 1, "/metadata"),
    ({"holders": {"names": [*NAMES, "east"], "column": "site"}}, 1, "/metadata/holders/names/3"),
    ({"holders": {"names": [*NAMES, "e" * 199], "column": "site"}}, 1, "/metadata/holders/names/3"),
    ({"holders": {"names": NAMES}}, 1, "/file"),
    ({"holders": {"names": NAMES, "column": "site"}}, 2, "/file"),
    ({}, 2, "/file"),
    (BY_COLUMN | {"population": "town"}, 1, "/metadata/population"),
    (BY_COLUMN | {"privacy": {"epsilon": 1.0, "delta": 0.005}}, 1, "/metadata/privacy/delta"),
]


@pytest.mark.parametrize(("changes", "files", "pointer"), REFUSED)
def test_what_is_wrong_with_holders_is_said_and_nothing_stays(
    house: House, changes: dict[str, Any], files: int, pointer: str
) -> None:
    answer = send(house, [one_file()] * files, **changes)
    assert answer.status_code == 422, answer.text
    assert pointer in [fault["pointer"] for fault in answer.json()["errors"]], answer.text
    assert house.admin.get("/v1/datasets").json()["items"] == []
    assert not list(house.settings.datasets_dir.glob("*.rows"))


def test_holders_sums_are_released_apart_where_that_is_asked_for(house: House) -> None:
    ada = house.user("analyst")
    pool, holders = pooled(house)
    apart = ada.post("/v1/plans", json=job_on(pool, 2.0, num_holders=3)).json()
    whole = ada.post("/v1/plans", json=job_on(pool, 2.0)).json()
    assert apart["epsilon"] == whole["epsilon"]
    assert apart["expected_width"] > whole["expected_width"]
    for at, number in ((pool, 2), (holders["north"], 3)):
        answer = ada.post("/v1/plans", json=job_on(at, 2.0, num_holders=number))
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["pointer"] == "/sampler/num_holders"


def test_jobs_of_many_at_once_overspend_no_ledger_and_wait_in_no_circle(
    either_house: House,
) -> None:
    house = either_house
    ada = house.user("analyst")
    pool, holders = pooled(house)
    everyone = [pool, *holders.values()]
    answers: list[int] = []

    def work(seed: int) -> None:
        draw = random.Random(seed)
        for _ in range(4):
            answer = ada.post("/v1/jobs", json=job_on(draw.choice(everyone), 0.9))
            answers.append(answer.status_code)
            if answer.status_code == 202 and draw.random() < 0.5:
                gone = ada.post(f"/v1/jobs/{answer.json()['id']}/cancel")
                answers.append(gone.status_code)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(answers) <= {200, 202, 409}
    verified(house, *everyone)
    off = house.admin.call("PATCH", f"/v1/users/{ada.id}", json={"disabled": True})
    assert off.status_code == 200
    assert all(held(house, at) == 0.0 for at in everyone)
    verified(house, *everyone)


def test_a_holders_rewound_ledger_stops_pooled_jobs(house: House) -> None:
    ada = house.user("analyst")
    pool, holders = pooled(house)
    west = UUID(holders["west"])
    house.run(submit(ada, holders["west"]))
    anchors = house.services.vault.anchors
    (anchor,) = [one for one in anchors.latest().values() if one.ledger == west]
    ahead = anchor.__class__(
        **{**{k: getattr(anchor, k) for k in anchor.__dataclass_fields__}, "seq": 9}
    )
    anchors.append([ahead])
    answer = ada.post("/v1/jobs", json=job_on(pool))
    assert (answer.status_code, answer.json().get("code")) == (503, "ledger_rewound")
    assert [one.datasets for one in rewind.rewound(house.services)] == [sorted([UUID(pool), west])]
    accepted = house.admin.post("/v1/restore", json={"accept": True, "reason": "put back"})
    assert accepted.status_code == 200, accepted.text
    assert ada.post("/v1/jobs", json=job_on(pool)).status_code == 202


def test_every_ledger_that_pays_is_anchored_before_rows_are_opened(house: House) -> None:
    ada = house.user("analyst")
    pool, holders = pooled(house)
    house.run(submit(ada, pool))
    latest = house.services.vault.anchors.latest()
    for at in (pool, *holders.values()):
        assert latest[UUID(at)].seq == 3


def test_a_rotated_master_key_opens_holders_rows(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presence, "alive", lambda _: False)  # this process, which ran the jobs
    with house_in(tmp_path) as house:
        pool, _ = pooled(house)
        settings = house.settings
        house.services.close()
    rotate_key.rotate(settings)
    migrate(settings)
    with house_in(tmp_path) as house:
        ada = house.user("analyst")
        job = submit(ada, pool)
        house.run(job)
        assert ada.get(f"/v1/jobs/{job}").json()["status"] == "succeeded"
        house.services.close()


def test_a_holders_ledger_alone_shows_what_was_taken_away(house: House) -> None:
    ada = house.user("analyst")
    pool, holders = pooled(house)
    submit(ada, pool)
    north = UUID(holders["north"])
    with house.services.sessions.read() as session:
        kept = session.scalars(select(LedgerRow.kind).where(LedgerRow.dataset_id == north)).all()
    assert kept == ["open", "reserve"]
    with pytest.raises(Exception, match="ledger"), house.services.sessions.write() as session:
        session.execute(delete(LedgerRow).where(LedgerRow.dataset_id == north))
    with pytest.raises(Exception, match="ledger"), house.services.sessions.write() as session:
        session.execute(
            update(LedgerHeadRow).where(LedgerHeadRow.dataset_id == north).values(seq=1)
        )
