"""Keys and addresses, checked before they are used, and errors of connections in one line.

No message holds a key, nor an address that may be one, and no error leads to a request that does.
"""

import re
import socket
import ssl
from collections.abc import Callable, Iterator
from numbers import Real
from typing import Literal, TypeVar, cast

import httpx

Kind = Literal["refused", "unknown_name", "untrusted", "tls", "timeout", "lost"]
Http = TypeVar("Http", httpx.Client, httpx.AsyncClient)
REASONS: dict[Kind, str] = {
    "refused": "the connection was refused: is the service running there?",
    "unknown_name": "no such host is known",
    "untrusted": "its certificate cannot be trusted",
    "tls": "TLS failed: does it speak http and not https?",
    "timeout": "no answer came in time; timeout= allows more seconds",
    "lost": "the connection was lost, or something else answers there",
}
FAILED = (httpx.RequestError, httpx.InvalidURL)  # of a request whose address was checked
MOST_PORT = 2**16 - 1
MOST_SECONDS = 1_000_000  # operating systems wait no longer than some weeks
EXAMPLE = "such as http://127.0.0.1:8000"
NO_ID = "an id or a name in this request is empty, or has characters that none has"


class WrongKeyError(ValueError):
    """A text that cannot be a key. The message says why, and does not contain the text."""


class WrongAddressError(ValueError):
    """A base address that cannot be used."""


class WrongProxyError(WrongAddressError):
    """A proxy of the environment that cannot be used."""


class WrongCertificatesError(WrongAddressError):
    """Certificates of the environment that cannot be read."""


class UnreachedError(ConnectionError):
    """No service answers. kind: the reason, one of `Kind`."""

    def __init__(self, kind: Kind, address: str) -> None:
        super().__init__(f"no service answers at {address}: {REASONS[kind]}")
        self.kind = kind


def checked_key(key: object) -> str:
    """Return the key unchanged. Raises WrongKeyError where it cannot be a key."""
    if not isinstance(key, str):
        raise WrongKeyError(f"the key must be a text, and is of type {type(key).__name__}")
    if not key:
        raise WrongKeyError("the key is empty: give the one that was shown when the user was made")
    if not key.isascii():
        raise WrongKeyError("the key has characters that no key has: it is plain ASCII text")
    if not key.isprintable() or " " in key:
        end = "" if key.strip().isprintable() and " " not in key.strip() else " within it"
        raise WrongKeyError(f"the key has white space or a line end{end}: strip it")
    return key


def checked_address(address: object) -> str:
    """Return the base address unchanged. Raises WrongAddressError where no service can have it."""
    if not isinstance(address, str):
        raise WrongAddressError(f"the address of the service must be a text, {EXAMPLE}")
    try:
        url = httpx.URL(address)
        url.host.encode("idna")  # as a connection does, which raises no error of httpx
    except (httpx.InvalidURL, ValueError):
        url = None
    if url is not None and url.port is not None and not 0 < url.port <= MOST_PORT:
        url = None
    if url is None or (url.scheme in ("http", "https") and not url.host):
        raise WrongAddressError(f"the address of the service cannot be read: write it {EXAMPLE}")
    if url.scheme not in ("http", "https"):
        message = "the address of the service must begin with http:// or https://"
        raise WrongAddressError(f"{message}, {EXAMPLE}")
    if url.userinfo:
        raise WrongAddressError("the address of the service cannot hold a name and a password")
    return address


def checked_timeout(timeout: object) -> float | None:
    """Return seconds, or None for no limit. Raises ValueError on what no connection can wait."""
    if timeout is None:
        return None
    is_number = isinstance(timeout, Real) and not isinstance(timeout, bool)
    if not is_number or not 0 < cast("float", timeout) <= MOST_SECONDS:
        limit = f"above 0, up to {MOST_SECONDS}, or None to wait without end"
        raise ValueError(f"timeout must be a number of seconds {limit}")
    return float(cast("float", timeout))


def checked_path(path: str) -> str:
    """Return the path of a request unchanged. Raises WrongAddressError where it leads elsewhere.

    An id that holds a sign of addresses, or none, would ask for something else under this key.
    """
    parts = path.removeprefix("/").split("/")
    if not all(re.fullmatch(r"[\w~-]+(\.[\w~-]+)*", part, re.ASCII) for part in parts):
        raise WrongAddressError(NO_ID)
    return path


def origin_of(url: httpx.URL) -> str:
    """Return scheme, host and port of an address, without path, name and password."""
    return f"{url.scheme}://{url.netloc.decode('ascii', 'replace')}"


def connected(make: Callable[..., Http], address: object, key: object, timeout: object) -> Http:
    """Return a client of httpx. Raises WrongAddressError, WrongKeyError and ValueError."""
    options = {"base_url": checked_address(address), "timeout": checked_timeout(timeout)}
    headers = {"Authorization": f"Bearer {checked_key(key)}"}
    reason = "the address of one begins with http://, https:// or socks5://"
    try:
        return make(**options, headers=headers)
    except ImportError:
        reason = "socks needs the package socksio"
    except (ValueError, httpx.InvalidURL):
        pass
    except OSError:
        reason = ""
    if not reason:
        names = "SSL_CERT_FILE or SSL_CERT_DIR"
        raise WrongCertificatesError(f"the certificates that {names} names cannot be read")
    raise WrongProxyError(f"cannot use this proxy of the environment: {reason}")


def checked_header(key: str) -> str:
    """Return an idempotency key unchanged. Raises ValueError where a header cannot contain it."""
    if not isinstance(key, str) or not key or not key.isascii() or not key.isprintable():
        raise ValueError("idempotency_key must be plain text that can be printed")
    return key


def unreached(error: Exception, url: httpx.URL) -> Exception:
    """Return the client's error for an error of httpx."""
    if isinstance(error, httpx.InvalidURL):
        return WrongAddressError(NO_ID)
    return UnreachedError(_kind(error), origin_of(url))


def _kind(error: Exception) -> Kind:
    """Why a connection failed."""
    if isinstance(error, httpx.TimeoutException):
        return "timeout"
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return "untrusted"
        if isinstance(cause, ssl.SSLError):
            return "tls"
        if isinstance(cause, socket.gaierror | UnicodeError):
            return "unknown_name"
        if isinstance(cause, ConnectionRefusedError):
            return "refused"
    return "lost"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and all its causes, each once."""
    ids: set[int] = set()
    stack = [error]
    while stack:
        cause = stack.pop()
        if cause is None or id(cause) in ids:
            continue
        ids.add(id(cause))
        yield cause
        stack += [cause.__cause__, cause.__context__]
        stack += cause.exceptions if isinstance(cause, BaseExceptionGroup) else ()
