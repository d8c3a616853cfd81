"""Tokens of an identity provider: whom they let in, and above all whom not."""

import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from pydantic import ValidationError
from starlette.testclient import TestClient

from app.main import create_app
from app.services.accounts.keys import living
from app.services.accounts.tokens import ProviderKeys, Tokens, authenticate
from app.settings import Settings
from tests.api.support import ADMIN, PLANNERS, Caller, House, house_in

ISSUER, AUDIENCE = "https://id.example", "dpmcmc"
OIDC: dict[str, Any] = {
    "oidc_issuer": ISSUER,
    "oidc_audience": AUDIENCE,
    "oidc_roles": {"stats-admins": "admin", "stats": "analyst"},
}


def pair(kid: str, kind: str = "RS256") -> tuple[Any, dict[str, Any]]:
    """A private key, and the public one as the provider shows it."""
    if kind == "RS256":
        private: Any = rsa.generate_private_key(65537, 2048)
        shown = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(private.public_key()))
    elif kind == "ES256":
        private = ec.generate_private_key(ec.SECP256R1())
        shown = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(private.public_key()))
    else:
        private = ed25519.Ed25519PrivateKey.generate()
        shown = json.loads(jwt.algorithms.OKPAlgorithm.to_jwk(private.public_key()))
    return private, {**shown, "kid": kid, "use": "sig", "alg": kind}


KEY, SHOWN = pair("k1")


class Provider:
    """What the provider publishes, how often it was asked, and the time."""

    def __init__(self) -> None:
        self.keys = [SHOWN]
        self.asked: list[str] = []
        self.now = 1000.0
        self.away = False

    def get(self, url: str) -> Any:
        self.asked.append(url)
        if self.away:
            raise httpx.ConnectError("away")
        if url.endswith("/.well-known/openid-configuration"):
            return {"jwks_uri": f"{ISSUER}/keys"}
        return {"keys": self.keys}


def claims(**changes: Any) -> dict[str, Any]:
    now = int(time.time())
    usual = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ada", "iat": now, "exp": now + 300}
    return {k: v for k, v in (usual | {"roles": ["stats"]} | changes).items() if v is not None}


def token(key: Any = KEY, alg: str = "RS256", kid: str | None = "k1", **changes: Any) -> str:
    return jwt.encode(claims(**changes), key, alg, headers={"kid": kid} if kid else {})


@pytest.fixture
def provider() -> Provider:
    return Provider()


@pytest.fixture
def tokens(tmp_path: Path, provider: Provider) -> Tokens:
    settings = Settings(data_dir=tmp_path, **OIDC)
    return Tokens(settings, ProviderKeys(settings, provider.get, lambda: provider.now))


@pytest.fixture
def house(tmp_path: Path, tokens: Tokens) -> Iterator[House]:
    with house_in(tmp_path, tokens=tokens, **OIDC) as made:
        yield made


def who(house: House, text: str) -> Any:
    return Caller(house.http, text).get("/v1/users/me")


def test_a_good_token_lets_its_user_in_with_the_role_of_its_claim(house: House) -> None:
    first, again = who(house, token()).json(), who(house, token()).json()
    assert (first["name"], first["role"], first["keys"]) == ("ada", "analyst", [])
    assert again["id"] == first["id"]
    assert who(house, token(roles="stats-admins")).json()["role"] == "admin"
    acts = house.admin.get("/v1/audit").json()["items"]
    told = [(act["action"], act["user"]) for act in acts]
    assert ("user.create", first["id"]) in told
    assert ("user.role", first["id"]) in told
    assert who(house, ADMIN).status_code == 200  # keys go on


@pytest.mark.parametrize("kind", ["ES256", "EdDSA"])
def test_other_asymmetric_keys_are_as_good(house: House, provider: Provider, kind: str) -> None:
    key, shown = pair("other", kind)
    provider.keys = [SHOWN, shown]
    assert who(house, token(key, kind, "other")).status_code == 200


def plain(header: dict[str, Any], body: dict[str, Any], signature: bytes = b"") -> str:
    parts = (json.dumps(header).encode(), json.dumps(body).encode(), signature)
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


def confused(secret: bytes) -> str:
    """Signed with what everybody knows, as if it were the secret of HS256."""
    text = plain({"alg": "HS256", "typ": "JWT", "kid": "k1"}, claims()).rsplit(".", 1)[0]
    mac = hmac.new(secret, text.encode(), hashlib.sha256).digest()
    return f"{text}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"


PEM = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
STRANGER, _ = pair("k1")
NOW = int(time.time())
BAD = {
    "wrong audience": token(aud="somebody-else"),
    "no audience": token(aud=None),
    "wrong issuer": token(iss="https://evil.example"),
    "expired": token(exp=NOW - 120),
    "without an end": token(exp=None),
    "ends after the last year": token(exp=10**15),
    "ends never": token(exp=float("inf")),
    "ends at no number": token(exp=float("nan")),
    "began after all": token(nbf=float("inf")),
    "made after all": token(iat=float("-inf")),
    "not yet": token(nbf=NOW + 3600),
    "without a subject": token(sub=None),
    "a subject of spaces": token(sub="a b"),
    "unknown kid": token(kid="k9"),
    "no kid": token(kid=None),
    "somebody else's key": token(STRANGER),
    "no algorithm": plain({"alg": "none", "kid": "k1"}, claims()),
    "no algorithm, in capitals": plain({"alg": "NONE", "kid": "k1"}, claims()),
    "HS256 with the public key": confused(PEM),
    "HS256 with the modulus": confused(SHOWN["n"].encode()),
    "a signature of nothing": plain({"alg": "RS256", "kid": "k1"}, claims()),
    "another algorithm": token(alg="RS256")[:-8] + "AAAAAAAA",
    "nothing": "a.b.c",
}


@pytest.mark.parametrize("what", BAD)
def test_what_is_not_good_is_401(house: House, what: str) -> None:
    answer = who(house, BAD[what])
    assert answer.status_code == 401, what
    assert answer.json()["code"] == "unauthenticated", what


def test_a_secret_among_the_providers_keys_is_no_key(house: House, provider: Provider) -> None:
    secret = base64.urlsafe_b64encode(b"s" * 32).rstrip(b"=").decode()
    provider.keys = [SHOWN, {"kty": "oct", "k": secret, "kid": "s", "alg": "HS256"}]
    forged = jwt.encode(claims(), b"s" * 32, "HS256", headers={"kid": "s"})
    assert who(house, forged).status_code == 401
    assert who(house, token()).status_code == 200


def test_clocks_may_differ_a_little(house: House) -> None:
    now = int(time.time())
    assert who(house, token(exp=now - 30)).status_code == 200
    assert who(house, token(nbf=now + 30)).status_code == 200


def test_a_token_without_a_role_is_403(house: House) -> None:
    for roles in ([], ["other"], None, {"stats": 1}):
        answer = who(house, token(roles=roles))
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


def test_a_claim_may_lie_inside_another(tmp_path: Path, provider: Provider) -> None:
    settings = Settings(data_dir=tmp_path, **OIDC, oidc_role_claim="realm_access.roles")
    found = Tokens(settings, ProviderKeys(settings, provider.get))
    told = found.read(token(roles=None, realm_access={"roles": ["x", "stats"]}))
    assert told is not None
    assert told.role == "analyst"


def test_a_rotated_key_is_found_and_the_old_one_dies(tokens: Tokens, provider: Provider) -> None:
    assert tokens.read(token()) is not None
    new, shown = pair("k2")
    provider.keys = [shown]
    assert tokens.read(token(new, kid="k2")) is None  # asked a moment ago
    provider.now += 11
    assert tokens.read(token(new, kid="k2")) is not None
    assert tokens.read(token()) is None


def test_keys_are_fetched_once_and_withdrawn_ones_are_forgotten_in_time(
    tokens: Tokens, provider: Provider
) -> None:
    for _ in range(20):
        assert tokens.read(token()) is not None
        assert tokens.read(token(kid="unknown")) is None
    assert provider.asked == [f"{ISSUER}/.well-known/openid-configuration", f"{ISSUER}/keys"]
    provider.keys = [pair("k2")[1]]
    provider.now += 301
    assert tokens.read(token()) is None


def test_a_provider_that_is_away_stops_only_tokens(house: House, provider: Provider) -> None:
    provider.away = True
    answer = who(house, token())
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
    assert who(house, ADMIN).status_code == 200
    provider.away, provider.now = False, provider.now + 11
    assert who(house, token()).status_code == 200
    provider.away, provider.now = True, provider.now + 400
    assert who(house, token()).status_code == 200  # a while without it is no harm
    provider.now += 400
    assert who(house, token()).status_code == 503  # what it withdrew does not last for ever


def test_a_disabled_user_and_an_ended_token_end_streams_too(house: House, tokens: Tokens) -> None:
    now = int(time.time())
    there = authenticate(house.services, tokens, token(exp=now + 300), None)
    gone = authenticate(house.services, tokens, token(exp=now - 30), None)
    assert there is not None
    assert gone is not None
    with house.services.sessions.read() as session:
        assert living(session, {there, gone}) == {there}
    shut = house.admin.call("PATCH", f"/v1/users/{there.id}", json={"disabled": True})
    assert shut.status_code == 200
    assert who(house, token()).status_code == 401
    with house.services.sessions.read() as session:
        assert living(session, {there}) == set()


def test_a_key_made_with_a_token_ends_no_later(house: House) -> None:
    ada, end = Caller(house.http, token()), claims()["exp"]
    made = ada.post("/v1/users/me/keys").json()
    from datetime import datetime

    assert datetime.fromisoformat(made["expires_at"]).timestamp() <= end + 1
    late = {"expires_at": "2099-01-01T00:00:00Z"}
    assert ada.post("/v1/users/me/keys", json=late).status_code == 422


def test_tokens_are_not_looked_at_unless_configured(tmp_path: Path) -> None:
    with house_in(tmp_path) as made:
        assert who(made, token()).status_code == 401


@pytest.mark.parametrize("missing", ["oidc_audience", "oidc_roles"])
def test_a_provider_needs_audience_and_roles(tmp_path: Path, missing: str) -> None:
    with pytest.raises(ValidationError, match="DPMCMC_OIDC"):
        Settings(data_dir=tmp_path, **{k: v for k, v in OIDC.items() if k != missing})


def test_the_service_makes_its_own_reader_where_it_is_configured(tmp_path: Path) -> None:
    app = create_app(Settings(data_dir=tmp_path, **OIDC), planners=PLANNERS)
    with TestClient(app):
        assert isinstance(app.state.tokens, Tokens)


@pytest.mark.longer
def test_tokens_of_unknown_keys_hold_nobody_up_while_the_provider_hangs(
    tmp_path: Path, provider: Provider
) -> None:
    """Sixty of them, more than there are threads: keys and known tokens are let in meanwhile."""
    hung, go_on = threading.Event(), threading.Event()

    def get(url: str) -> Any:
        if provider.away:
            hung.set()
            assert go_on.wait(60.0)
        return provider.get(url)

    settings = Settings(data_dir=tmp_path, **OIDC)
    keys = ProviderKeys(settings, get, lambda: provider.now)
    with house_in(tmp_path, tokens=Tokens(settings, keys), **OIDC) as house:
        assert who(house, token()).status_code == 200
        provider.away, provider.now = True, provider.now + 11
        with ThreadPoolExecutor(60) as crowd:
            junk = [crowd.submit(who, house, token(kid=f"k{n + 2}")) for n in range(60)]
            assert hung.wait(60.0)
            for _ in range(5):
                assert who(house, ADMIN).status_code == 200
                assert who(house, token()).status_code == 200
            assert not any(one.done() for one in junk)
            provider.away = False
            go_on.set()
            assert {one.result().status_code for one in junk} == {401}


def test_a_head_that_is_nested_deeply_is_401(house: House) -> None:
    from base64 import urlsafe_b64encode

    deep = urlsafe_b64encode(b"[" * 5000).rstrip(b"=").decode()
    assert who(house, f"{deep}.a.b").status_code == 401
