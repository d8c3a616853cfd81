"""Bearer tokens of an identity provider (OpenID Connect).

A token is good where one of the provider's present keys signed it, by an asymmetric algorithm, for
this service, and neither its end nor its beginning contradicts the clock by more than the allowed
skew. Its role is what the settings make of one of its claims.
"""

import json
import re
import threading
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import httpx
import jwt
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app import logs
from app.services.accounts.caller import Caller
from app.services.audit.trail import note
from app.services.context import Services
from app.services.errors import Refusal
from app.services.outward import exchange
from app.settings import Settings
from app.storage.rows import UserRow
from app.storage.types import utc_now

# asymmetric ones only: "none" proves nothing, and with HS256 a public key would be the secret
ALGORITHMS = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)
SECRET_KINDS = frozenset({"oct"})
CLAIMS = ("exp", "iss", "aud", "sub")
FORM = re.compile(r"[\w-]+\.[\w-]+\.[\w-]*")
SUBJECT = re.compile(r"[\x21-\x7e]{1,255}")
KEPT_SECONDS = 300.0  # keys of the provider: one that it withdraws is good for so long
AGAIN_SECONDS = 10.0  # until they are fetched again for a key that is not among them
FETCH_SECONDS = 5.0
PATIENCE_SECONDS = 6.0  # that a request waits for a fetch
DISCOVERY = "/.well-known/openid-configuration"


@dataclass(frozen=True, slots=True)
class Identity:
    """The user named by a token. subject: issuer and subject together, unique."""

    subject: str
    name: str
    role: str
    ends_at: datetime


def fetch(url: str) -> Any:
    """Return JSON from a URL. Raises OutsideError or ValueError."""
    return json.loads(exchange("GET", url, FETCH_SECONDS))


class ProviderKeys:
    """The provider's public keys, fetched when first needed and again after a rotation."""

    def __init__(
        self,
        settings: Settings,
        get: Callable[[str], Any] = fetch,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings, self._get, self._clock = settings, get, clock
        self._guard = threading.Lock()
        self._keys: Mapping[str, jwt.PyJWK] = {}
        self._tried, self._fetched = -AGAIN_SECONDS, -2 * KEPT_SECONDS
        self._fetch_of: Future[None] | None = None

    def fetching(self, kid: str) -> "Future[None] | None":
        """Return the fetch needed for the key of this id, started or under way; else None.

        One thread fetches at a time, and holds up nobody whose key is known.
        """
        with self._guard:
            now = self._clock()
            if now - self._fetched < KEPT_SECONDS and kid in self._keys:
                return None
            if self._fetch_of is not None and not self._fetch_of.done():
                return self._fetch_of if now - self._tried < PATIENCE_SECONDS else None
            if now - self._tried < AGAIN_SECONDS:
                return None
            self._tried = now
            begun = self._fetch_of = Future[None]()
        threading.Thread(target=self._fetch, args=(now, begun), daemon=True).start()
        return begun

    def key(self, kid: str, patience: float) -> jwt.PyJWK | None:
        """Return the key of this id, waiting at most `patience` seconds for a fetch.

        Raises Refusal 503 where no keys were ever to be had.
        """
        fetch = self.fetching(kid)
        if fetch is not None:
            wait({fetch}, timeout=patience)
        if self._clock() - self._fetched >= 2 * KEPT_SECONDS:  # what is withdrawn does not last
            raise Refusal(503, "unavailable", "The identity provider does not answer.")
        return self._keys.get(kid)

    def _fetch(self, now: float, begun: "Future[None]") -> None:
        """Fetch the keys and complete the future."""
        try:
            self._read(now)
        finally:
            begun.set_result(None)

    def _read(self, now: float) -> None:
        """Fetch the keys and store them."""
        try:
            document = self._get(self._address())
            usable = [k for k in document["keys"] if k.get("kty") not in SECRET_KINDS]
            keys = jwt.PyJWKSet.from_dict({"keys": usable}).keys
        except (httpx.HTTPError, ValueError, TypeError, LookupError, jwt.PyJWTError) as error:
            logs.logger().warning("provider_keys_unread", exception=type(error).__name__)
            return
        self._keys = {key.key_id: key for key in keys if key.key_id}
        self._fetched = now

    def _address(self) -> str:
        """Return the URL of the provider's key set."""
        if self._settings.oidc_jwks_url:
            return self._settings.oidc_jwks_url
        about = self._get(self._settings.oidc_issuer.rstrip("/") + DISCOVERY)
        return str(about["jwks_uri"])


class Tokens:
    """Validates bearer tokens."""

    def __init__(self, settings: Settings, keys: ProviderKeys | None = None) -> None:
        self._settings = settings
        self._keys = keys or ProviderKeys(settings)

    def fetching(self, token: str) -> "Future[None] | None":
        """Return the key fetch that validating a token waits for, if any."""
        kid = _kid(token)
        return None if kid is None else self._keys.fetching(kid)

    def read(self, token: str, patience: float = PATIENCE_SECONDS) -> Identity | None:
        """Return the identity of a valid token, else None. Raises Refusal 403 without a role.

        patience: seconds that the provider's keys are waited for, where they are being fetched.
        """
        claims = self.claims(token, self._settings.oidc_audience, CLAIMS, patience)
        if claims is None or not SUBJECT.fullmatch(str(claims["sub"])):
            return None
        return Identity(
            subject=f"{self._settings.oidc_issuer}|{claims['sub']}",
            name=str(claims["sub"])[:180],
            role=self._role(claims),
            ends_at=datetime.fromtimestamp(int(claims["exp"]), UTC),
        )

    def claims(
        self,
        token: str,
        audience: str,
        required: Collection[str] = CLAIMS,
        patience: float = PATIENCE_SECONDS,
    ) -> dict[str, Any] | None:
        """Return the claims of a valid token for this audience, else None."""
        kid = _kid(token)
        if kid is None:
            return None
        try:
            key = self._keys.key(kid, patience)
            claims = None if key is None else self._decoded(token, key, audience, required)
            datetime.fromtimestamp(int(claims["exp"] if claims else 0), UTC)  # a time there is
        except (jwt.PyJWTError, RecursionError, OverflowError, ValueError, OSError) as error:
            logs.logger().info("token_refused", exception=type(error).__name__)
            return None
        return claims

    def _decoded(
        self, token: str, key: jwt.PyJWK, audience: str, required: Collection[str]
    ) -> dict[str, Any]:
        """Return the claims, with signature, audience and expiry verified."""
        claims: dict[str, Any] = jwt.decode(
            token,
            key,
            algorithms=list(ALGORITHMS),
            audience=audience,
            issuer=self._settings.oidc_issuer,
            leeway=self._settings.oidc_skew_seconds,
            options={"require": list(required)},
        )
        return claims

    def _role(self, claims: Mapping[str, Any]) -> str:
        """Return the first configured role that matches a value of the role claim."""
        claim: Any = claims
        for step in self._settings.oidc_role_claim.split("."):
            claim = claim.get(step) if isinstance(claim, dict) else None
        values = claim if isinstance(claim, list) else [claim]
        for value, role in self._settings.oidc_roles.items():
            if value in values:
                return role
        raise Refusal(403, "forbidden", "This token gives no role here.")


def _kid(token: str) -> str | None:
    """Return the key id in a token's header; None where the algorithm is not accepted."""
    try:
        head = jwt.get_unverified_header(token)
    except (jwt.PyJWTError, RecursionError, ValueError) as error:
        logs.logger().info("token_refused", exception=type(error).__name__)
        return None
    kid = head.get("kid")
    return kid if head.get("alg") in ALGORITHMS and isinstance(kid, str) else None


def looks_like_one(token: str) -> bool:
    """Return whether a text has the form of a JWT, which no API key has."""
    return FORM.fullmatch(token) is not None


def authenticate(
    services: Services, tokens: Tokens, token: str, address: str | None
) -> Caller | None:
    """Return the caller of a valid token; None if invalid or the user is disabled.

    The user is made at the first token, and follows the role of the last one. Nothing is waited
    for: threads are few, so that the request has waited for the provider before it took one.
    """
    identity = tokens.read(token, patience=0.0)
    return None if identity is None else caller_of(services, identity, address)


def caller_of(services: Services, identity: Identity, address: str | None) -> Caller | None:
    """Return the caller, creating or updating its user; None if disabled."""
    with services.sessions.read() as session:
        user = _known(session, identity)
    if user is None or user.role != identity.role:
        user = _written(services, identity)
    if user.disabled_at is not None:
        return None
    return Caller(user.id, identity.role, None, address, identity.ends_at)


def _known(session: Session, identity: Identity) -> UserRow | None:
    """Return the user of an identity, if there is one."""
    return session.scalar(select(UserRow).where(UserRow.subject == identity.subject))


def _written(services: Services, identity: Identity) -> UserRow:
    """Create or update the user of an identity; safe against concurrent requests."""
    for name in (
        identity.name,
        f"{identity.name} {uuid4().hex[:8]}",
        f"{identity.name} {uuid4().hex[:8]}",
    ):
        try:
            with services.sessions.write() as session:
                user = _known(session, identity)
                if user is None:
                    user = UserRow(id=uuid4(), name=name, role=identity.role, created_at=utc_now())
                    user.subject = identity.subject
                    session.add(user)
                    session.flush()
                    named = {"name": name, "role": identity.role, "subject": identity.subject}
                    note(session, None, "user.create", user.id, user_id=user.id, **named)
                elif user.role != identity.role:
                    roles = {"before": user.role, "role": identity.role}
                    user.role = identity.role
                    note(session, None, "user.role", user.id, user_id=user.id, **roles)
                return user
        except IntegrityError:
            continue  # the name is taken, or somebody was quicker
    raise Refusal(503, "unavailable", "The user could not be made now; try again.")
