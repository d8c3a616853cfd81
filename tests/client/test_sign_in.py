"""The command line signs in at a provider by the device flow: both run, over HTTP."""

import contextlib
import json
import os
import socket
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from typer.testing import CliRunner

from app.local_service import free_port
from dpmcmc.client import cli, sign_in
from tests.api.support import House, house_in
from tests.provider import DEVICE, Provider, provider


@pytest.fixture
def outside() -> Iterator[Provider]:
    with provider() as made:
        yield made


@contextmanager
def serving(house: House) -> Iterator[str]:
    """The house on a port."""
    port = free_port()
    config = uvicorn.Config(
        house.http.app, host="127.0.0.1", port=port, lifespan="off", log_config=None
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture
def service(tmp_path: Path, outside: Provider) -> Iterator[str]:
    given = outside.settings("http://127.0.0.1:1")
    with house_in(tmp_path / "house", **given) as house, serving(house) as url:
        yield url


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of the test's own, and terminals that are slowed down by less."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("DPMCMC_KEY", raising=False)
    monkeypatch.setattr(sign_in, "SLOWER", 0.3)
    return tmp_path


def run(url: str, *words: str, code: int = 0) -> str:
    done = CliRunner().invoke(cli.app, ["--url", url, *words])
    assert done.exit_code == code, done.output
    return done.output


def answering(outside: Provider, *, approved: bool = True) -> threading.Thread:
    """Somebody who goes to the address, types the code, and says yes or no."""

    def come() -> None:
        until = time.monotonic() + 20
        while not outside.devices and time.monotonic() < until:
            time.sleep(0.02)
        time.sleep(0.5)
        (device,) = outside.devices.values()
        outside.approve(device.user_code, approved=approved)

    thread = threading.Thread(target=come)
    thread.start()
    return thread


def signed_in(outside: Provider, url: str) -> str:
    person = answering(outside)
    told = run(url, "login")
    person.join()
    return told


def file() -> Path:
    return sign_in._file()


def kept(url: str) -> dict[str, Any]:
    tokens: dict[str, Any] = json.loads(file().read_text())[url]
    return tokens


def aged(url: str) -> None:
    """Let the kept token be at its end."""
    content = json.loads(file().read_text())
    content[url]["ends_at"] = time.time() - 1
    file().write_text(json.dumps(content))


def test_a_terminal_signs_in_and_acts_as_its_user(outside: Provider, service: str) -> None:
    told = signed_in(outside, service)
    assert f"Open {outside.url}/device in a browser and type " in told
    assert "Signed in as ada." in told
    assert stat.S_IMODE(file().stat().st_mode) == 0o600
    assert stat.S_IMODE(file().parent.stat().st_mode) == 0o700
    assert run(service, "jobs", "--json").strip() == "[]"
    assert run(service + "/", "jobs", "--json").strip() == "[]"
    assert kept(service)["kind"] == "access_token"
    assert kept(service)["token"] not in repr(sign_in.kept(service))
    pauses = [b - a for a, b in zip(outside.polls, outside.polls[1:], strict=False)]
    assert min(pauses) >= 0.19


def test_a_key_goes_before_a_sign_in(outside: Provider, service: str) -> None:
    signed_in(outside, service)
    done = CliRunner().invoke(cli.app, ["--url", service, "--key", "dpm_wrong", "jobs"])
    assert done.exit_code == 1
    assert "401" in done.output


def test_tokens_go_to_their_service_alone(outside: Provider, service: str) -> None:
    signed_in(outside, service)
    heard: list[str] = []
    outside.answers["/v1/jobs"] = {"items": [], "next_cursor": None}
    run(outside.url, "jobs", code=2)  # another address: nobody has signed in there
    assert not heard
    assert not [path for path, _ in outside.asked if path == "/v1/jobs"]


def test_a_token_is_renewed_when_it_ends(outside: Provider, service: str) -> None:
    signed_in(outside, service)
    first = kept(service)
    for _ in range(2):  # a refresh token is good once
        aged(service)
        run(service, "jobs")
    assert kept(service)["refresh_token"] != first["refresh_token"]
    assert stat.S_IMODE(file().stat().st_mode) == 0o600
    outside.end_session()
    run(service, "jobs")
    aged(service)
    assert "call dpmcmc login" in run(service, "jobs", code=1)
    assert "nobody called dpmcmc login" in run(service, "jobs", code=2)


def test_many_commands_at_once_renew_once(outside: Provider, service: str) -> None:
    signed_in(outside, service)
    aged(service)
    found: list[str] = []
    threads = [
        threading.Thread(target=lambda: found.append(sign_in.current(service))) for _ in range(5)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1
    grants = [sent.get("grant_type") for path, sent in outside.asked if path == "/token"]
    assert grants.count("refresh_token") == 1


def test_without_a_refresh_token_the_session_ends_with_the_token(
    outside: Provider, service: str
) -> None:
    outside.refreshes = False
    signed_in(outside, service)
    aged(service)
    assert "has ended: call dpmcmc login" in run(service, "jobs", code=1)


def test_a_provider_that_is_away_does_not_lose_the_sign_in(
    outside: Provider, service: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    signed_in(outside, service)
    aged(service)
    monkeypatch.setattr(sign_in, "SECONDS", 0.5)
    outside.hangs.add("/token")
    assert "cannot be reached" in run(service, "jobs", code=1)
    outside.hangs.clear()
    outside.away.add("/token")
    monkeypatch.setattr(sign_in, "SECONDS", 30.0)
    before = kept(service)
    assert "cannot renew your sign-in now" in run(service, "jobs", code=1)
    assert kept(service) == before
    outside.away.clear()
    run(service, "jobs")


def test_an_answer_that_trickles_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte comes in time, and the whole would never."""
    monkeypatch.setattr(sign_in, "SECONDS", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as door:

        def trickle() -> None:
            line, _ = door.accept()
            with line, contextlib.suppress(OSError):
                for byte in b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 1000:
                    line.send(bytes([byte]))
                    time.sleep(0.1)

        threading.Thread(target=trickle, daemon=True).start()
        began = time.monotonic()
        with pytest.raises(sign_in.SignInError, match="cannot be reached"):
            sign_in._posted(f"http://127.0.0.1:{door.getsockname()[1]}/token", {})
        assert time.monotonic() - began < 5


def test_signing_out_forgets_here_and_there(outside: Provider, service: str) -> None:
    outside.about = {"revocation_endpoint": f"{outside.url}/revoke"}
    signed_in(outside, service)
    refresh = kept(service)["refresh_token"]
    assert "Signed out" in run(service, "logout")
    ((_, sent),) = [one for one in outside.asked if one[0] == "/revoke"]
    assert (sent["token"], sent["client_id"]) == (refresh, DEVICE)
    assert refresh not in file().read_text()
    assert "Nobody was signed in" in run(service, "logout")
    run(service, "jobs", code=2)


def test_slow_down_slows_down(outside: Provider, service: str) -> None:
    outside.slows = 2
    signed_in(outside, service)
    first, second = (b - a for a, b in zip(outside.polls[:2], outside.polls[1:3], strict=True))
    assert first >= 0.49
    assert second >= 0.79


def test_who_says_no_or_has_no_role_is_told(outside: Provider, service: str) -> None:
    person = answering(outside, approved=False)
    assert "was refused there" in run(service, "login", code=1)
    person.join()
    outside.roles["ada"] = []
    person = answering(outside)
    assert "has no role at this service" in run(service, "login", code=1)
    person.join()
    outside.claims = {"access": {"aud": "other"}, "id": {}}
    person = answering(outside)
    assert "takes none of the provider's tokens" in run(service, "login", code=1)
    person.join()
    assert not file().exists()


def test_nobody_waits_longer_than_the_code_lasts(outside: Provider, service: str) -> None:
    outside.answers["/device_authorization"] = {
        "device_code": "d",
        "user_code": "u",
        "verification_uri": outside.url,
        "expires_in": 1,
        "interval": 0.3,
    }
    outside.answers["/token"] = {"error": "authorization_pending"}
    started = time.monotonic()
    told = run(service, "login", code=1)
    assert "takes none" in told or "in time" in told
    assert time.monotonic() - started < 5


JUNK: dict[str, Any] = {
    "nothing": {},
    "a list": [],
    "no JSON": b"<html>",
    "an address that is none": {
        "device_code": "d",
        "user_code": "u",
        "verification_uri": "javascript:alert(1)",
    },
    "signs that steer terminals": {
        "device_code": "d",
        "user_code": "\x1b[2Jevil",
        "verification_uri": "https://id.example",
    },
}


@pytest.mark.parametrize("what", JUNK)
def test_junk_of_a_provider_is_one_line(outside: Provider, service: str, what: str) -> None:
    outside.answers["/device_authorization"] = JUNK[what]
    told = run(service, "login", code=1)
    assert "gave no code" in told
    assert "\x1b[2J" not in told


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"provider": None}, "takes keys only"),
        ({"provider": {"device_client_id": None}}, "takes keys only"),
        ([], "takes keys only"),
        (b"<html>", "no service of dpmcmc"),
        (
            {"provider": {"device_client_id": "t", "issuer": "http://id.example"}},
            "no encrypted address",
        ),
        ({"provider": {"device_client_id": "t", "issuer": "ftp://x"}}, "no encrypted address"),
        ({"provider": {"device_client_id": "t", "issuer": "http://["}}, "no encrypted address"),
    ],
)
def test_a_service_that_names_no_sound_provider_is_told(
    outside: Provider, document: Any, words: str
) -> None:
    outside.answers["/v1/sign-in"] = document
    assert words in run(outside.url, "login", code=1)


def test_a_provider_of_another_name_is_refused(outside: Provider, service: str) -> None:
    outside.about = {"issuer": "https://evil.example"}
    assert "another name" in run(service, "login", code=1)
    outside.about = {"device_authorization_endpoint": None}
    assert "no sign-in by a device code" in run(service, "login", code=1)


def test_nobody_answers_at_the_address() -> None:
    assert "cannot reach the service" in run(f"http://127.0.0.1:{free_port()}", "login", code=3)


def test_a_file_that_holds_something_else_is_as_none(outside: Provider, service: str) -> None:
    for content in ("[]", "{", json.dumps({service: {"token": "x"}}), json.dumps({service: 1})):
        file().parent.mkdir(exist_ok=True, parents=True)
        file().write_text(content)
        run(service, "jobs", code=2)
    os.chmod(file(), 0o644)
    signed_in(outside, service)
    assert stat.S_IMODE(file().stat().st_mode) == 0o600


def test_the_service_is_asked_with_the_token_alone(outside: Provider, service: str) -> None:
    signed_in(outside, service)
    token = kept(service)["token"]
    answer = httpx.get(f"{service}/v1/users/me", headers={"Authorization": f"Bearer {token}"})
    assert answer.json()["name"] == "ada"
    assert answer.json()["keys"] == []  # no key was made for it
