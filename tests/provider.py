"""A small OpenID Connect provider that runs in this process and speaks HTTP.

It checks what a provider has to: clients, addresses to lead back to, codes that are good once and
for one verifier, refresh tokens that are good once. It asks nobody for a password.
"""

import json
import secrets
import threading
import time
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote_plus, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

KEY = rsa.generate_private_key(65537, 2048)
SHOWN = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(KEY.public_key())) | {
    "kid": "p1",
    "use": "sig",
    "alg": "RS256",
}
CLIENT, DEVICE, AUDIENCE = "dashboard", "terminal", "dpmcmc"
GRANT_OF_DEVICES = "urn:ietf:params:oauth:grant-type:device_code"
EVENT = "http://schemas.openid.net/event/backchannel-logout"
Answer = tuple[int, dict[str, str], bytes]


@dataclass
class Grant:
    """What somebody may turn into tokens, once."""

    user: str
    client: str
    scope: str
    redirect: str = ""
    challenge: str = ""
    nonce: str | None = None


@dataclass
class Device:
    """A terminal that waits. approved: None until somebody has answered."""

    grant: Grant
    user_code: str
    approved: bool | None = None
    asked_at: float = 0.0
    interval: float = 0.2


@dataclass
class Provider:
    """The provider's state. Tests change it while it runs.

    user: who signs in in the browser. roles: of each user. secret: of the dashboard's client; None:
    a public one. refreshes: whether tokens can be renewed. claims: put over those of access and ID
    tokens. hangs: paths that never answer. away: paths that answer 503. asks: whether /authorize
    shows a page first.
    """

    user: str = "ada"
    roles: dict[str, list[str]] = field(default_factory=lambda: {"ada": ["stats"]})
    secret: str | None = None
    refreshes: bool = True
    lasts: int = 300
    asks: bool = False
    opaque: bool = False  # its access tokens say nothing
    slows: int = 0  # polls that it says come too early, besides those that do
    slower: float = 0.3  # seconds by which it wants to be asked later then
    redirects: set[str] = field(default_factory=set)
    about: dict[str, Any] = field(default_factory=dict)
    claims: dict[str, dict[str, Any]] = field(default_factory=lambda: {"access": {}, "id": {}})
    answers: dict[str, Any] = field(default_factory=dict)
    hangs: set[str] = field(default_factory=set)
    away: set[str] = field(default_factory=set)
    key: Any = KEY
    polls: list[float] = field(default_factory=list)
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    url: str = ""
    sid: str = field(default_factory=lambda: secrets.token_hex(8))
    grants: dict[str, Grant] = field(default_factory=dict)
    refresh: dict[str, Grant] = field(default_factory=dict)
    devices: dict[str, Device] = field(default_factory=dict)
    over: threading.Event = field(default_factory=threading.Event)

    def settings(self, public_url: str) -> dict[str, Any]:
        """Settings of a service whose provider this is."""
        self.redirects |= {f"{public_url}/signin/oidc/callback", f"{public_url}/login"}
        return {
            "oidc_issuer": self.url,
            "oidc_audience": AUDIENCE,
            "oidc_roles": {"stats-admins": "admin", "stats": "analyst"},
            "oidc_client_id": CLIENT,
            "oidc_device_client_id": DEVICE,
            "oidc_name": "Example ID",
            "public_url": public_url,
        }

    def end_session(self) -> None:
        """End what everybody has here: nothing can be renewed any more."""
        self.refresh.clear()
        self.sid = secrets.token_hex(8)

    def approve(self, user_code: str, *, approved: bool = True) -> None:
        """Answer a terminal."""
        next(d for d in self.devices.values() if d.user_code == user_code).approved = approved

    def signed(self, claims: dict[str, Any], **changes: Any) -> str:
        """A token."""
        chosen = {k: v for k, v in (claims | changes).items() if v is not None}
        return jwt.encode(chosen, self.key, "RS256", headers={"kid": "p1"})

    def logout_token(self, **changes: Any) -> str:
        """What a back-channel logout sends."""
        now = int(time.time())
        usual = {"iss": self.url, "aud": CLIENT, "iat": now, "exp": now + 120, "jti": "j"}
        return self.signed(usual | {"events": {EVENT: {}}}, **changes)

    def tokens(self, grant: Grant) -> dict[str, Any]:
        """What a grant is turned into."""
        now = int(time.time())
        usual = {"iss": self.url, "sub": grant.user, "iat": now, "exp": now + self.lasts}
        roles = {"roles": self.roles.get(grant.user, [])}
        own = {"aud": grant.client, "nonce": grant.nonce, "sid": self.sid}
        access = self.signed(usual | roles | {"aud": AUDIENCE}, **self.claims["access"])
        given = {
            "access_token": "opaque" if self.opaque else access,
            "id_token": self.signed(usual | roles | own, **self.claims["id"]),
            "token_type": "Bearer",
            "expires_in": self.lasts,
        }
        if self.refreshes:
            given["refresh_token"] = secrets.token_urlsafe(24)
            self.refresh[given["refresh_token"]] = grant
        return given

    def answer(self, method: str, path: str, sent: dict[str, str], authorization: str) -> Answer:
        """Answer a request."""
        self.asked.append((path, sent))
        if path in self.answers:
            return _json(self.answers[path])
        if path == "/.well-known/openid-configuration":
            return _json(self._discovery() | self.about)
        if path == "/keys":
            return _json({"keys": [SHOWN]})
        if path == "/authorize":
            return self._authorize(sent)
        if path == "/approve":
            return self._back(self.grants[sent["code"]], sent["code"], sent["state"])
        if path == "/device_authorization" and method == "POST":
            return self._device(sent)
        if path == "/device":
            self.approve(sent["user_code"])
            return 200, {}, b"<h1>Go back to your terminal</h1>"
        if path == "/token" and method == "POST":
            return self._token(sent, authorization)
        if path == "/logout":
            self.end_session()
            back = sent.get("post_logout_redirect_uri", "")
            return (302, {"Location": back}, b"") if back in self.redirects else (400, {}, b"")
        return 404, {}, b""

    def _discovery(self) -> dict[str, Any]:
        return {
            "issuer": self.url,
            "jwks_uri": f"{self.url}/keys",
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "device_authorization_endpoint": f"{self.url}/device_authorization",
            "end_session_endpoint": f"{self.url}/logout",
            "authorization_response_iss_parameter_supported": True,
        }

    def _authorize(self, sent: dict[str, str]) -> Answer:
        asked = {"client_id": CLIENT, "response_type": "code", "code_challenge_method": "S256"}
        wrong = any(sent.get(name) != value for name, value in asked.items())
        if wrong or sent.get("redirect_uri") not in self.redirects or not sent.get("state"):
            return 400, {}, b"not a request of a client of mine"
        redirect, nonce = sent["redirect_uri"], sent["nonce"]
        made = Grant(self.user, CLIENT, sent["scope"], redirect, sent["code_challenge"], nonce)
        code = secrets.token_urlsafe(16)
        self.grants[code] = made
        if self.asks:
            address = escape(f"/approve?{urlencode({'code': code, 'state': sent['state']})}")
            page = f'<!doctype html><title>ID</title><a href="{address}">I am {made.user}</a>'
            return 200, {"Content-Type": "text/html"}, page.encode()
        return self._back(made, code, sent["state"])

    def _back(self, grant: Grant, code: str, state: str) -> Answer:
        query = urlencode({"code": code, "state": state, "iss": self.url})
        return 302, {"Location": f"{grant.redirect}?{query}"}, b""

    def _device(self, sent: dict[str, str]) -> Answer:
        if sent.get("client_id") != DEVICE:
            return _json({"error": "invalid_client"}, 401)
        code, user_code = secrets.token_urlsafe(16), secrets.token_hex(4).upper()
        self.devices[code] = Device(Grant(self.user, DEVICE, sent["scope"]), user_code)
        return _json(
            {
                "device_code": code,
                "user_code": user_code,
                "verification_uri": f"{self.url}/device",
                "verification_uri_complete": f"{self.url}/device?user_code={user_code}",
                "expires_in": 60,
                "interval": 0.2,
            }
        )

    def _token(self, sent: dict[str, str], authorization: str) -> Answer:
        client = sent.get("client_id", "")
        if authorization.startswith("Basic "):
            name, _, secret = b64decode(authorization[6:]).decode().partition(":")
            client, sent = unquote_plus(name), sent | {"client_secret": unquote_plus(secret)}
        if client not in (CLIENT, DEVICE):
            return _json({"error": "invalid_client"}, 401)
        if client == CLIENT and sent.get("client_secret") != self.secret:
            return _json({"error": "invalid_client"}, 401)
        kind = sent.get("grant_type")
        if kind == GRANT_OF_DEVICES:
            return self._polled(sent["device_code"])
        kept = self.grants if kind == "authorization_code" else self.refresh
        grant = kept.pop(
            sent.get("code" if kind == "authorization_code" else "refresh_token"), None
        )
        if grant is None or grant.client != client:
            return _json({"error": "invalid_grant"}, 400)
        if kind == "authorization_code":
            digest = sha256(sent.get("code_verifier", "").encode()).digest()
            challenge = urlsafe_b64encode(digest).rstrip(b"=").decode()
            if (challenge, sent.get("redirect_uri")) != (grant.challenge, grant.redirect):
                return _json({"error": "invalid_grant"}, 400)
        return _json(self.tokens(grant))

    def _polled(self, code: str) -> Answer:
        device, now = self.devices.get(code), time.monotonic()
        if device is None:
            return _json({"error": "expired_token"}, 400)
        early = now - device.asked_at < 0.8 * device.interval
        device.asked_at = now
        self.polls.append(now)
        if early or self.slows:
            self.slows = max(self.slows - 1, 0)
            device.interval += self.slower
            return _json({"error": "slow_down"}, 400)
        if device.approved is None:
            return _json({"error": "authorization_pending"}, 400)
        del self.devices[code]
        if not device.approved:
            return _json({"error": "access_denied"}, 400)
        return _json(self.tokens(device.grant))


def _json(document: Any, status: int = 200) -> Answer:
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    return status, {"Content-Type": "application/json"}, body


@contextmanager
def provider(host: str = "127.0.0.1", **values: Any) -> Iterator[Provider]:
    """A provider that runs. host: its name, here; another name is another site to a browser."""
    made = Provider(**values)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(urlsplit(self.path).query)

        def do_POST(self) -> None:
            self._answer(self.rfile.read(int(self.headers["Content-Length"])).decode())

        def _answer(self, text: str) -> None:
            path = urlsplit(self.path).path
            if path in made.hangs:
                made.over.wait()
                return
            if path in made.away:
                self.send_error(503)
                return
            sent = {name: values[-1] for name, values in parse_qs(text).items()}
            authorization = self.headers.get("Authorization", "")
            status, headers, body = made.answer(self.command, path, sent, authorization)
            with suppress(OSError):
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads, server.block_on_close = True, False
    made.url = f"http://{host}:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield made
    finally:
        made.over.set()
        server.shutdown()
        thread.join()
        server.server_close()
