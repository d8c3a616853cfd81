"""Mail and a webhook tell of access requests, and hold up nothing."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from email.message import Message as Mail
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.handlers import Message
from pydantic import ValidationError
from sqlalchemy import select

from app.services.accounts import notices
from app.services.accounts.notices import MOST_ATTEMPTS
from app.settings import Settings
from app.storage.rows import NoticeRow
from app.storage.types import utc_now
from tests.api.support import Caller, House, house_in
from tests.worker.test_outward import outside

WHY = "a reason that stays here"


class Kept(Message):
    """Keeps mails. refused: whether every one is refused."""

    def __init__(self) -> None:
        super().__init__()
        self.mails, self.refused = list[Mail](), False

    def handle_message(self, message: Mail) -> None:
        if self.refused:
            raise RuntimeError
        self.mails.append(message)


@contextmanager
def mail_server() -> Iterator[tuple[Kept, dict[str, Any]]]:
    """A mail server, and the settings that name it."""
    kept = Kept()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = Controller(kept, hostname="127.0.0.1", port=port)
    server.start()
    try:
        named = {"smtp_host": "127.0.0.1", "smtp_port": port, "smtp_security": "none"}
        yield kept, {**named, "smtp_from": "dpmcmc@example.org"}
    finally:
        server.stop()


@contextmanager
def webhook() -> Iterator[tuple[list[Any], str]]:
    """A server that keeps what it is sent, and its address."""
    bodies: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield bodies, f"http://127.0.0.1:{server.server_port}/hook"
    server.shutdown()
    server.server_close()


def give(caller: Caller, email: str | None) -> None:
    answer = caller.call("PATCH", "/v1/users/me", json={"email": email})
    assert answer.status_code == 200, answer.text
    assert answer.json()["email"] == email


def asked(house: House, ada: Caller) -> str:
    body = {"dataset": house.dataset(), "epsilon": 2.0, "reason": WHY}
    return str(ada.post("/v1/access-requests", json=body).json()["id"])


def answered(house: House, request: str, status: str, **more: Any) -> None:
    body = {"status": status, "answer": WHY, **more}
    answer = house.admin.call("PATCH", f"/v1/access-requests/{request}", json=body)
    assert answer.status_code == 200, answer.text


def waiting(house: House) -> list[NoticeRow]:
    with house.services.sessions.read() as session:
        return list(session.scalars(select(NoticeRow)))


def hasten(house: House) -> None:
    """Make all messages due."""
    with house.services.sessions.write() as session:
        for notice in session.scalars(select(NoticeRow)):
            notice.due_at = utc_now() - timedelta(seconds=1)


def test_admins_are_told_of_requests_and_analysts_of_answers(tmp_path: Path) -> None:
    with mail_server() as (kept, named), webhook() as (bodies, url):
        known = {**named, "notice_webhook": url, "public_url": "https://dp.example.org/"}
        with house_in(tmp_path, **known) as house:
            ada, eve = house.user("analyst"), house.user("analyst")
            for who, email in ((ada, "ada@x.org"), (eve, "eve@x.org"), (house.admin, "a@x.org")):
                give(who, email)
            request = asked(house, ada)
            notices.send(house.services)
            answered(house, request, "granted", epsilon=2000.5)
            notices.send(house.services)
            assert waiting(house) == []
            link = f"https://dp.example.org/requests/{request}"
            seen = [(mail["To"], mail["Subject"]) for mail in kept.mails]
            assert seen == [
                ("a@x.org", "dpmcmc: An access request waits for an answer."),
                ("ada@x.org", "dpmcmc: Your access request was granted."),
            ]
            assert all(link in mail.get_payload() for mail in kept.mails)
            assert [body["event"] for body in bodies] == [
                "access_request.open",
                "access_request.granted",
            ]
            assert all(body["text"].endswith(link) for body in bodies)
            everything = json.dumps(bodies) + "".join(map(str, kept.mails))
            assert WHY not in everything


def test_nobody_is_told_who_does_not_want_to_be(tmp_path: Path) -> None:
    with mail_server() as (kept, named), house_in(tmp_path, **named) as house:
        ada = house.user("analyst")
        give(ada, "ada@x.org")
        request = asked(house, ada)
        assert waiting(house) == []  # the admin has given no address
        answered(house, request, "refused")
        give(ada, None)
        notices.send(house.services)
        assert kept.mails == []
        assert waiting(house) == []


def test_without_settings_nothing_is_written(house: House) -> None:
    give(house.admin, "a@x.org")
    asked(house, house.user("analyst"))
    assert waiting(house) == []


def test_what_fails_is_tried_again_later_and_given_up_in_the_end(tmp_path: Path) -> None:
    with mail_server() as (kept, named), house_in(tmp_path, **named) as house:
        give(house.admin, "a@x.org")
        kept.refused = True
        asked(house, house.user("analyst"))
        notices.send(house.services)
        (notice,) = waiting(house)
        assert notice.attempts == 1
        assert notice.due_at > utc_now() + timedelta(seconds=30)
        kept.refused = False
        notices.send(house.services)
        assert kept.mails == []  # it is not due
        hasten(house)
        notices.send(house.services)
        assert len(kept.mails) == 1
        assert waiting(house) == []
        kept.refused = True
        asked(house, house.user("analyst"))
        for _ in range(MOST_ATTEMPTS):
            assert len(waiting(house)) == 1
            hasten(house)
            notices.send(house.services)
        assert waiting(house) == []


@pytest.mark.parametrize("manner", ["silent", "head"])
def test_a_mail_server_that_hangs_is_given_up(
    tmp_path: Path, manner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices, "SECONDS", 0.5)
    with outside(manner) as url:
        port = int(url.rsplit(":", 1)[1].split("/")[0])
        named = {"smtp_host": "127.0.0.1", "smtp_port": port, "smtp_from": "d@example.org"}
        with house_in(tmp_path, **named) as house:
            give(house.admin, "a@x.org")
            began = time.monotonic()
            asked(house, house.user("analyst"))
            notices.send(house.services)
            assert time.monotonic() - began < 10
            assert len(waiting(house)) == 1


@pytest.mark.longer
@pytest.mark.parametrize(
    "email", ["", "ada", "a@b\nBcc: c@d", "a b@c", "<a@b>", "a@b,c@d", "a" * 250 + "@b.org", 3]
)
def test_what_is_no_address_is_refused(house: House, email: Any) -> None:
    answer = house.admin.call("PATCH", "/v1/users/me", json={"email": email})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/email"


def test_others_do_not_see_an_address(house: House) -> None:
    ada = house.user("analyst")
    give(ada, "ada@x.org")
    for path in (f"/v1/users/{ada.id}", "/v1/users", "/v1/audit"):
        assert "ada@x.org" not in house.admin.get(path).text


def test_settings_that_would_send_a_password_in_clear_are_refused() -> None:
    with pytest.raises(ValidationError, match="DPMCMC_SMTP_USER"):
        Settings(smtp_host="m", smtp_from="a@b", smtp_user="u", smtp_security="none")
    with pytest.raises(ValidationError, match="DPMCMC_SMTP_FROM"):
        Settings(smtp_host="m")
