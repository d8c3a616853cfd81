"""Signing in to the dashboard at an identity provider: who comes in, and above all who does not."""

import base64
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import httpx
import pytest
from fastapi import Request
from pydantic import ValidationError
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from app.main import create_app
from app.services.accounts import sign_in, tokens
from app.settings import Settings
from app.storage.rows import KeyRow, ProviderSessionRow, UserRow
from app.storage.types import utc_now
from app.web import people_pages
from app.web.session import ATTEMPT, COOKIE
from tests.api.support import ADMIN, PLANNERS, Caller, House, TestClient, house_in
from tests.provider import CLIENT, Provider, provider

HERE = "http://testserver"


@pytest.fixture
def outside() -> Iterator[Provider]:
    with provider() as made:
        yield made


@pytest.fixture
def entered(tmp_path: Path, outside: Provider, monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    for module in (sign_in, tokens):  # the provider here is slow where the machine is busy
        monkeypatch.setattr(module, "FETCH_SECONDS", 30.0)
    with house_in(tmp_path, **outside.settings(HERE)) as made:
        yield made


def begun(house: House, then: str = "/jobs") -> str:
    """The provider's address that the service leads to."""
    answer = house.http.get(f"/signin/oidc?then={then}", follow_redirects=False)
    assert answer.status_code == 303, answer.text
    return str(answer.headers["location"])


def back(address: str) -> str:
    """The address of ours that the provider leads back to."""
    answer = httpx.get(address)
    assert answer.status_code == 302, answer.text
    return str(answer.headers["location"])


def came_back(house: House, address: str) -> Any:
    return house.http.get(address.removeprefix(HERE), follow_redirects=False)


def signed_in(house: House) -> Any:
    answer = came_back(house, back(begun(house)))
    assert answer.status_code == 200, answer.text
    assert "Signed in" in answer.text
    return answer


def me(house: House) -> Any:
    return house.http.get("/me", follow_redirects=False)


def refused(answer: Any, status: int, words: str) -> None:
    """A page that says this, and no session."""
    assert answer.status_code == status, answer.text
    assert words in answer.text
    assert COOKIE not in answer.headers.get("set-cookie", "")


def changed(address: str, **query: str | None) -> str:
    """The same address with other parameters; None: without one."""
    parts = urlsplit(address)
    sent = {k: v for k, v in (dict(parse_qsl(parts.query)) | query).items() if v is not None}
    return parts._replace(query=urlencode(sent)).geturl()


def ended(house: House) -> None:
    """Let all sessions' keys end, as time does."""
    with house.services.sessions.write() as session:
        past = utc_now() - timedelta(seconds=1)
        session.execute(
            update(KeyRow).where(KeyRow.expires_at.is_not(None)).values(expires_at=past)
        )


def key_of(house: House) -> KeyRow:
    key_id = str(house.http.cookies[COOKIE]).partition(".")[0]
    with house.services.sessions.read() as session:
        (key,) = [row for row in session.scalars(select(KeyRow)) if str(row.id) == key_id]
        return key


def test_the_login_page_leads_to_the_provider_only_where_there_is_one(
    entered: House, tmp_path: Path
) -> None:
    text = entered.http.get("/login?then=/jobs").text
    assert "Sign in with Example ID" in text
    assert 'href="/signin/oidc?then=/jobs"' in text
    assert "API key" in text
    with house_in(tmp_path / "keys") as plain:
        assert "signin" not in plain.http.get("/login").text
        assert plain.http.get("/signin/oidc").status_code == 404
        assert plain.http.get("/signin/oidc/callback?code=a&state=b").status_code == 404
        assert plain.http.post("/signin/oidc/logout", data={"logout_token": "a"}).status_code == 404
        assert plain.http.get("/v1/sign-in").json() == {"provider": None}


def test_the_service_says_how_to_sign_in(entered: House, outside: Provider) -> None:
    assert entered.http.get("/v1/sign-in").json()["provider"] == {
        "issuer": outside.url,
        "name": "Example ID",
        "scopes": "openid",
        "browser": f"{HERE}/signin/oidc",
        "device_client_id": "terminal",
    }


def test_who_signs_in_at_the_provider_is_in_with_the_role_of_the_claim(
    entered: House, outside: Provider
) -> None:
    asked = parse_qs(urlsplit(address := begun(entered)).query)
    assert asked["code_challenge_method"] == ["S256"]
    assert asked["scope"] == ["openid"]
    assert len(asked["state"][0]) == len(asked["nonce"][0]) == 43
    cookie = entered.http.cookies[ATTEMPT]
    answer = came_back(entered, back(address))
    assert 'content="0;url=/jobs"' in answer.text
    session, forgotten = answer.headers.get_list("set-cookie")
    assert "HttpOnly" in session
    assert "SameSite=strict" in session
    assert forgotten.startswith(f'{ATTEMPT}="";')
    assert "ada" in me(entered).text
    assert "analyst" in me(entered).text
    ((_, exchanged),) = [a for a in outside.asked if a[0] == "/token"]
    verifier = exchanged["code_verifier"]
    assert verifier not in cookie  # sealed: who reads it learns nothing
    assert verifier.encode() not in base64.urlsafe_b64decode(cookie + "==")
    acts = [act["action"] for act in entered.admin.get("/v1/audit").json()["items"]]
    assert {"user.create", "key.create"} <= set(acts)


def test_a_session_ends_with_the_token_and_never_later_than_twelve_hours(
    entered: House, outside: Provider
) -> None:
    outside.refreshes = False
    before = datetime.now(UTC)
    signed_in(entered)
    end = key_of(entered).expires_at
    assert end is not None
    assert 298 <= (end - before).total_seconds() <= 302
    ended(entered)
    assert me(entered).headers["location"].startswith("/login")
    outside.lasts = 14 * 86400
    signed_in(entered)
    end = key_of(entered).expires_at
    assert end is not None
    assert (end - before).total_seconds() <= 12 * 3600 + 60


def test_a_confidential_client_proves_itself(tmp_path: Path, outside: Provider) -> None:
    outside.secret = "s%e:cret of a client"
    given = outside.settings(HERE)
    for methods in (None, ["client_secret_post"], ["client_secret_basic", "private_key_jwt"]):
        outside.about = {"token_endpoint_auth_methods_supported": methods} if methods else {}
        folder = tmp_path / str(methods)[:12]
        with house_in(folder, oidc_client_secret=outside.secret, **given) as house:
            signed_in(house)
            assert me(house).status_code == 200
            in_body = "client_secret" in outside.asked[-1][1] or "client_secret" in next(
                sent for path, sent in reversed(outside.asked) if path == "/token"
            )
            assert in_body == (methods == ["client_secret_post"])
    with house_in(tmp_path / "wrong", oidc_client_secret="another", **given) as house:
        refused(came_back(house, back(begun(house))), 502, "refused to sign you in")


FORGERIES: dict[str, Callable[[str], str]] = {
    "another state": lambda a: changed(a, state="x" * 43),
    "no state": lambda a: changed(a, state=None),
    "an empty state": lambda a: changed(a, state=""),
    "two states": lambda a: f"{a}&state=x",
    "two codes": lambda a: f"{a}&code=x",
    "another issuer": lambda a: changed(a, iss="https://evil.example"),
    "no issuer from one that says it": lambda a: changed(a, iss=None),
    "an error with another state": lambda a: changed(a, state="x", error="access_denied"),
}


@pytest.mark.parametrize("what", FORGERIES)
def test_what_did_not_come_from_this_sign_in_is_refused(
    entered: House, outside: Provider, what: str
) -> None:
    address = FORGERIES[what](back(begun(entered)))
    refused(came_back(entered, address), 400, "not begun in this browser")
    assert not [path for path, _ in outside.asked if path == "/token"]  # no code left this house


def test_a_sign_in_of_somebody_else_cannot_be_slipped_in(entered: House) -> None:
    """Login CSRF: the code is the attacker's own, and so is its state."""
    address = back(begun(entered))
    entered.http.cookies.clear()
    refused(came_back(entered, address), 400, "not begun in this browser")
    begun(entered)  # the victim begins one too: another cookie
    refused(came_back(entered, address), 400, "not begun in this browser")


def test_what_came_back_once_comes_back_to_nothing(entered: House) -> None:
    address = back(begun(entered))
    cookie = entered.http.cookies[ATTEMPT]
    assert came_back(entered, address).status_code == 200
    assert ATTEMPT not in entered.http.cookies
    entered.http.cookies.clear()
    refused(came_back(entered, address), 400, "was used already")
    entered.http.cookies.set(ATTEMPT, cookie)  # who kept the cookie: the code is used up
    refused(came_back(entered, address), 502, "refused to sign you in")


def test_a_code_is_of_use_only_with_the_verifier_of_its_attempt(entered: House) -> None:
    """Code injection: somebody else's code, in a sign-in that this browser has begun."""
    stolen = dict(parse_qsl(urlsplit(back(begun(entered))).query))["code"]
    refused(
        came_back(entered, changed(back(begun(entered)), code=stolen)),
        502,
        "refused to sign you in",
    )


def test_an_attempt_lasts_ten_minutes_and_is_sealed(
    entered: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, cookie = back(begun(entered)), entered.http.cookies[ATTEMPT]
    flipped = cookie[:50] + ("A" if cookie[50] != "A" else "B") + cookie[51:]
    for wrong in (flipped, "a", "A" * 200, "%%%"):
        entered.http.cookies.clear()
        entered.http.cookies.set(ATTEMPT, wrong)
        refused(came_back(entered, address), 400, "not begun in this browser")
    later = time.time() + 601
    monkeypatch.setattr(sign_in.time, "time", lambda: later)
    entered.http.cookies.clear()
    entered.http.cookies.set(ATTEMPT, cookie)
    refused(came_back(entered, address), 400, "more than ten")


def test_errors_of_the_provider_are_told_in_our_words(entered: House) -> None:
    for error, status, words in (
        ("access_denied", 403, "it does not let you in here"),
        ("server_error", 502, "refused to sign you in"),
        ("<script>alert(1)</script>", 502, "refused to sign you in"),
    ):
        evil = "<img src=x onerror=alert(2)>"
        address = changed(back(begun(entered)), error=error, error_description=evil, code=None)
        answer = came_back(entered, address)
        refused(answer, status, words)
        assert "alert(" not in answer.text
        assert "error_description" not in answer.text


@pytest.mark.parametrize(
    "then", ["//evil.example", "https://evil.example/", "/\\evil.example", "javascript:alert(1)"]
)
def test_nobody_is_led_elsewhere_afterwards(entered: House, then: str) -> None:
    answer = came_back(entered, back(begun(entered, then)))
    assert 'content="0;url=/"' in answer.text
    assert "evil" not in answer.text
    long = came_back(entered, back(begun(entered, "/jobs?q=" + "x" * 1500)))
    assert 'content="0;url=/"' in long.text


STRANGERS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "an ID token for another client": ({}, {"aud": "somebody-else"}),
    "an ID token for several": ({}, {"aud": [CLIENT, "other"]}),
    "an ID token of another party": ({}, {"azp": "other"}),
    "an ID token of another sign-in": ({}, {"nonce": "other"}),
    "an ID token without a nonce": ({}, {"nonce": None}),
    "an ID token of another issuer": ({}, {"iss": "https://evil.example"}),
    "an ID token that has ended": ({}, {"exp": int(time.time()) - 120}),
    "tokens of two users": ({"sub": "bob"}, {}),
    "an access token for another service": ({"aud": "somebody-else"}, {}),
    "an access token of another issuer": ({"iss": "https://evil.example"}, {}),
    "an access token that has just ended": ({"exp": int(time.time()) - 5}, {}),
}


@pytest.mark.parametrize("what", STRANGERS)
def test_tokens_are_checked_as_the_api_checks_them(
    entered: House, outside: Provider, what: str
) -> None:
    outside.claims["access"], outside.claims["id"] = STRANGERS[what]
    refused(came_back(entered, back(begun(entered))), 403, "not valid for this service")
    assert me(entered).status_code == 303


def test_tokens_that_others_signed_are_refused(entered: House, outside: Provider) -> None:
    from cryptography.hazmat.primitives.asymmetric import rsa

    outside.key = rsa.generate_private_key(65537, 2048)
    refused(came_back(entered, back(begun(entered))), 403, "not valid for this service")


def test_an_id_token_does_where_the_audience_is_the_client(
    tmp_path: Path, outside: Provider
) -> None:
    outside.opaque = True
    given = outside.settings(HERE)
    with house_in(tmp_path / "other", **given) as house:
        refused(came_back(house, back(begun(house))), 403, "not valid for this service")
    with house_in(tmp_path / "own", **given | {"oidc_audience": CLIENT}) as house:
        signed_in(house)
        ended(house)
        assert me(house).status_code == 200  # and is renewed as well


def test_who_has_no_role_or_is_disabled_is_told(entered: House, outside: Provider) -> None:
    outside.roles["ada"] = ["cleaners"]
    refused(came_back(entered, back(begun(entered))), 403, "has no role here")
    outside.roles["ada"] = ["stats"]
    signed_in(entered)
    (ada,) = [u for u in entered.admin.get("/v1/users").json()["items"] if u["name"] == "ada"]
    entered.admin.call("PATCH", f"/v1/users/{ada['id']}", json={"disabled": True})
    refused(came_back(entered, back(begun(entered))), 403, "disabled here")
    ended(entered)
    assert me(entered).status_code == 303  # nor does a refresh token help


def test_who_has_as_many_keys_as_may_be_is_told(tmp_path: Path, outside: Provider) -> None:
    with house_in(tmp_path, max_keys_of_user=1, **outside.settings(HERE)) as house:
        signed_in(house)
        refused(came_back(house, back(begun(house))), 409, "no more keys and sessions")


ODD: dict[str, tuple[str, Any, str]] = {
    "no JSON": ("/token", b"<html>", "refused to sign you in"),
    "no object": ("/token", [1], "refused to sign you in"),
    "nothing": ("/token", {}, "not valid for this service"),
    "numbers": ("/token", {"id_token": 1, "access_token": 2}, "not valid for this service"),
    "words": ("/token", {"id_token": "a", "access_token": "b.c.d"}, "not valid for this service"),
    "nested deeply": ("/token", b"[" * 100_000, "refused to sign you in"),
    "too much": ("/token", b" " * (2**20 + 1), "cannot be reached"),
}


@pytest.mark.longer
@pytest.mark.parametrize("what", ODD)
def test_junk_of_the_provider_lets_nobody_in(entered: House, outside: Provider, what: str) -> None:
    path, answer, words = ODD[what]
    address = back(begun(entered))
    outside.answers[path] = answer
    told = came_back(entered, address)
    assert told.status_code in (403, 502, 503)
    refused(told, told.status_code, words)


@pytest.mark.parametrize(
    "about",
    [
        {"issuer": "https://evil.example"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"authorization_endpoint": None},
        {"authorization_endpoint": "//nowhere"},
        {"authorization_endpoint": "http://[x"},
    ],
)
def test_a_discovery_document_that_cannot_be_is_not_followed(
    entered: House, outside: Provider, about: dict[str, Any]
) -> None:
    outside.about = about
    refused(entered.http.get("/signin/oidc"), 503, "cannot be reached")


def test_an_encrypted_provider_has_encrypted_endpoints_only(
    tmp_path: Path, outside: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    issuer = "https://id.example"
    about = {"issuer": issuer, "authorization_endpoint": "http://id.example/authorize"}
    monkeypatch.setattr(sign_in, "fetch", lambda _: about)
    given = outside.settings(HERE) | {"oidc_issuer": issuer}
    with house_in(tmp_path, **given) as house:
        refused(house.http.get("/signin/oidc"), 503, "cannot be reached")


def test_a_provider_that_hangs_holds_up_nobody_else(
    entered: House, outside: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More sign-ins than may wait: the first hang and end in time, others are refused at once."""
    monkeypatch.setattr(sign_in, "FETCH_SECONDS", 2.0)
    addresses = []
    for _ in range(12):
        addresses.append((back(begun(entered)), entered.http.cookies[ATTEMPT]))
        entered.http.cookies.clear()
    outside.hangs.add("/token")
    took: list[tuple[int, float]] = []

    def come(address: str, cookie: str) -> None:
        started = time.monotonic()
        headers = {"Cookie": f"{ATTEMPT}={cookie}"}
        answer = entered.http.get(address.removeprefix(HERE), headers=headers)
        took.append((answer.status_code, time.monotonic() - started))

    threads = [threading.Thread(target=come, args=one) for one in addresses]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    started = time.monotonic()
    for _ in range(5):
        assert Caller(entered.http, ADMIN).get("/v1/users/me").status_code == 200
    assert time.monotonic() - started < 1.5
    for thread in threads:
        thread.join()
    assert {status for status, _ in took} == {503}
    assert max(seconds for _, seconds in took) < 12.0
    assert len(took) == 12


def test_a_session_goes_on_as_long_as_the_provider_says(entered: House, outside: Provider) -> None:
    signed_in(entered)
    cookie = entered.http.cookies[COOKIE]
    for _ in range(3):  # each refresh token is good once
        ended(entered)
        assert me(entered).status_code == 200
    assert entered.http.cookies[COOKIE] == cookie
    end = key_of(entered).expires_at
    assert end is not None
    assert (end - utc_now()).total_seconds() < 301
    outside.end_session()
    assert me(entered).status_code == 200  # until its token ends
    ended(entered)
    assert me(entered).headers["location"].startswith("/login")
    asked = len(outside.asked)
    assert me(entered).status_code == 303
    assert len(outside.asked) == asked  # a refusal is final


def test_a_form_of_a_session_is_taken_though_its_token_has_just_ended(entered: House) -> None:
    signed_in(entered)
    form = {"csrf": csrf(entered), "email": "ada@example.org"}
    ended(entered)
    answer = entered.http.post("/me/email", data=form, follow_redirects=False)
    assert answer.status_code in (200, 303)
    assert "ada@example.org" in me(entered).text


def test_a_token_may_end_while_a_page_is_made(
    entered: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the page knows who asks, and before it asks the API for more."""
    signed_in(entered)
    form = {"csrf": csrf(entered), "email": "ada@example.org"}
    read = people_pages.fields_of

    async def late(request: Request) -> dict[str, str]:
        ended(entered)
        return await read(request)

    monkeypatch.setattr(people_pages, "fields_of", late)
    answer = entered.http.post("/me/email", data=form, follow_redirects=False)
    assert answer.status_code in (200, 303)
    assert "ada@example.org" in me(entered).text


def test_a_role_follows_at_each_renewal_and_a_lost_one_ends_the_session(
    entered: House, outside: Provider
) -> None:
    signed_in(entered)
    outside.roles["ada"] = ["stats-admins"]
    ended(entered)
    assert entered.http.get("/users").status_code == 200
    outside.roles["ada"] = []
    ended(entered)
    assert me(entered).status_code == 303
    outside.roles["ada"] = ["stats"]
    assert me(entered).status_code == 303


def test_a_session_outlives_a_provider_that_is_busy(entered: House, outside: Provider) -> None:
    signed_in(entered)
    outside.away = {"/token"}
    ended(entered)
    assert me(entered).status_code == 303
    outside.away = set()
    assert me(entered).status_code == 200


def test_a_renewal_for_somebody_else_ends_the_session(entered: House, outside: Provider) -> None:
    for changes in ({"access": {"sub": "bob"}}, {"access": {"sub": "bob"}, "id": {"sub": "bob"}}):
        outside.claims = {"access": {}, "id": {}}
        signed_in(entered)
        outside.claims |= changes
        outside.roles["bob"] = ["stats-admins"]
        ended(entered)
        assert me(entered).status_code == 303


def test_a_provider_that_is_away_ends_no_session_for_good(
    entered: House, outside: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sign_in, "FETCH_SECONDS", 0.5)
    signed_in(entered)
    outside.hangs.add("/token")
    ended(entered)
    assert me(entered).status_code == 303  # not without its word
    outside.hangs.clear()
    assert me(entered).status_code == 200


def _refresh_tokens(house: House) -> list[str]:
    with house.services.sessions.read() as session:
        rows = session.scalars(select(ProviderSessionRow)).all()
    opened = [house.services.vault.unseal(r.sealed, b"session " + r.key_id.bytes) for r in rows]
    return [json.loads(text)["refresh_token"] for text in opened if text]


def test_many_requests_at_once_renew_a_session_once(entered: House, outside: Provider) -> None:
    """The second use of a refresh token would end the provider's session."""
    signed_in(entered)
    ended(entered)
    cookie = {"Cookie": f"{COOKIE}={entered.http.cookies[COOKIE]}"}
    statuses: list[int] = []

    def come() -> None:
        answer = entered.http.get("/me", headers=cookie, follow_redirects=False)
        statuses.append(answer.status_code)

    threads = [threading.Thread(target=come) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [200] * 6
    grants = [sent["grant_type"] for path, sent in outside.asked if path == "/token"]
    assert grants.count("refresh_token") == 1


def test_a_session_is_another_processs_too_and_outlives_a_restart(
    tmp_path: Path, outside: Provider
) -> None:
    given = outside.settings(HERE)
    with house_in(tmp_path, **given) as first:
        address, cookies = back(begun(first)), dict(first.http.cookies)
    with house_in(tmp_path, **given) as second:  # the sign-in is finished by another one
        second.http.cookies.set(ATTEMPT, cookies[ATTEMPT])
        assert came_back(second, address).status_code == 200
        session = second.http.cookies[COOKIE]
        second_app = create_app(
            second.settings, open_house=lambda _: second.services, planners=PLANNERS
        )
        with TestClient(second_app) as http:
            ended(second)
            http.cookies.set(COOKIE, session)
            assert http.get("/me", follow_redirects=False).status_code == 200
            assert me(second).status_code == 200


def test_no_token_of_the_provider_lies_open(entered: House) -> None:
    answer = signed_in(entered)
    (refresh,) = _refresh_tokens(entered)
    assert refresh not in answer.text
    assert refresh not in str(answer.headers)
    with entered.services.sessions.read() as session:
        (row,) = session.scalars(select(ProviderSessionRow)).all()
    assert refresh.encode() not in row.sealed
    other = b"session " + bytes(16)
    assert entered.services.vault.unseal(row.sealed, other) is None


def csrf(house: House) -> str:
    found = re.search(r'name="csrf" value="([^"]+)"', me(house).text)
    assert found
    return found.group(1)


def test_signing_out_ends_the_providers_session_too(entered: House, outside: Provider) -> None:
    signed_in(entered)
    cookie = entered.http.cookies[COOKIE]
    answer = entered.http.post("/logout", data={"csrf": csrf(entered)}, follow_redirects=False)
    assert answer.status_code == 200
    found = re.search(r'href="(http[^"]+)">Go on', answer.text)
    assert found
    address = found.group(1).replace("&amp;", "&")
    query = dict(parse_qsl(urlsplit(address).query))
    assert address.startswith(f"{outside.url}/logout?")
    assert query["client_id"] == CLIENT
    assert query["id_token_hint"].count(".") == 2
    assert httpx.get(address).headers["location"] == f"{HERE}/login"
    assert not outside.refresh
    entered.http.cookies.clear()
    entered.http.cookies.set(COOKIE, cookie)
    assert me(entered).status_code == 303
    assert not _rows(entered)


def _rows(house: House) -> list[ProviderSessionRow]:
    with house.services.sessions.read() as session:
        return list(session.scalars(select(ProviderSessionRow)))


def test_signing_out_works_while_the_provider_is_away_or_has_no_such_thing(
    entered: House, outside: Provider
) -> None:
    outside.about = {"end_session_endpoint": None}
    signed_in(entered)
    answer = entered.http.post("/logout", data={"csrf": csrf(entered)}, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/login")
    entered.http.cookies.clear()
    text = entered.http.post("/login", data={"key": ADMIN, "then": "/"}).text  # keys as ever
    assert "Datasets" in text
    answer = entered.http.post("/logout", data={"csrf": csrf(entered)}, follow_redirects=False)
    assert answer.headers["location"] == "/login"


def test_the_provider_ends_sessions_by_its_back_channel(entered: House, outside: Provider) -> None:
    def told(**changes: Any) -> int:
        form = {"logout_token": outside.logout_token(**changes)}
        return int(entered.http.post("/signin/oidc/logout", data=form).status_code)

    signed_in(entered)
    for wrong in (
        {"sid": outside.sid, "nonce": "x"},
        {"sid": outside.sid, "events": {}},
        {"sid": outside.sid, "events": None},
        {"sid": outside.sid, "aud": "other"},
        {"sid": outside.sid, "iss": "https://evil.example"},
        {"sid": outside.sid, "exp": int(time.time()) - 120},
        {},
    ):
        assert told(**wrong) == 400, wrong
    junk = {"logout_token": "a.b.c"}
    assert entered.http.post("/signin/oidc/logout", data=junk).status_code == 400
    assert told(sid="another") == 200
    assert told(sub="bob") == 200
    assert told(sid=outside.sid, sub="bob") == 200
    assert me(entered).status_code == 200
    assert told(sid=outside.sid) == 200
    assert me(entered).status_code == 303
    assert told(sid=outside.sid) == 200  # twice is no error
    signed_in(entered)
    assert told(sub="ada") == 200
    assert me(entered).status_code == 303


def test_a_revoked_session_is_not_renewed(entered: House) -> None:
    signed_in(entered)
    entered.admin.call("DELETE", f"/v1/keys/{key_of(entered).id}")
    assert me(entered).status_code == 303
    ended(entered)
    assert me(entered).status_code == 303


def test_old_sessions_are_forgotten(entered: House) -> None:
    signed_in(entered)
    with entered.services.sessions.write() as session:
        session.execute(update(ProviderSessionRow).values(ends_at=utc_now()))
    signed_in(entered)
    assert len(_rows(entered)) == 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"public_url": ""}, "DPMCMC_PUBLIC_URL"),
        ({"oidc_issuer": "", "oidc_client_id": ""}, "DPMCMC_OIDC_ISSUER"),
        ({"oidc_scopes": "profile email"}, "oidc_scopes"),
        ({"oidc_scopes": "openid  email"}, "oidc_scopes"),
    ],
)
def test_settings_that_cannot_work_are_refused(
    tmp_path: Path, outside: Provider, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValidationError, match=words):
        Settings(data_dir=tmp_path, **outside.settings(HERE) | changes)


def test_two_sessions_on_postgresql(postgres_url: str, tmp_path: Path, outside: Provider) -> None:
    given = outside.settings(HERE)
    with house_in(tmp_path, database_url=postgres_url, **given) as house:
        signed_in(house)
        ended(house)
        assert me(house).status_code == 200
        told = house.http.post(
            "/signin/oidc/logout", data={"logout_token": outside.logout_token(sub="ada")}
        )
        assert told.status_code == 200
        assert me(house).status_code == 303
        house.services.close()


def test_the_user_is_the_one_of_the_token(entered: House, outside: Provider) -> None:
    signed_in(entered)
    with entered.services.sessions.read() as session:
        assert _subjects(session) == [f"{outside.url}|ada"]


def _subjects(session: Session) -> list[str]:
    return [s for s in session.scalars(select(UserRow.subject)) if s is not None]
