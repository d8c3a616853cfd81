"""Who may do what: every route against every role, and other people's things."""

from uuid import uuid4

import pytest

from tests.api.support import Caller, House

ALL = {"admin", "analyst", "auditor"}
ALLOWED = {
    ("POST", "/v1/datasets"): {"admin"},
    ("POST", "/v1/datasets/inspect"): {"admin"},
    ("POST", "/v1/datasets/schema"): {"admin"},
    ("POST", "/v1/datasets/snapshots"): {"admin"},
    ("POST", "/v1/datasets/{id}/refresh"): {"admin"},
    ("GET", "/v1/sources"): {"admin"},
    ("GET", "/v1/datasets"): ALL,
    ("GET", "/v1/datasets/{id}"): ALL,
    ("PATCH", "/v1/datasets/{id}"): {"admin"},
    ("DELETE", "/v1/datasets/{id}"): {"admin"},
    ("GET", "/v1/datasets/{id}/dummy"): ALL,
    ("GET", "/v1/datasets/{id}/budget"): ALL,
    ("GET", "/v1/datasets/{id}/ledger"): {"admin", "auditor"},
    ("POST", "/v1/datasets/{id}/ledger/verify"): {"admin", "auditor"},
    ("GET", "/v1/budget"): ALL,
    ("POST", "/v1/plans"): {"analyst"},
    ("POST", "/v1/jobs"): {"analyst"},
    ("GET", "/v1/jobs"): {"analyst"},
    ("GET", "/v1/jobs/{id}"): {"analyst"},
    ("PATCH", "/v1/jobs/{id}"): {"analyst"},
    ("GET", "/v1/jobs/events"): {"analyst"},
    ("GET", "/v1/jobs/{id}/events"): {"analyst"},
    ("POST", "/v1/jobs/{id}/cancel"): {"admin", "analyst"},
    ("GET", "/v1/jobs/{id}/chain"): {"analyst"},
    ("GET", "/v1/jobs/{id}/summary"): {"analyst"},
    ("POST", "/v1/jobs/{id}/posteriors"): {"analyst"},
    ("GET", "/v1/jobs/{id}/result"): {"analyst"},
    ("GET", "/v1/jobs/{id}/tables/{number}"): {"analyst"},
    ("POST", "/v1/jobs/{id}/inferences"): {"analyst"},
    ("POST", "/v1/users"): {"admin"},
    ("GET", "/v1/users"): {"admin"},
    ("GET", "/v1/users/me"): ALL,
    ("PATCH", "/v1/users/me"): ALL,
    ("GET", "/v1/users/{id}"): {"admin"},
    ("PATCH", "/v1/users/{id}"): {"admin"},
    ("POST", "/v1/users/me/keys"): ALL,
    ("DELETE", "/v1/users/me/keys"): ALL,
    ("POST", "/v1/users/{id}/keys"): {"admin"},
    ("GET", "/metrics"): {"admin", "auditor"},
    ("DELETE", "/v1/users/{id}/keys"): {"admin"},
    ("POST", "/v1/access-requests"): {"analyst"},
    ("GET", "/v1/access-requests"): ALL,
    ("GET", "/v1/access-requests/{id}"): ALL,
    ("PATCH", "/v1/access-requests/{id}"): {"admin", "analyst"},
    ("GET", "/v1/audit"): {"admin", "auditor"},
    ("POST", "/v1/audit/verify"): {"admin", "auditor"},
    ("GET", "/v1/restore"): {"admin", "auditor"},
    ("POST", "/v1/restore"): {"admin"},
    ("GET", "/v1/keys/{id}"): ALL,
    ("DELETE", "/v1/keys/{id}"): ALL,
    ("GET", "/v1/models"): ALL,
    ("GET", "/v1/samplers"): ALL,
    ("POST", "/v1/accounting/compose"): ALL,
    ("POST", "/v1/accounting/noise"): ALL,
    ("POST", "/v1/accounting/steps"): ALL,
    ("POST", "/v1/accounting/statistic"): {"analyst"},
}
OPEN = {"/healthz", "/readyz", "/v1/sign-in"}


def routes(house: House) -> set[tuple[str, str]]:
    paths = house.http.get("/openapi.json").json()["paths"]
    return {(method.upper(), path) for path, item in paths.items() for method in item}


def test_the_matrix_knows_every_route(house: House) -> None:
    assert {r for r in routes(house) if r[1] not in OPEN} == set(ALLOWED)


@pytest.mark.longer
def test_every_route_lets_its_roles_in_and_nobody_else(house: House) -> None:
    callers = {role: house.user(role) for role in ALL}
    for (method, path), allowed in ALLOWED.items():
        address = path.replace("{id}", str(uuid4()))
        for key in (None, "", "Bearer", "Bearer nonsense", "Basic Zm9vOmJhcg=="):
            headers = {} if key is None else {"Authorization": key}
            answer = house.http.request(method, address, headers=headers)
            assert answer.status_code == 401, (method, path, key)
            assert answer.json()["code"] == "unauthenticated"
            assert answer.headers["www-authenticate"].startswith("Bearer")
        for role, caller in callers.items():
            status = caller.call(method, address).status_code
            assert (status == 403) == (role not in allowed), (method, path, role, status)
            assert status not in (401, 500)


def test_the_wrong_role_is_told_before_the_body_is_read(house: House) -> None:
    answer = house.user("auditor").post("/v1/users", content=b"{")
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


@pytest.mark.parametrize("what", ["", "/events", "/chain", "/summary", "/cancel", "/posteriors"])
def test_somebody_elses_job_is_404(house: House, what: str) -> None:
    job = house.submit(house.user("analyst"), house.dataset())
    method = "POST" if what in ("/cancel", "/posteriors") else "GET"
    body = {"json": {}} if what == "/posteriors" else {}
    answer = house.user("analyst").call(method, f"/v1/jobs/{job}{what}", **body)
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


def test_an_analyst_lists_only_own_jobs(house: House) -> None:
    ada, bob, dataset = house.user("analyst"), house.user("analyst"), house.dataset()
    mine = house.submit(ada, dataset)
    house.submit(bob, dataset)
    assert [job["id"] for job in ada.get("/v1/jobs").json()["items"]] == [mine]


@pytest.mark.parametrize("form", ["x", "{%s}", "urn:uuid:%s", "%s0", "0"])
def test_what_is_no_identifier_names_nothing(house: House, form: str) -> None:
    dataset = house.dataset()
    name = form.replace("%s", dataset)
    assert house.admin.get(f"/v1/datasets/{name}").status_code == 404


def test_a_key_works_until_it_is_revoked(house: House) -> None:
    ada = house.user("analyst")
    made = house.admin.post(f"/v1/users/{ada.id}/keys").json()
    second = Caller(house.http, made["key"])
    assert second.get("/v1/jobs").status_code == 200
    assert house.admin.call("DELETE", f"/v1/keys/{made['id']}").status_code == 204
    assert second.get("/v1/jobs").status_code == 401
    assert ada.get("/v1/jobs").status_code == 200
    assert house.admin.call("DELETE", f"/v1/keys/{made['id']}").status_code == 204


def test_keys_are_never_shown_again_nor_stored(house: House) -> None:
    ada = house.user("analyst")
    assert ada.key not in house.admin.get("/v1/users").text
    stored = b"".join(p.read_bytes() for p in house.settings.data_dir.glob("dpmcmc.sqlite3*"))
    assert ada.id.replace("-", "").encode() in stored
    assert ada.key.encode() not in stored
    assert house.admin.key.encode() not in stored


def test_the_last_admin_key_cannot_be_revoked(house: House) -> None:
    (admin,) = house.admin.get("/v1/users").json()["items"]
    (key,) = admin["keys"]
    answer = house.admin.call("DELETE", f"/v1/keys/{key['id']}")
    assert (answer.status_code, answer.json()["code"]) == (409, "last_admin_key")


def test_two_users_do_not_share_a_name(house: House) -> None:
    house.user("analyst", name="Ada")
    answer = house.admin.post("/v1/users", json={"name": "Ada", "role": "auditor"})
    assert (answer.status_code, answer.json()["code"]) == (409, "name_taken")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": "x", "role": "root"},
        {"name": "", "role": "admin"},
        {"name": 1, "role": "admin"},
    ],
)
def test_users_are_strict(house: House, body: dict[str, object]) -> None:
    assert house.admin.post("/v1/users", json=body).status_code == 422
