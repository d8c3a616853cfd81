"""What holds for every page: it stays at home, and nothing is changed by a form from elsewhere."""

import re
from typing import Any
from uuid import uuid4

import pytest
from fastapi.routing import APIRoute

from app.web import session as sessions
from app.web.inside import Api
from app.web.pages import ROUTERS
from app.web.people_pages import ACTS
from app.web.shown import left
from dpmcmc.base.digits import rounded_down
from tests.api.support import ADMIN, House, signed_in
from tests.conftest import ROOT


def paths(method: str) -> list[str]:
    """The addresses of pages, with something in their places."""
    routes = [one for router in ROUTERS for one in router.routes if isinstance(one, APIRoute)]
    found = [one.path for one in routes if method in (one.methods or ())]
    assert len(found) > 15
    return [re.sub(r"\{\w+\}", lambda _: str(uuid4()), one) for one in found]


def test_a_form_without_the_token_of_its_session_is_refused_everywhere(house: House) -> None:
    other = signed_in(house, house.user("analyst").key)
    token = signed_in(house, ADMIN)
    # the provider's word that a session has ended is signed, and comes from no browser
    posts = [one for one in paths("POST") if one not in ("/login", "/signin/oidc/logout")]
    for address in posts:
        for given in ({}, {"data": {"csrf": other}}, {"params": {"csrf": token}}):
            answer = house.http.post(address, **given)  # type: ignore[arg-type]
            assert answer.status_code == 403, (address, given)
            assert "not from a page of your present session" in answer.text
        for method in ("PUT", "PATCH", "DELETE"):
            assert house.http.request(method, address).status_code in (404, 405)


def test_only_its_own_page_signs_in(house: House) -> None:
    form = {"data": {"key": ADMIN}}
    for headers, status in (
        ({"Origin": "null"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site", "Origin": "http://testserver"}, 403),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "http://testserver"}, 303),
        ({}, 303),
    ):
        house.http.cookies.clear()
        answer = house.http.post("/login", headers=headers, follow_redirects=False, **form)
        assert answer.status_code == status, headers
        assert ("set-cookie" in answer.headers) == (status == 303)


@pytest.mark.parametrize("role", ["admin", "analyst", "auditor", None])
def test_every_page_stays_at_home_and_out_of_frames(house: House, role: str | None) -> None:
    house.http.cookies.clear()
    if role:
        signed_in(house, ADMIN if role == "admin" else house.user(role).key)
    for address in paths("GET"):
        answer = house.http.get(address, follow_redirects=True)
        assert answer.status_code < 500, address
        if "text/html" not in answer.headers["content-type"]:
            continue
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'self';")
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["cache-control"] == "no-store"
        assert not re.search(r"<script(?![^>]*(?: src=| type=.application/json))", answer.text)
        assert not re.search(r" (?:style|on\w+)=", re.sub("<pre.*?</pre>", "", answer.text))
        assert not re.search(r'(?:src|href|action)="(?:https?:)?//', answer.text)


def test_scripts_are_kept_and_asked_for_again(house: House) -> None:
    first = house.http.get("/static/live.js")
    assert first.headers["cache-control"] == "no-cache"
    again = house.http.get("/static/live.js", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_what_others_named_is_text_on_every_page(house: House) -> None:
    evil = '"><script>alert(1)</script>'
    user = house.admin.post("/v1/users", json={"name": evil, "role": "analyst"}).json()
    dataset = house.dataset(name=evil, description="</script>" + evil)
    house.admin.call("PATCH", f"/v1/datasets/{dataset}", json={"allotments": {user["id"]: 1.0}})
    overseen = ["/datasets", f"/datasets/{dataset}", "/users", f"/users/{user['id']}", "/audit"]
    mine = ["/datasets", f"/datasets/{dataset}", "/jobs", "/jobs/new", "/tasks/new", "/me"]
    for key, addresses in ((ADMIN, overseen), (user["key"], mine)):
        signed_in(house, key)
        for address in addresses:
            text = house.http.get(address).text
            assert "alert(1)" in text, address
            assert "<script>alert" not in text, address


def test_an_empty_installation_leads_by_the_hand(house: House) -> None:
    def steps() -> list[str]:
        text = house.http.get("/datasets").text.partition('class="begin"')[2].partition("</ol>")[0]
        return re.findall(r"<li(?: class=\"(done)\")?>", text)

    signed_in(house, ADMIN)
    assert steps() == ["", "", ""]
    house.user("analyst")
    assert steps() == ["", "done", ""]
    house.dataset()
    assert "Begin here" not in house.http.get("/datasets").text
    signed_in(house, house.user("auditor").key)
    assert "Begin here" not in house.http.get("/datasets").text


def test_who_is_refused_a_page_keeps_the_way_back(house: House) -> None:
    signed_in(house, house.user("analyst").key)
    for address, status in (("/jobs/nothing", 404), ("/users", 403)):
        answer = house.http.get(address)
        assert answer.status_code == status
        assert 'href="/jobs"' in answer.text


def test_a_session_that_ends_while_its_page_is_made_is_asked_for_again(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    signed_in(house, house.user("analyst").key)
    known = Api.get

    async def last_seen(api: Api, path: str, **params: Any) -> dict[str, Any]:
        user = await known(api, path, **params)
        monkeypatch.undo()
        await api.send("DELETE", f"/v1/keys/{house.http.cookies[sessions.COOKIE].split('.')[0]}")
        return user

    monkeypatch.setattr(Api, "get", last_seen)
    answer = house.http.get("/jobs?limit=5", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/jobs?limit=5")
    assert house.http.get("/jobs?limit=5").url.path == "/login"


def test_jobs_without_a_posterior_are_left_out_of_a_comparison_and_told(house: House) -> None:
    analyst, dataset = house.user("analyst"), house.dataset()
    waiting = house.submit(analyst, dataset)
    cancelled = house.submit(analyst, dataset)
    analyst.post(f"/v1/jobs/{cancelled}/cancel")
    task = {"task": {"kind": "statistic", "column": "age"}, "dataset": dataset}
    body = task | {"privacy": {"epsilon": 0.1, "delta": 1e-6}}
    made = analyst.post("/v1/jobs", json=body).json()["id"]
    others = [house.submit(analyst, dataset, num_steps=61 + k) for k in range(2)]
    signed_in(house, analyst.key)
    chosen = [waiting, cancelled, made, *others]
    text = house.http.get("/compare", params={"job": chosen}).text
    for job, told in (
        (waiting, "is queued: load this page again when it has ended."),
        (cancelled, "was cancelled."),
        (made, "is a task, which has no posterior."),
    ):
        assert f'<a href="/jobs/{job}">Job {job[:8]}</a> {told}' in text
    assert "1 more: there is room for four." in text
    assert "<figure" not in text


def test_a_doubtful_result_has_its_remedy_as_a_filled_form(house: House) -> None:
    """A chain that has not mixed: the same formula again, by the planner's choice."""
    analyst = house.user("analyst")
    job = house.submit(analyst, house.dataset())
    house.run(job)
    verdict = analyst.get(f"/v1/jobs/{job}").json()["verdict"]
    assert verdict["status"] == "unreliable"
    assert "noisy_quadratic" in verdict["sentence"]
    signed_in(house, analyst.key)
    shown = house.http.get(f"/jobs/{job}").text
    assert f'href="/jobs/new?like={job}&amp;planner=true"' in shown
    form = house.http.get(f"/jobs/new?like={job}&planner=true&epsilon=2.5").text
    assert 'value="income ~ age + sex"' in form
    assert re.search(r'name="epsilon"[^>]* value="2.5"', form)
    assert "option.num_steps" not in form
    assert "option.num_steps" in house.http.get(f"/jobs/new?like={job}").text


@pytest.mark.parametrize("written", ["nan", "1e999", "-inf"])
def test_a_number_that_is_not_finite_is_refused_in_words(house: House, written: str) -> None:
    dataset, analyst = house.dataset(), house.user("analyst")
    token = signed_in(house, analyst.key)
    form = {"csrf": token, "dataset": dataset, "epsilon": written, "delta": "1e-6", "again": "a"}
    job = form | {"formula": "income ~ age", "option.num_steps": "", "algorithm": ""}
    task = form | {"kind": "summaries", "mean.age": "on"}
    for address, fields in (("/jobs/plan", job), ("/tasks/plan", task), ("/jobs", job)):
        answer = house.http.post(address, data=fields)
        assert answer.status_code in (200, 422), answer.text
        assert "/privacy/epsilon" in answer.text
    assert analyst.get("/v1/jobs").json()["items"] == []


def test_the_trail_is_shown_by_act(house: House) -> None:
    for name in ("Ada", "Ben"):
        house.user("analyst", name)
    signed_in(house, house.user("auditor").key)

    def acts(address: str) -> list[str]:
        return re.findall('data-label="Act">([^<]+)<', house.http.get(address).text)

    assert {"user.create", "key.create"} <= set(acts("/audit"))
    assert set(acts("/audit?action=user.create")) == {"user.create"}
    assert acts("/audit?action=job.cancel") == []
    assert "No act of this kind" in house.http.get("/audit?action=job.cancel").text
    assert (
        "<option selected>user.create</option>" in house.http.get("/audit?action=user.create").text
    )


def test_every_act_that_is_recorded_can_be_chosen() -> None:
    folders = [*(ROOT / "app").rglob("*.py"), *(ROOT / "worker").rglob("*.py")]
    sources = "".join(one.read_text() for one in folders if one.name != "people_pages.py")
    wanted = r'"((?:user|key|dataset|job|request|audit|ledger|restore|master_key)\.[a-z_]+)"'
    places = {"job.html", "job.json", "user.html", "dataset.html", "audit.html"}
    found = set(re.findall(wanted, sources)) - places
    assert set(ACTS) == found


def test_auditors_see_the_names_that_the_trail_tells(house: House) -> None:
    ada = house.user("analyst", "Ada & Co")
    dataset = house.dataset(grants=[ada.id])
    house.admin.call("PATCH", f"/v1/datasets/{dataset}", json={"allotments": {ada.id: 1.0}})
    house.submit(ada, dataset)
    auditor = house.user("auditor", "Otto")
    assert auditor.get("/v1/users").status_code == 403
    signed_in(house, auditor.key)
    text = house.http.get(f"/datasets/{dataset}").text
    assert '<th scope="row" class="long">Ada &amp; Co</th>' in text  # of the cap
    assert '<td data-label="Analyst" class="long">Ada &amp; Co</td>' in text  # of the ledger
    trail = house.http.get("/audit").text
    assert '<td data-label="Of" class="long">Ada &amp; Co</td>' in trail
    assert "cap of Ada &amp; Co from none to 1" in trail
    assert re.search(r"expires at: \d{4}-\d\d-\d\d \d\d:\d\d UTC", trail)  # of a browser session
    assert "Otto" in re.findall('data-label="By" class="long">([^<]+)<', trail)  # the sign-in
    for page in (text, trail):
        assert ada.id not in page
        assert f"{ada.id[:8]}<" not in page
    signed_in(house, ada.key)
    assert house.http.get("/audit").status_code == 403
    assert "Otto" not in house.http.get(f"/datasets/{dataset}").text


@pytest.mark.parametrize("value", [0.037577, 5.8638, 1.0, 0.7, 1e-9, 12345.6, 0.0])
def test_what_is_left_is_told_as_the_library_tells_it(value: float) -> None:
    assert float(left(value)) == float(rounded_down(value)) <= value
    assert left(None) == "–"
