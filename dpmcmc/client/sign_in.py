"""Signing in at an identity provider by the device flow (RFC 8628), and the tokens that are kept.

The service says which provider it is; a browser anywhere says who signs in. Tokens are kept in a
file that its owner alone can read, for one service each, and are sent to no other.
"""

import json
import math
import os
import tempfile
import time
from base64 import urlsafe_b64decode
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import httpx
import typer

from dpmcmc.client.connection import FAILED, checked_address, unreached

try:
    import fcntl
except ImportError:  # another system than Linux: two commands at once may both renew
    fcntl = None  # type: ignore[assignment]

DISCOVERY = "/.well-known/openid-configuration"
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
SECONDS = 30.0  # for each answer as a whole
INTERVAL, SLOWER, LONGEST = 5.0, 5.0, 1800.0  # seconds; RFC 8628 has the first two
USUAL_LIFE = 300.0  # of a token that is said to end at no time
EARLY_SECONDS = 30.0  # before its end a token is renewed
LOCAL = ("localhost", "127.0.0.1", "::1")
BUSY = "the provider cannot renew your sign-in now. It is kept: try again in a moment."
ENDINGS = {
    "access_denied": "the sign-in was refused there.",
    "expired_token": "nobody signed in there in time. Call it again.",
}


class SignInError(Exception):
    """Nobody is signed in. The message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """What is kept of a sign-in at one service.

    kind: which of the provider's tokens the service takes, access_token or id_token. token: that
    token, good until ends_at, seconds since 1970. refresh_token: empty where there is none.
    """

    service: str
    issuer: str
    client_id: str
    token_endpoint: str
    revocation_endpoint: str
    kind: str
    token: str
    ends_at: float
    refresh_token: str

    def __repr__(self) -> str:
        return f"<Tokens for {self.service}>"


def _file() -> Path:
    return Path(typer.get_app_dir("dpmcmc")) / "sign-in.json"


def _service(url: str) -> str:
    return checked_address(url).rstrip("/")


def kept(url: str) -> Tokens | None:
    """Return what is kept for a service; None where nobody has signed in, or it cannot be read."""
    try:
        return Tokens(**_all()[_service(url)])
    except (LookupError, TypeError):
        return None


def _all() -> dict[str, Any]:
    try:
        content = json.loads(_file().read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _keep(service: str, tokens: Tokens | None) -> None:
    """Put tokens into the file, or take them out. Whoever reads it meanwhile sees one or other."""
    content = {name: value for name, value in _all().items() if name != service}
    if tokens is not None:
        content[service] = asdict(tokens)
    file = _file()
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=file.parent)  # of mode 600
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as written:
            json.dump(content, written)
        os.replace(name, file)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise


@contextmanager
def _alone() -> Iterator[None]:
    """Keep other commands from changing the file: a refresh token is good once."""
    file = _file().with_suffix(".lock")
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(file, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        if fcntl is not None:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def sign_in(url: str, show: Callable[[str, str], None]) -> str:
    """Sign in at the provider of a service, and keep the tokens.

    Parameters
    ----------
    url
        Address of the service.
    show
        Is called with the address to open in a browser and the code to type there.

    Returns
    -------
    The user's name at the service.

    Raises
    ------
    SignInError
        Where it cannot be done, or was not.
    UnreachedError, WrongAddressError
        Where no service answers.
    """
    service = _service(url)
    provider = _provider(service)
    issuer, client_id = str(provider["issuer"]), str(provider["device_client_id"])
    endpoints = _endpoints(issuer)
    body = {"client_id": client_id, "scope": str(provider.get("scopes", "openid"))}
    status, begun = _posted(endpoints["device_authorization_endpoint"], body)
    if status != httpx.codes.OK:
        raise SignInError("the provider does not let this command sign in by a device code.")
    code, interval, lasts = _shown(begun, issuer, show)
    answer = _polled(endpoints["token_endpoint"], client_id, code, interval, lasts)
    refused = False
    for kind in ("access_token", "id_token"):
        token = answer.get(kind)
        if not isinstance(token, str) or not token.isascii() or not token.isprintable():
            continue
        status, name = _user(service, token)
        refused |= status == httpx.codes.FORBIDDEN
        if status == httpx.codes.OK:
            addresses = endpoints["token_endpoint"], endpoints["revocation_endpoint"]
            tokens = Tokens(service, issuer, client_id, *addresses, kind, token, 0.0, "")
            with _alone():
                _keep(service, _with(tokens, token, answer))
            return name
    if refused:
        raise SignInError("the provider knows you, but your account has no role at this service.")
    raise SignInError("the service takes none of the provider's tokens. Tell whoever runs it.")


def sign_out(url: str) -> bool:
    """Forget the tokens of a service, and have the provider forget them. Whether there were any."""
    with _alone():
        tokens = kept(url)
        if tokens is None:
            return False
        _keep(tokens.service, None)
    if tokens.refresh_token and tokens.revocation_endpoint:
        body = {"token": tokens.refresh_token, "client_id": tokens.client_id}
        with suppress(SignInError):
            _posted(tokens.revocation_endpoint, body | {"token_type_hint": "refresh_token"})
    return True


class SignedIn(httpx.Auth):
    """Sends the token that is kept for a service with each request, and renews it in time."""

    def __init__(self, url: str) -> None:
        self._url = url

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Put the token into a request. Raises SignInError where the session has ended."""
        request.headers["Authorization"] = f"Bearer {current(self._url)}"
        yield request


def current(url: str) -> str:
    """Return a token for a service that is good now. Raises SignInError where there is none."""
    tokens = kept(url)
    if tokens is not None and tokens.ends_at - time.time() > EARLY_SECONDS:
        return tokens.token
    with _alone():
        tokens = kept(url)  # another command may have renewed it
        if tokens is None:
            raise SignInError("nobody is signed in any more: call dpmcmc login.")
        seconds = tokens.ends_at - time.time()
        if seconds > EARLY_SECONDS:
            return tokens.token
        if tokens.refresh_token:
            try:
                renewed = _renewed(tokens)
            except SignInError:
                if seconds > 0:
                    return tokens.token
                raise
            if renewed is not None:
                _keep(tokens.service, renewed)
                return renewed.token
            if seconds <= 0:
                _keep(tokens.service, None)
    if seconds > 0:
        return tokens.token
    raise SignInError("the session at the provider has ended: call dpmcmc login.")


def _renewed(tokens: Tokens) -> Tokens | None:
    """What the provider gives for a refresh token; None where it refuses it.

    Raises SignInError where it cannot say now: the refresh token may still be good.
    """
    body = {"client_id": tokens.client_id, "refresh_token": tokens.refresh_token}
    status, answer = _posted(tokens.token_endpoint, body | {"grant_type": "refresh_token"})
    if status == httpx.codes.TOO_MANY_REQUESTS or status >= httpx.codes.INTERNAL_SERVER_ERROR:
        raise SignInError(BUSY)
    token = answer.get(tokens.kind)
    if status != httpx.codes.OK or not isinstance(token, str) or not token.isprintable():
        return None
    return _with(tokens, token, answer)


def _with(before: Tokens, token: str, answer: Mapping[str, Any]) -> Tokens:
    """What is kept once the provider gave another token."""
    refresh = answer.get("refresh_token")
    return replace(
        before,
        token=token,
        ends_at=time.time() + min(_life(token), _positive_or(answer.get("expires_in"), USUAL_LIFE)),
        refresh_token=refresh if isinstance(refresh, str) else before.refresh_token,
    )


def _life(token: str) -> float:
    """Seconds that a token lasts, as it says itself: expires_in is of the access token alone."""
    try:
        payload = token.split(".")[1]
        claims = json.loads(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return _positive_or(claims["exp"] - claims["iat"], USUAL_LIFE)
    except (ValueError, LookupError, TypeError, RecursionError):
        return USUAL_LIFE


def _positive_or(value: object, usual: float) -> float:
    """Return a positive finite number of seconds, or `usual` for anything else."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf:
        return float(value)
    return usual


def _provider(service: str) -> dict[str, Any]:
    """The provider of a service, as the service says. Raises SignInError and UnreachedError."""
    problem: Exception
    try:
        answer = httpx.get(f"{service}/v1/sign-in", timeout=SECONDS)
        document = answer.json() if answer.status_code == httpx.codes.OK else {}
    except FAILED as error:
        problem = unreached(error, httpx.URL(service))
    except ValueError:
        problem = SignInError("the server at this address is no service of dpmcmc.")
    else:
        provider = document.get("provider") if isinstance(document, dict) else None
        if isinstance(provider, dict) and provider.get("device_client_id"):
            return provider
        problem = SignInError("this service takes keys only: set DPMCMC_KEY.")
    raise problem


def _endpoints(issuer: str) -> dict[str, str]:
    """The addresses of a provider that the device flow needs. Raises SignInError."""
    scheme = _scheme(issuer)
    if scheme != "https" and not (scheme and urlsplit(issuer).hostname in LOCAL):
        raise SignInError("the provider of this service has no encrypted address.")
    try:
        place = issuer.rstrip("/") + DISCOVERY
        document = _within(lambda: httpx.get(place, timeout=SECONDS)).json()
    except (*FAILED, ValueError):
        raise SignInError("the provider of this service cannot be reached.") from None
    if not isinstance(document, dict) or document.get("issuer") != issuer:
        raise SignInError("the provider of this service gives itself another name.")
    endpoints = {}
    for name in ("device_authorization_endpoint", "token_endpoint", "revocation_endpoint"):
        address = document.get(name)
        known = isinstance(address, str) and _scheme(address) in ("https", scheme)
        endpoints[name] = str(address) if known else ""
    if not endpoints["device_authorization_endpoint"] or not endpoints["token_endpoint"]:
        raise SignInError("the provider of this service has no sign-in by a device code.")
    return endpoints


def _scheme(address: str) -> str:
    """The scheme of an address; empty where it has no host."""
    try:
        parts = urlsplit(address)
        return parts.scheme if parts.hostname else ""
    except ValueError:
        return ""


def _within(exchange: Callable[[], httpx.Response]) -> httpx.Response:
    """The answer, where it ends in time: httpx limits each part of it, and not the whole."""
    ended: Queue[httpx.Response | Exception] = Queue()

    def run() -> None:
        try:
            ended.put(exchange())
        except Exception as error:
            ended.put(error)

    Thread(target=run, daemon=True).start()
    try:
        answer = ended.get(timeout=SECONDS)
    except Empty:
        raise httpx.ReadTimeout("the answer did not end in time") from None
    if isinstance(answer, Exception):
        raise answer
    return answer


def _posted(url: str, body: Mapping[str, str]) -> tuple[int, dict[str, Any]]:
    """Status and object of an answer of the provider's. Raises SignInError."""
    try:
        form, accept = dict(body), {"Accept": "application/json"}
        answer = _within(lambda: httpx.post(url, data=form, headers=accept, timeout=SECONDS))
    except FAILED:
        raise SignInError("the provider of this service cannot be reached.") from None
    try:
        document = answer.json()
    except (ValueError, RecursionError):
        document = None
    return answer.status_code, document if isinstance(document, dict) else {}


def _shown(
    begun: Mapping[str, Any], issuer: str, show: Callable[[str, str], None]
) -> tuple[str, float, float]:
    """Show where to sign in. Returns the device's code, the interval and how long it is good."""
    code, user_code = begun.get("device_code"), begun.get("user_code")
    address = begun.get("verification_uri")
    texts = [text for text in (code, user_code, address) if isinstance(text, str)]
    printable = len(texts) == 3 and all(text and text.isprintable() for text in texts)
    if not printable or _scheme(texts[2]) not in ("https", _scheme(issuer)):
        raise SignInError("the provider gave no code to sign in with.")
    show(texts[2], texts[1])
    interval = _positive_or(begun.get("interval"), INTERVAL)
    return texts[0], interval, min(_positive_or(begun.get("expires_in"), LONGEST), LONGEST)


def _polled(
    endpoint: str, client_id: str, code: str, interval: float, lasts: float
) -> dict[str, Any]:
    """Ask until somebody has signed in. Raises SignInError."""
    until = time.monotonic() + lasts
    body = {"grant_type": DEVICE_GRANT, "device_code": code, "client_id": client_id}
    while time.monotonic() + interval < until:
        time.sleep(interval)
        try:
            status, answer = _posted(endpoint, body)
        except SignInError:
            interval *= 2  # RFC 8628, 3.5
            continue
        if status == httpx.codes.OK:
            return answer
        error = answer.get("error")
        if error == "slow_down":
            interval += SLOWER
        elif status >= httpx.codes.INTERNAL_SERVER_ERROR:
            interval *= 2
        elif error != "authorization_pending":
            raise SignInError(ENDINGS.get(str(error), "the provider refused the sign-in."))
    raise SignInError(ENDINGS["expired_token"])


def _user(service: str, token: str) -> tuple[int, str]:
    """The status and the name that a service answers to a token. Raises UnreachedError."""
    try:
        headers = {"Authorization": f"Bearer {token}"}
        answer = httpx.get(f"{service}/v1/users/me", headers=headers, timeout=SECONDS)
        return answer.status_code, str(answer.json().get("name", ""))
    except FAILED as error:
        failed = unreached(error, httpx.URL(service))
    except (ValueError, AttributeError):
        failed = SignInError("the server at this address is no service of dpmcmc.")
    raise failed  # outside, so that it does not lead to the request, which holds the token
