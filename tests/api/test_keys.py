"""Keys that end, users who are disabled, jobs that an admin stops; the last admin stays."""

import json
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from app.services.accounts import keys
from app.services.results import fetch
from app.storage.rows import KeyRow
from app.storage.types import utc_now
from tests.api.support import Caller, House, client, running


def further(house: House, who: Caller, path: str, **body: Any) -> Caller:
    answer = who.post(path, json=body)
    assert answer.status_code == 201, answer.text
    return Caller(house.http, answer.json()["key"], answer.json()["id"])


def later(**after: float) -> str:
    return (utc_now() + timedelta(**after)).isoformat()


def end_now(house: House, key: str) -> None:
    """Let time pass until the key has ended."""
    with house.services.sessions.write() as session:
        past = utc_now() - timedelta(seconds=1)
        session.execute(update(KeyRow).where(KeyRow.id == keyed(key)).values(expires_at=past))


def keyed(key: str) -> Any:
    from uuid import UUID

    return UUID(key)


def status(who: Caller, job: str) -> str:
    return str(who.get(f"/v1/jobs/{job}").json()["status"])


def test_a_key_with_an_end_works_until_then(either_house: House) -> None:
    house = either_house
    ada = house.user("analyst")
    made = further(house, house.admin, f"/v1/users/{ada.id}/keys",
                   label="laptop", expires_at=later(hours=1))  # fmt: skip
    assert made.get("/v1/jobs").status_code == 200
    shown = {key["id"]: key for key in ada.get("/v1/users/me").json()["keys"]}[made.id]
    assert shown["label"] == "laptop"
    assert shown["expires_at"] > shown["created_at"]
    end_now(house, made.id)
    assert made.get("/v1/jobs").status_code == 401
    assert ada.get("/v1/jobs").status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        {"expires_at": "2001-01-01T00:00:00Z"},
        {"expires_at": "2999-01-01T00:00:00"},
        {"expires_at": "soon"},
        {"label": ""},
        {"more": 1},
    ],
)
def test_a_new_keys_wishes_are_strict(house: House, body: dict[str, Any]) -> None:
    answer = house.user("analyst").post("/v1/users/me/keys", json=body)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")


def test_everybody_changes_the_own_key_without_an_admin(either_house: House) -> None:
    house = either_house
    for role in ("analyst", "auditor", "admin"):
        old = house.user(role)
        new = further(house, old, "/v1/users/me/keys", label="new")
        me = new.get("/v1/users/me").json()
        (first,) = [key["id"] for key in me["keys"] if key["id"] != new.id]
        assert new.call("DELETE", f"/v1/keys/{first}").status_code == 204
        assert old.get("/v1/users/me").status_code == 401
        assert new.get("/v1/users/me").status_code == 200


def test_nobody_but_an_admin_revokes_others_keys(house: House) -> None:
    ada, bob = house.user("analyst"), house.user("auditor")
    (key,) = ada.get("/v1/users/me").json()["keys"]
    assert bob.call("DELETE", f"/v1/keys/{key['id']}").status_code == 404
    assert house.admin.call("DELETE", f"/v1/keys/{key['id']}").status_code == 204


def test_a_key_that_ends_makes_none_that_lives_longer(house: House) -> None:
    ada = house.user("analyst")
    end = later(hours=1)
    short = further(house, house.admin, f"/v1/users/{ada.id}/keys", expires_at=end)
    refused = short.post("/v1/users/me/keys", json={"expires_at": later(hours=2)})
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["pointer"] == "/expires_at"
    child = further(house, short, "/v1/users/me/keys")
    shown = {key["id"]: key for key in ada.get("/v1/users/me").json()["keys"]}
    assert shown[child.id]["expires_at"] == shown[short.id]["expires_at"] is not None


def test_when_a_key_was_last_used_is_told(either_house: House) -> None:
    house = either_house
    ada = house.user("analyst")
    admin = house.admin.get("/v1/users").json()["items"]
    (unused,) = [key for user in admin if user["id"] == ada.id for key in user["keys"]]
    assert unused["last_used_at"] is None
    before = utc_now().isoformat()
    ada.get("/v1/jobs")
    (used,) = ada.get("/v1/users/me").json()["keys"]
    assert used["last_used_at"].replace("Z", "+00:00") >= before


def test_an_admin_cancels_any_job_and_its_analyst_sees_it(either_house: House) -> None:
    house = either_house
    ada, dataset = house.user("analyst"), house.dataset()
    job = house.submit(ada, dataset)
    answer = house.admin.post(f"/v1/jobs/{job}/cancel")
    assert (answer.status_code, answer.json()["status"]) == (200, "cancelled")
    assert status(ada, job) == "cancelled"
    assert ada.get(f"/v1/datasets/{dataset}/budget").json()["reserved"]["epsilon"] == 0
    act = ada.get("/v1/users/me").json()["acts"][0]
    assert (act["action"], act["subject"]) == ("job.cancel", job)
    assert house.user("auditor").post(f"/v1/jobs/{job}/cancel").status_code == 403
    assert house.admin.get(f"/v1/jobs/{job}/chain").status_code == 403


def test_a_disabled_user_is_shut_out_and_the_jobs_end(either_house: House) -> None:
    house = either_house
    ada, bob, dataset = house.user("analyst"), house.user("analyst"), house.dataset()
    mine, others = house.submit(ada, dataset), house.submit(bob, dataset)
    answer = house.admin.call("PATCH", f"/v1/users/{ada.id}", json={"disabled": True})
    assert answer.status_code == 200
    assert answer.json()["disabled_at"]
    assert ada.get("/v1/jobs").status_code == 401
    assert status(bob, others) == "queued"
    house.run(mine)
    assert house.admin.call("PATCH", f"/v1/users/{ada.id}", json={"disabled": False}).is_success
    assert status(ada, mine) == "cancelled"
    acts = [act["action"] for act in ada.get("/v1/users/me").json()["acts"]]
    assert acts == ["user.enable", "user.disable", "user.create"]


def test_a_running_job_of_a_disabled_user_stops_and_stays_paid(either_house: House) -> None:
    house = either_house
    ada, dataset = house.user("analyst"), house.dataset()
    job = house.submit(ada, dataset, num_steps=200_000, num_chains=1)
    worker = threading.Thread(target=house.run, args=(job,))
    worker.start()
    deadline = time.monotonic() + 60
    while status(ada, job) == "queued" and time.monotonic() < deadline:
        time.sleep(0.02)
    house.admin.call("PATCH", f"/v1/users/{ada.id}", json={"disabled": True})
    worker.join(60)
    assert not worker.is_alive()
    house.admin.call("PATCH", f"/v1/users/{ada.id}", json={"disabled": False})
    assert status(ada, job) == "cancelled"
    assert ada.get(f"/v1/datasets/{dataset}/budget").json()["spent"]["epsilon"] > 0


def test_a_job_of_a_disabled_user_that_slipped_in_does_not_run(either_house: House) -> None:
    from app.storage.rows import UserRow

    house = either_house
    ada = house.user("analyst")
    job = house.submit(ada, house.dataset())

    def disabled_at(moment: Any) -> None:
        with house.services.sessions.write() as session:
            session.execute(
                update(UserRow).where(UserRow.id == keyed(ada.id)).values(disabled_at=moment)
            )

    disabled_at(utc_now())
    house.run(job)
    disabled_at(None)
    assert status(ada, job) == "queued"


def test_the_last_admin_cannot_be_disabled(either_house: House) -> None:
    house = either_house
    me = house.admin.get("/v1/users/me").json()
    refused = house.admin.call("PATCH", f"/v1/users/{me['id']}", json={"disabled": True})
    assert (refused.status_code, refused.json()["code"]) == (409, "last_admin")
    second = house.user("admin")
    assert house.admin.call("PATCH", f"/v1/users/{second.id}", json={"disabled": True}).is_success
    refused = house.admin.call("PATCH", f"/v1/users/{me['id']}", json={"disabled": True})
    assert refused.json()["code"] == "last_admin"
    further(house, house.admin, "/v1/users/me/keys", expires_at=later(hours=1))
    (lasting,) = [key for key in house.admin.get("/v1/users/me").json()["keys"]
                  if key["expires_at"] is None]  # fmt: skip
    refused = house.admin.call("DELETE", f"/v1/keys/{lasting['id']}")
    assert (refused.status_code, refused.json()["code"]) == (409, "last_admin_key")
    assert house.admin.call("PATCH", f"/v1/users/{second.id}", json={"disabled": False}).is_success
    assert second.call("PATCH", f"/v1/users/{me['id']}", json={"disabled": True}).is_success


@pytest.mark.parametrize("way", ["revoked", "ended", "disabled"])
def test_a_stream_ends_with_its_key(either_house: House, way: str) -> None:
    house = either_house
    ada = house.user("analyst")
    job = keyed(house.submit(ada, house.dataset()))
    caller = keys.authenticate(house.services, ada.key)
    assert caller is not None
    assert fetch.watched(house.services, {job}, {caller})[1] == {caller}
    (key,) = ada.get("/v1/users/me").json()["keys"]
    if way == "revoked":
        house.admin.call("DELETE", f"/v1/keys/{key['id']}")
    elif way == "ended":
        end_now(house, key["id"])
    else:
        with_it = {"disabled": True}
        house.admin.call("PATCH", f"/v1/users/{ada.id}", json=with_it)
    assert fetch.watched(house.services, {job}, {caller})[1] == set()


@pytest.mark.longer
def test_a_stream_over_http_ends_with_its_key(tmp_path: Path) -> None:
    from tests.api.support import ADMIN, CSV, METADATA, job_of

    with running(tmp_path, {"DPMCMC_WORKERS": "0"}) as (_, service):
        admin = client(service, ADMIN)
        (tmp_path / "rows.csv").write_bytes(CSV)
        dataset = admin.upload(tmp_path / "rows.csv", METADATA)["id"]
        made = admin.create_user("ada", "analyst")
        ada = client(service, made["key"])
        job = ada.submit(job_of(dataset))["id"]
        heard: list[Any] = []
        listening = threading.Thread(target=lambda: heard.extend(ada.events(job)))
        listening.start()
        time.sleep(1.0)
        assert listening.is_alive()
        admin._send("DELETE", f"/v1/keys/{made['key_id']}")
        listening.join(10)
        assert not listening.is_alive()
        assert json.dumps([event.data for event in heard]).count("queued") == 1
