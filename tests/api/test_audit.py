"""Who did what: every administrative act is an entry, chained, and told to whom it concerns."""

import json
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from app.ledger.audit import GENESIS
from tests.api.support import METADATA, Caller, House

DISARM = {
    "sqlite": ["DROP TRIGGER audit_entries_no_update", "DROP TRIGGER audit_entries_no_delete"],
    "postgresql": ["ALTER TABLE audit_entries DISABLE TRIGGER ALL"],
}


def trail(house: House) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = house.admin.get("/v1/audit?limit=200").json()["items"]
    return found


def run(house: House, *statements: str) -> None:
    with house.services.sessions.engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))


def verified(house: House, **body: Any) -> dict[str, Any]:
    found: dict[str, Any] = house.admin.post("/v1/audit/verify", **body).json()
    return found


def test_every_administrative_act_is_an_entry(either_house: House) -> None:
    house = either_house
    ada = house.user("analyst", "Ada")
    dataset = house.dataset(grants=[ada.id])
    changes = {"allotments": {ada.id: 1.5}, "archived": True, "privacy": {"epsilon": 5.0}}
    assert house.admin.call("PATCH", f"/v1/datasets/{dataset}", json=changes).is_success
    key = house.admin.post(f"/v1/users/{ada.id}/keys").json()
    house.admin.call("DELETE", f"/v1/keys/{key['id']}")
    house.admin.post(f"/v1/datasets/{dataset}/ledger/verify")
    house.admin.call("DELETE", f"/v1/datasets/{dataset}")
    assert verified(house)["ok"]
    entries = trail(house)
    assert [(entry["action"], entry["subject"]) for entry in entries] == [
        ("key.create", entries[0]["key"] or entries[0]["subject"]),
        ("user.create", ada.id),
        ("dataset.create", dataset),
        ("dataset.amend", dataset),
        ("key.create", key["id"]),
        ("key.revoke", key["id"]),
        ("ledger.verify", dataset),
        ("dataset.destroy", dataset),
        ("audit.verify", None),
    ]
    admin = house.admin.get("/v1/users/me").json()
    assert entries[0]["actor"] is None  # the service itself, for a configured key
    assert {entry["actor"] for entry in entries[1:]} == {admin["id"]}
    assert {entry["key"] for entry in entries[1:]} == {admin["keys"][0]["id"]}
    assert {entry["address"] for entry in entries[1:]} == {"testclient"}
    assert entries[3]["details"]["changes"] == changes
    before = {"privacy": {"epsilon": 4.0}, "archived": False, "allotments": {ada.id: None}}
    assert entries[3]["details"]["before"] == before
    assert [entry["seq"] for entry in entries] == list(range(1, 10))
    assert [entry["previous"] for entry in entries] == [
        GENESIS,
        *(entry["hash"] for entry in entries[:-1]),
    ]


def test_an_act_that_was_refused_is_no_entry(either_house: House) -> None:
    dataset = either_house.dataset()
    before = len(trail(either_house))
    refused = either_house.admin.call(
        "PATCH", f"/v1/datasets/{dataset}", json={"privacy": {"epsilon": 0.5}}
    )
    assert refused.status_code == 422
    either_house.user("analyst", "Ada")
    again = either_house.admin.post("/v1/users", json={"name": "Ada", "role": "analyst"})
    assert again.status_code == 409
    assert len(trail(either_house)) == before + 1


def test_the_trail_is_read_by_pages(house: House) -> None:
    for _ in range(3):
        house.user("analyst")
    first = house.admin.get("/v1/audit?limit=3").json()
    second = house.admin.get(f"/v1/audit?limit=3&cursor={first['next_cursor']}").json()
    assert [entry["seq"] for entry in first["items"] + second["items"]] == [1, 2, 3, 4]
    assert second["next_cursor"] is None


@pytest.mark.parametrize(
    "statement",
    ["UPDATE audit_entries SET action = 'x' WHERE seq = 1", "DELETE FROM audit_entries"],
)
def test_the_database_refuses_to_change_the_trail(either_house: House, statement: str) -> None:
    either_house.user("analyst")
    with pytest.raises(DBAPIError, match="immutable"):
        run(either_house, statement)
    assert verified(either_house)["ok"]


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("UPDATE audit_entries SET details = '{}' WHERE seq = 2", "entry 2: changed"),
        ("UPDATE audit_entries SET actor_id = NULL WHERE seq = 2", "entry 2: changed"),
        ("DELETE FROM audit_entries WHERE seq = 2", "entry 2: missing"),
    ],
)
def test_a_changed_trail_is_found(either_house: House, statement: str, problem: str) -> None:
    for _ in range(3):
        either_house.user("analyst")
    run(either_house, *DISARM[either_house.services.sessions.engine.dialect.name], statement)
    found = verified(either_house)
    assert not found["ok"]
    assert problem in found["problem"]


def test_entries_cut_off_are_found_by_an_anchor(either_house: House) -> None:
    either_house.user("analyst")
    kept = verified(either_house)
    anchor = {"rows": kept["rows"], "head": kept["head"]}
    assert verified(either_house, json={"anchor": anchor})["ok"]
    run(
        either_house,
        *DISARM[either_house.services.sessions.engine.dialect.name],
        f"DELETE FROM audit_entries WHERE seq >= {kept['rows']}",
    )
    assert verified(either_house)["ok"], "no hash chain can find this by itself"
    later = verified(either_house, json={"anchor": anchor | {"rows": kept["rows"] + 50}})
    assert "missing" in later["problem"]
    assert not verified(either_house, json={"anchor": anchor})["ok"]


@pytest.mark.parametrize("anchor", [{"rows": 0, "head": "0" * 64}, {"rows": 1}, {"head": 1}, 3])
def test_an_anchor_is_strict(house: House, anchor: Any) -> None:
    answer = house.admin.post("/v1/audit/verify", json={"anchor": anchor})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")


def test_an_analyst_sees_a_key_that_somebody_else_made(either_house: House) -> None:
    house = either_house
    ada = house.user("analyst", "Ada")
    admin = house.admin.get("/v1/users/me").json()["id"]
    made = house.admin.post(f"/v1/users/{ada.id}/keys").json()
    seen = ada.get("/v1/users/me").json()
    assert [key["created_by"] for key in seen["keys"]] == [admin, admin]
    newest = seen["acts"][0]
    assert (newest["action"], newest["subject"]) == ("key.create", made["id"])
    assert newest["actor"] == admin
    others = house.user("analyst", "Bob").get("/v1/users/me").json()["acts"]
    assert [act["action"] for act in others] == ["user.create"]


def test_the_trail_holds_no_key_and_no_row(house: House) -> None:
    ada = house.user("analyst", "Ada")
    second = house.admin.post(f"/v1/users/{ada.id}/keys").json()["key"]
    secret = "Dagobert-was-here"
    broken = f"age,sex,income\n30,{secret},>50K\n".encode()
    assert house.admin.upload(broken, METADATA).status_code == 422
    house.dataset()
    told = json.dumps(trail(house))
    for hidden in (ada.key, second, house.admin.key, secret):
        assert hidden not in told


def test_who_verifies_may_send_no_body_at_all(house: House) -> None:
    auditor: Caller = house.user("auditor")
    assert auditor.post("/v1/audit/verify").json()["ok"]
    assert auditor.post("/v1/audit/verify", json={}).json()["ok"]
    assert auditor.post("/v1/audit/verify", content=b"x").status_code == 415


def test_the_acts_of_one_kind_are_listed_page_by_page(either_house: House) -> None:
    house = either_house
    made = [house.user("analyst").id for _ in range(3)]
    house.dataset()
    first = house.admin.get("/v1/audit?action=user.create&limit=2").json()
    cursor = first["next_cursor"]
    rest = house.admin.get(f"/v1/audit?action=user.create&limit=2&cursor={cursor}").json()
    assert rest["next_cursor"] is None
    assert [one["subject"] for one in first["items"] + rest["items"]] == made
    assert house.admin.get("/v1/audit?action=no.such").json()["items"] == []
    assert house.admin.get("/v1/audit?action=A%27").status_code == 422
