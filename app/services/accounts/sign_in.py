"""Signing in to the dashboard at an identity provider: authorization code with PKCE.

A session is a key of the user, as after signing in with a key, that ends with the provider's token.
Where the provider gives a refresh token, the end moves on with each new token, and no further once
the provider refuses one. docs/adr/0014-provider-sessions.md says why.
"""

import asyncio
import hmac
import json
import re
import secrets
import time
from base64 import b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Literal, TypeVar
from urllib.parse import quote_plus, urlencode, urlsplit
from uuid import UUID

import httpx
from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from app import logs
from app.services.accounts import keys
from app.services.accounts.caller import Caller
from app.services.accounts.tokens import (
    DISCOVERY,
    FETCH_SECONDS,
    KEPT_SECONDS,
    PATIENCE_SECONDS,
    Identity,
    Tokens,
    caller_of,
    fetch,
    looks_like_one,
)
from app.services.context import Services
from app.services.errors import Refusal
from app.services.outward import OutsideError, exchange
from app.storage.rows import KeyRow, ProviderSessionRow, UserRow
from app.storage.types import utc_now

Why = Literal["unavailable", "forged", "denied", "provider", "token", "role", "disabled", "keys"]
Result = TypeVar("Result")
CALLBACK, LANDING = "/signin/oidc/callback", "/login"
ATTEMPT_SECONDS = 600  # from the provider's page back to ours
CLAIM_SECONDS = 20.0  # that one process may take to renew a session
WAIT_SECONDS = 0.1
AT_ONCE = 8  # exchanges with the provider: whoever comes while so many hang is refused
MOST_THEN, MOST_CODE, MOST_SID = 1000, 4096, 255
ATTEMPT, SESSION = b"sign-in", b"session "  # what is sealed
EVENTS = "http://schemas.openid.net/event"
LOGOUT_EVENT = f"{EVENTS}/backchannel-logout"
LOGOUT_CLAIMS = ("iss", "aud", "iat", "exp", "jti", "events")
ERROR = re.compile(r"[a-z_]{1,40}")
Fields = Sequence[tuple[str, str]]


class SignInError(Exception):
    """Sign-in failed. why: one of `Why`, without anything sent by provider or browser."""

    def __init__(self, why: Why) -> None:
        super().__init__(why)
        self.why: Why = why


@dataclass(frozen=True, slots=True)
class Attempt:
    """A sign-in that a browser has begun. then: the page to show afterwards.

    State, nonce and verifier follow from a seed of 256 bits, and none of them from another.
    """

    seed: bytes
    until: int
    then: str

    def derived(self, purpose: str) -> str:
        """Return the state, nonce or code verifier, derived from the seed."""
        return _base64(hmac.digest(self.seed, purpose.encode(), "sha256"))


@dataclass(frozen=True, slots=True)
class TokensGiven:
    """The provider's tokens after validation."""

    identity: Identity
    id_token: str
    refresh_token: str
    sid: str | None


@dataclass(frozen=True, slots=True)
class SignedIn:
    """A new session. key: its secret, shown once. then: the page to show."""

    key_id: UUID
    key: str
    then: str


class SignIn:
    """Sign-in to the dashboard by the configured identity provider, one object a process."""

    def __init__(self, services: Services, tokens: Tokens) -> None:
        self._services, self._settings, self._tokens = services, services.settings, tokens
        self._about: Mapping[str, Any] = {}
        self._read_at = -KEPT_SECONDS
        self._inside = 0
        self._threads = ThreadPoolExecutor(AT_ONCE, "sign-in")

    def close(self) -> None:
        """Stop accepting sign-ins."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def begin(self, then: str) -> tuple[str, str]:
        """Return the provider's URL and the browser's cookie. Raises SignInError."""
        return await self._in_threads(lambda: self._begun(then))

    async def finish(
        self, cookie: str, query: Fields, address: str | None, label: str, lasts: timedelta
    ) -> SignedIn:
        """Create a session from the provider's redirect. Raises SignInError.

        cookie: of `begin`; address: where the request came from; lasts: the longest session.
        """
        return await self._in_threads(lambda: self._finished(cookie, query, address, label, lasts))

    async def renew(self, key: str) -> bool:
        """Renew a session at the provider, and return whether it continues."""
        until = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < until:
            try:
                goes_on = await self._in_threads(lambda: self._renewed(key))
            except SignInError:
                return False
            if goes_on is not None:
                return goes_on
            await asyncio.sleep(WAIT_SECONDS)
        return False

    async def leave(self, key_id: str) -> str | None:
        """Delete a session. Returns the provider's logout URL, if there is one."""
        try:
            return await self._in_threads(lambda: self._signed_out(key_id))
        except SignInError:
            return None

    async def end(self, logout_token: str) -> bool:
        """End the sessions named in a logout token; return whether the token is valid."""
        try:
            return await self._in_threads(lambda: self._ended(logout_token))
        except SignInError:
            return False

    async def _in_threads(self, function: Callable[[], Result]) -> Result:
        """Run a function that may wait for the provider in a separate thread pool."""
        if self._inside >= AT_ONCE:
            raise SignInError("unavailable")
        self._inside += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, function)
        finally:
            self._inside -= 1

    def _begun(self, then: str) -> tuple[str, str]:
        """Return the provider's URL and the cookie of a new attempt."""
        endpoint = self._endpoint("authorization_endpoint")
        then = then if len(then.encode()) <= MOST_THEN else "/"
        attempt = Attempt(secrets.token_bytes(32), int(time.time()) + ATTEMPT_SECONDS, then)
        challenge = sha256(attempt.derived("verifier").encode()).digest()
        query = {
            "response_type": "code",
            "client_id": self._settings.oidc_client_id,
            "redirect_uri": self._url_of(CALLBACK),
            "scope": self._settings.oidc_scopes,
            "state": attempt.derived("state"),
            "nonce": attempt.derived("nonce"),
            "code_challenge": _base64(challenge),
            "code_challenge_method": "S256",
        }
        text = attempt.seed + attempt.until.to_bytes(8) + then.encode()
        return _with(endpoint, query), _base64(self._services.vault.seal(text, ATTEMPT))

    def _attempt(self, cookie: str) -> Attempt:
        """Return the attempt in a cookie. Raises SignInError where it is invalid or expired."""
        try:
            sealed = urlsafe_b64decode(cookie + "=" * (-len(cookie) % 4))
        except ValueError:
            raise SignInError("forged") from None
        text = self._services.vault.unseal(sealed, ATTEMPT)
        if text is None:
            raise SignInError("forged")
        attempt = Attempt(text[:32], int.from_bytes(text[32:40]), text[40:].decode())
        if attempt.until < time.time():
            raise SignInError("forged")
        return attempt

    def _finished(
        self, cookie: str, query: Fields, address: str | None, label: str, lasts: timedelta
    ) -> SignedIn:
        """Create a session from the provider's redirect, in this thread. Raises SignInError."""
        attempt = self._attempt(cookie)
        code = self._code(attempt, query)
        sent = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._url_of(CALLBACK),
            "code_verifier": attempt.derived("verifier"),
        }
        tokens = self._checked(self._exchanged(sent), attempt.derived("nonce"))
        caller = self._caller(tokens, address)
        now = utc_now()
        until = now + lasts
        end = min(tokens.identity.ends_at, until)
        if end <= now:
            raise SignInError("token")
        try:
            record, key = keys.add(self._services, caller, caller.id, label, end)
        except Refusal as refusal:
            logs.logger().info("sign_in_refused", code=refusal.code)
            raise SignInError("keys") from None
        with self._services.sessions.write() as session:
            session.execute(delete(ProviderSessionRow).where(ProviderSessionRow.ends_at < now))
            row = ProviderSessionRow(key_id=record.id, sid=tokens.sid, ends_at=until)
            row.sealed = self._sealed(record.id, tokens)
            session.add(row)
        return SignedIn(record.id, key, attempt.then)

    def _code(self, attempt: Attempt, query: Fields) -> str:
        """Return the authorization code of a redirect. Raises SignInError."""
        sent = dict(query)
        if len(sent) < len(query) or not _same(sent.get("state", ""), attempt.derived("state")):
            raise SignInError("forged")
        says_issuer = self._discovered().get("authorization_response_iss_parameter_supported")
        issuer = sent.get("iss", "" if says_issuer is True else self._settings.oidc_issuer)
        if issuer != self._settings.oidc_issuer:  # RFC 9207: another provider's answer
            raise SignInError("forged")
        if "error" in sent:
            known = ERROR.fullmatch(sent["error"])
            logs.logger().warning("sign_in_error", error=known and known.group())
            raise SignInError("denied" if sent["error"] == "access_denied" else "provider")
        code = sent.get("code", "")
        if not 0 < len(code) <= MOST_CODE:
            raise SignInError("provider")
        return code

    def _exchanged(self, fields: Mapping[str, str]) -> Mapping[str, Any]:
        """Return the token endpoint's answer. Raises SignInError."""
        endpoint, headers = self._endpoint("token_endpoint"), {"Accept": "application/json"}
        name = self._settings.oidc_client_id
        secret = self._settings.oidc_client_secret.get_secret_value()
        methods = self._discovered().get("token_endpoint_auth_methods_supported")
        if secret and (not isinstance(methods, list) or "client_secret_basic" in methods):
            pair = f"{quote_plus(name)}:{quote_plus(secret)}".encode()  # RFC 6749, 2.3.1
            headers["Authorization"] = f"Basic {b64encode(pair).decode()}"
        else:
            fields = {**fields, "client_id": name} | ({"client_secret": secret} if secret else {})
        headers["Content-Type"] = "application/x-www-form-urlencoded"
        content = urlencode(fields).encode()
        try:
            body = exchange("POST", endpoint, FETCH_SECONDS, content=content, headers=headers)
        except OutsideError as error:
            logs.logger().warning("sign_in_exchange", exception=error.reason)
            refused = error.reason == httpx.HTTPStatusError.__name__
            raise SignInError("provider" if refused else "unavailable") from None
        try:
            answer = json.loads(body)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            raise SignInError("provider")
        return answer

    def _checked(
        self, answer: Mapping[str, Any], nonce: str | None, before: Mapping[str, str] | None = None
    ) -> TokensGiven:
        """Return validated tokens, checked as the API checks a bearer token. Raises SignInError.

        nonce: of the attempt; None where a session is renewed, whose tokens came before.
        """
        before = before or {}
        access, id_token, refresh = (
            value if isinstance(value := answer.get(name), str) else ""
            for name in ("access_token", "id_token", "refresh_token")
        )
        claims = self._tokens.claims(id_token, self._settings.oidc_client_id) if id_token else None
        if claims is None:
            if nonce is not None or id_token:
                raise SignInError("token")
            claims = {}  # a renewal may come without
        elif nonce is not None and not _same(str(claims.get("nonce", "")), nonce):
            raise SignInError("token")
        ours = claims.get("azp", self._settings.oidc_client_id) == self._settings.oidc_client_id
        several = isinstance(claims.get("aud"), list) and len(claims["aud"]) > 1
        if not ours or (several and "azp" not in claims):
            raise SignInError("token")
        identity = self._identity([access, id_token])
        subjects = {before["subject"]} if "subject" in before else set()
        if claims:
            subjects.add(f"{self._settings.oidc_issuer}|{claims['sub']}")
        if subjects != {identity.subject}:
            raise SignInError("token")
        sid = claims.get("sid")
        return TokensGiven(
            identity,
            id_token or before.get("id_token", ""),
            refresh or before.get("refresh_token", ""),
            sid if isinstance(sid, str) and len(sid) <= MOST_SID else None,
        )

    def _identity(self, given: Sequence[str]) -> Identity:
        """Return the identity of the first token that the API accepts. Raises SignInError."""
        why: Why = "token"
        for token in given:
            if not looks_like_one(token):
                continue
            try:
                identity = self._tokens.read(token)
            except Refusal as refusal:
                why = "role" if refusal.status == httpx.codes.FORBIDDEN else "unavailable"
                continue
            if identity is not None:
                return identity
        raise SignInError(why)

    def _caller(self, given: TokensGiven, address: str | None) -> Caller:
        """Return the caller of validated tokens."""
        caller = caller_of(self._services, given.identity, address)
        if caller is None:
            raise SignInError("disabled")
        return caller

    def _renewed(self, key: str) -> bool | None:
        """Return whether a session continues; None while another request is renewing it."""
        claimed = utc_now() + timedelta(seconds=CLAIM_SECONDS)
        with self._services.sessions.write() as session:
            digest = self._services.vault.key_digest(key)
            row = session.scalar(self._of_key(KeyRow.digest == digest))
            if row is None:
                return False
            end, now = session.get_one(KeyRow, row.key_id).expires_at, utc_now()
            if end is not None and end > now:
                return True
            if row.ends_at <= now:
                return False
            if row.renewing_until is not None and row.renewing_until > now:
                return None
            subject = session.scalars(_SUBJECT.where(KeyRow.id == row.key_id)).one() or ""
            row.renewing_until = claimed
            key_id, sealed = row.key_id, row.sealed
        before = self._opened(key_id, sealed) | {"subject": subject}
        try:
            tokens = self._again(before)
        except SignInError as error:
            self._store(key_id, claimed, None, over=error.why != "unavailable")
            return False
        return self._store(key_id, claimed, tokens, over=False)

    def _again(self, before: Mapping[str, str]) -> TokensGiven:
        """Return new tokens for a refresh token. Raises SignInError."""
        if not before.get("refresh_token"):
            raise SignInError("token")
        sent = {"grant_type": "refresh_token", "refresh_token": before["refresh_token"]}
        tokens = self._checked(self._exchanged(sent), None, before)
        self._caller(tokens, None)
        return tokens

    def _store(
        self, key_id: UUID, claimed: datetime, given: TokensGiven | None, *, over: bool
    ) -> bool:
        """Set a session's expiry to that of its new token. over: do not renew it again."""
        now = utc_now()
        with self._services.sessions.write() as session:
            held = ProviderSessionRow.renewing_until == claimed
            row = session.scalar(self._of_key(KeyRow.id == key_id).where(held))
            if row is None:  # signed out, revoked or disabled meanwhile
                return False
            row.renewing_until = None
            if given is None:
                row.ends_at = now if over else row.ends_at
                return False
            row.sealed, row.sid = self._sealed(key_id, given), given.sid or row.sid
            end = min(given.identity.ends_at, row.ends_at)
            session.get_one(KeyRow, key_id).expires_at = end
        return bool(end > now)

    def _of_key(self, which: Any) -> Any:
        """Return the query for the provider session of a valid key of an enabled user.

        It locks the session.
        """
        joined = (
            select(ProviderSessionRow)
            .join(KeyRow, KeyRow.id == ProviderSessionRow.key_id)
            .join(UserRow, UserRow.id == KeyRow.user_id)
        )
        lasting = joined.where(which, KeyRow.revoked_at.is_(None), UserRow.disabled_at.is_(None))
        return lasting.with_for_update(of=ProviderSessionRow)

    def _signed_out(self, key_id: str) -> str | None:
        """Delete a session and return the provider's logout URL, in this thread."""
        try:
            identifier = UUID(key_id)
        except ValueError:
            return None
        with self._services.sessions.write() as session:
            row = session.get(ProviderSessionRow, identifier)
            if row is None:
                return None
            session.delete(row)
        query = {
            "id_token_hint": self._opened(identifier, row.sealed).get("id_token", ""),
            "client_id": self._settings.oidc_client_id,
            "post_logout_redirect_uri": self._url_of(LANDING),
        }
        if "end_session_endpoint" not in self._discovered():
            return None
        endpoint = self._endpoint("end_session_endpoint")
        return _with(endpoint, {name: value for name, value in query.items() if value})

    def _ended(self, logout_token: str) -> bool:
        """Process a back-channel logout token (OpenID Connect 1.0). Idempotent."""
        audience = self._settings.oidc_client_id
        try:
            claims = self._tokens.claims(logout_token, audience, LOGOUT_CLAIMS)
        except Refusal:
            return False
        if claims is None or "nonce" in claims or not isinstance(claims["events"], dict):
            return False
        sid, sub = claims.get("sid"), claims.get("sub")
        if not isinstance(claims["events"].get(LOGOUT_EVENT), dict) or not (sid or sub):
            return False
        with self._services.sessions.write() as session:
            self._end(session, sid and str(sid), sub and f"{self._settings.oidc_issuer}|{sub}")
        return True

    def _end(self, session: Session, sid: str | None, subject: str | None) -> None:
        """End the keys of sessions; their jobs continue."""
        now = utc_now()
        which = select(ProviderSessionRow, KeyRow).join(
            KeyRow, KeyRow.id == ProviderSessionRow.key_id
        )
        which = which.join(UserRow, UserRow.id == KeyRow.user_id)
        if sid:
            which = which.where(ProviderSessionRow.sid == sid)
        if subject:
            which = which.where(UserRow.subject == subject)
        for row, key in session.execute(
            which.order_by(KeyRow.id).with_for_update(of=(ProviderSessionRow, KeyRow))
        ).all():
            key.expires_at = now if key.expires_at is None else min(key.expires_at, now)
            session.delete(row)

    def _sealed(self, key_id: UUID, given: TokensGiven) -> bytes:
        """Return the tokens of a session, encrypted for the database."""
        kept = {"id_token": given.id_token, "refresh_token": given.refresh_token}
        return self._services.vault.seal(json.dumps(kept).encode(), SESSION + key_id.bytes)

    def _opened(self, key_id: UUID, sealed: bytes) -> dict[str, str]:
        """Return the tokens of a session; empty if the master key has changed."""
        text = self._services.vault.unseal(sealed, SESSION + key_id.bytes)
        kept: dict[str, str] = json.loads(text) if text else {}
        return kept

    def _url_of(self, path: str) -> str:
        """Return the absolute URL of a path of this service."""
        return self._settings.public_url.rstrip("/") + path

    def _discovered(self) -> Mapping[str, Any]:
        """Return the provider's discovery document. Raises SignInError."""
        now = time.monotonic()
        if now - self._read_at < KEPT_SECONDS:
            return self._about
        issuer = self._settings.oidc_issuer
        try:
            about = fetch(issuer.rstrip("/") + DISCOVERY)
        except (httpx.HTTPError, ValueError, RecursionError) as error:
            logs.logger().warning("provider_undiscovered", exception=type(error).__name__)
            raise SignInError("unavailable") from None
        if not isinstance(about, dict) or about.get("issuer") != issuer:
            logs.logger().warning("provider_of_another_name")
            raise SignInError("unavailable")
        self._about, self._read_at = about, now
        return about

    def _endpoint(self, name: str) -> str:
        """Return an endpoint of the provider, https where the issuer is. Raises SignInError."""
        address, issuer = self._discovered().get(name), urlsplit(self._settings.oidc_issuer)
        try:
            parts = urlsplit(address if isinstance(address, str) else "")
        except ValueError:
            parts = urlsplit("")
        if parts.scheme not in ("https", issuer.scheme) or not parts.netloc or parts.fragment:
            logs.logger().warning("provider_without_endpoint", endpoint=name)
            raise SignInError("unavailable")
        return str(address)


_SUBJECT = select(UserRow.subject).join(KeyRow, KeyRow.user_id == UserRow.id)


def _base64(text: bytes) -> str:
    """Return URL-safe base64 without padding."""
    return urlsafe_b64encode(text).rstrip(b"=").decode()


def _same(given: str, expected: str) -> bool:
    """Return whether two secrets are equal, in constant time."""
    return hmac.compare_digest(given.encode(), expected.encode())


def _with(address: str, query: Mapping[str, str]) -> str:
    """Return a URL with further query parameters."""
    return f"{address}{'&' if urlsplit(address).query else '?'}{urlencode(query)}"
