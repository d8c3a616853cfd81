"""Keys and addresses that cannot be used, and services that do not answer: one line, no key."""

import asyncio
import contextlib
import math
import socket
import ssl
import threading
import traceback
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from dpmcmc.client import (
    ApiError,
    AsyncClient,
    Client,
    UnreachedError,
    WrongAddressError,
    WrongKeyError,
)
from dpmcmc.client.connection import WrongCertificatesError, WrongProxyError

SECRET = "dpm_s3cr3t-of-somebody"
HERE = "http://127.0.0.1:9"


def asynchronous(url: Any, key: Any, **options: Any) -> None:
    async def work() -> None:
        async with AsyncClient(url, key, **options) as client:
            await client.job("a")

    asyncio.run(work())


def synchronous(url: Any, key: Any, **options: Any) -> None:
    with Client(url, key, **options) as client:
        client.job("a")


def streamed(url: Any, key: Any, **options: Any) -> None:
    with Client(url, key, **options) as client:
        list(client.events("a"))


def streamed_apart(url: Any, key: Any, **options: Any) -> None:
    async def work() -> None:
        async with AsyncClient(url, key, **options) as client:
            async for _ in client.events("a"):
                pass

    asyncio.run(work())


CALLS = [synchronous, asynchronous, streamed, streamed_apart]
Call = Callable[..., None]


def told(error: BaseException) -> str:
    """Return all that a traceback of it shows, and what else it leads to."""
    text = "".join(traceback.format_exception(error)) + repr(error)
    seen: list[BaseException] = []
    one: BaseException | None = error
    while one is not None and one not in seen:
        seen.append(one)
        assert not isinstance(one, httpx.RequestError), "leads to a request, which holds the key"
        one = one.__cause__ or one.__context__
    return text


KEYS = {
    "empty": ("", "empty"),
    "a line end": (f"{SECRET}\n", "line end"),
    "a line end of Windows": (f"{SECRET}\r\n", "line end"),
    "two lines": (f"{SECRET}\nX-Other: 1", "line end within"),
    "spaces around": (f" {SECRET} ", "white space"),
    "a space within": (f"Bearer {SECRET}", "within"),
    "a tab": (f"{SECRET}\t", "white space"),
    "white space alone": (" \n", "white space"),
    "other letters": (f"{SECRET}ü", "ASCII"),
    "a space without a break": (f"{SECRET}\xa0", "ASCII"),
    "a mark of byte order": (f"\ufeff{SECRET}", "ASCII"),
    "a NUL": (f"{SECRET}\0", "white space or a line end"),
    "none": (None, "of type NoneType"),
    "bytes": (SECRET.encode(), "of type bytes"),
}


@pytest.mark.parametrize("make", [Client, AsyncClient])
@pytest.mark.parametrize(("key", "why"), KEYS.values(), ids=KEYS)
def test_a_key_that_cannot_be_one_is_refused_and_not_shown(make: Any, key: Any, why: str) -> None:
    with pytest.raises(WrongKeyError, match=why) as caught:
        make(HERE, key)
    assert len(str(caught.value).splitlines()) == 1
    assert SECRET not in told(caught.value)


ADDRESSES = {
    "no scheme": ("127.0.0.1:8000", "http://"),
    "a name alone": ("localhost", "begin with http://"),
    "a host and a port": ("localhost:8000", "begin with http://"),
    "another scheme": ("ftp://127.0.0.1", "begin with http://"),
    "empty": ("", "begin with http://"),
    "no host": ("http://", "cannot be read"),
    "a port that is none": ("http://127.0.0.1:port", "cannot be read"),
    "a port too large": ("http://127.0.0.1:99999", "cannot be read"),
    "a port below 0": ("http://127.0.0.1:-1", "cannot be read"),
    "port 0": ("http://127.0.0.1:0", "cannot be read"),
    "two dots": ("http://a..b", "cannot be read"),
    "a dot": ("http://.", "cannot be read"),
    "a name too long": (f"http://{'a' * 64}.invalid", "cannot be read"),
    "half a name": ("http://xn--.invalid", "cannot be read"),
    "an address of IPv6 that does not end": ("http://[::1", "cannot be read"),
    "a line end": ("http://127.0.0.1:9\n", "cannot be read"),
    "a name and a password": (f"http://me:{SECRET}@127.0.0.1", "name and a password"),
    "the key in its place": (SECRET, "begin with http://"),
    "none": (None, "must be a text"),
}


@pytest.mark.parametrize("make", [Client, AsyncClient])
@pytest.mark.parametrize(("address", "why"), ADDRESSES.values(), ids=ADDRESSES)
def test_an_address_that_cannot_be_one_is_refused(make: Any, address: Any, why: str) -> None:
    with pytest.raises(WrongAddressError, match=why) as caught:
        make(address, SECRET)
    assert len(str(caught.value).splitlines()) == 1
    assert SECRET not in told(caught.value).replace(repr(address), "")


@pytest.mark.parametrize("make", [Client, AsyncClient])
@pytest.mark.parametrize("timeout", [0, -1, "1", math.nan, math.inf, 10**400, True, b"1"])
def test_a_time_that_cannot_be_waited_is_refused(make: Any, timeout: Any) -> None:
    with pytest.raises(ValueError, match="timeout must be a number of seconds above 0") as caught:
        make(HERE, SECRET, timeout=timeout)
    assert SECRET not in told(caught.value)


@pytest.mark.parametrize(
    "address", ["http://[::1]:9", "http://127.0.0.1:9/", "http://größe.invalid"]
)
def test_usual_addresses_and_no_timeout_are_taken(address: str) -> None:
    with pytest.raises(UnreachedError):
        synchronous(address, SECRET, timeout=None)


@pytest.mark.parametrize("make", [Client, AsyncClient])
def test_certificates_that_cannot_be_read_are_named(make: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/no/such/file")
    with pytest.raises(WrongCertificatesError, match="SSL_CERT_FILE") as caught:
        make(HERE, SECRET)
    assert SECRET not in told(caught.value)


@pytest.mark.parametrize("make", [Client, AsyncClient])
def test_a_proxy_that_cannot_be_used_is_refused(make: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("ALL_PROXY", f"sox://me:{SECRET}@127.0.0.1:9")
    with pytest.raises(WrongProxyError, match="cannot use this proxy") as caught:
        make(HERE, SECRET)
    assert SECRET not in told(caught.value)


@contextlib.contextmanager
def answering(answer: bytes | None) -> Iterator[int]:
    """Listen on a port: send these bytes to whoever comes, or nothing where None."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        held: list[socket.socket] = []

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    one = server.accept()[0]
                    held.append(one)
                    if answer is not None:
                        one.recv(65536)
                        one.sendall(answer)
                        one.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        for one in held:
            one.close()
        thread.join(10)


def check(call: Call, url: str, kind: str, **options: Any) -> None:
    with pytest.raises(UnreachedError) as caught:
        call(url, SECRET, **options)
    assert caught.value.kind == kind
    text = str(caught.value)
    assert len(text.splitlines()) == 1
    assert url in text
    assert SECRET not in told(caught.value)


def closed() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.mark.parametrize("call", CALLS)
def test_a_refused_connection_is_told(call: Call) -> None:
    check(call, f"http://127.0.0.1:{closed()}", "refused")


@pytest.mark.parametrize("call", CALLS)
def test_an_unknown_name_is_told(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    check(call, "http://nobody.invalid:8000", "unknown_name")


@pytest.mark.parametrize("call", CALLS)
def test_a_service_that_does_not_answer_in_time_is_told(call: Call) -> None:
    with answering(None) as port:
        check(call, f"http://127.0.0.1:{port}", "timeout", timeout=0.2)


@pytest.mark.parametrize("call", CALLS)
def test_https_where_http_is_spoken_is_told(call: Call) -> None:
    with answering(b"HTTP/1.1 400 Bad Request\r\n\r\n") as port:
        check(call, f"https://127.0.0.1:{port}", "tls")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate that nobody signed, with its private part."""
    private = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, private.public_key(), 1, now, now + timedelta(1))
    made = builder.sign(private, hashes.SHA256())
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    pem = serialization.Encoding.PEM
    path.write_bytes(private.private_bytes(pem, *form) + made.public_bytes(pem))
    return path


@pytest.mark.parametrize("call", CALLS)
def test_a_certificate_that_nobody_signed_is_told(call: Call, certificate: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    plain = socket.create_server(("127.0.0.1", 0))
    with context.wrap_socket(plain, server_side=True) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                server.accept()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        check(call, f"https://127.0.0.1:{server.getsockname()[1]}", "untrusted")
        thread.join(10)


@pytest.mark.parametrize("answer", [b"", b"220 smtp.example ESMTP\r\n", b"HTTP/1.1 200 OK\r\n"])
@pytest.mark.parametrize("call", CALLS)
def test_a_connection_that_is_lost_is_told(call: Call, answer: bytes) -> None:
    with answering(answer) as port:
        check(call, f"http://127.0.0.1:{port}", "lost")


@pytest.mark.parametrize("call", CALLS)
def test_a_stream_that_breaks_is_told(call: Call) -> None:
    broken = (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 900\r\n\r\n"
        b'event: status\ndata: {"status": "running"}\n\n'
    )
    with answering(broken) as port:
        check(call, f"http://127.0.0.1:{port}", "lost")


OTHER = {
    "a page": b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>",
    "a text": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
    "nothing": b"HTTP/1.1 204 No Content\r\n\r\n",
    "a list": b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n[]",
    "not modified": b"HTTP/1.1 304 Not Modified\r\n\r\n",
}


def chain(url: Any, key: Any) -> None:
    with Client(url, key) as client:
        client.chain("a", "parquet")


def chain_apart(url: Any, key: Any) -> None:
    async def work() -> None:
        async with AsyncClient(url, key) as client:
            await client.chain("a", "parquet")

    asyncio.run(work())


def deleted(url: Any, key: Any) -> None:
    with Client(url, key) as client:
        client.revoke("a")


EVERY = [*CALLS, chain, chain_apart, deleted]


@pytest.mark.parametrize("answer", [OTHER[name] for name in OTHER], ids=OTHER)
@pytest.mark.parametrize("call", EVERY)
def test_an_answer_of_something_else_is_no_success(call: Call, answer: bytes) -> None:
    if call is deleted and answer == OTHER["nothing"]:
        return  # as the service answers
    with answering(answer) as port, pytest.raises(ApiError, match="no answer of a dpmcmc") as found:
        call(f"http://127.0.0.1:{port}", SECRET)
    assert SECRET not in told(found.value)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("call", EVERY)
def test_where_an_address_leads_is_told_and_not_followed(call: Call, status: int) -> None:
    """The key is sent nowhere else; a key that seems revoked is still one."""
    head = f"HTTP/1.1 {status} Moved\r\nContent-Length: 0\r\nLocation: "
    for place, where in (
        ("https://dp.example/v1/jobs/a?q=1", "to https://dp.example: if"),
        ("//me:word@dp.example:81/x", "to http://dp.example:81: if"),
        ("/sign-in", "to /sign-in: write"),
        ("http://[", "elsewhere"),
    ):
        answer = f"{head}{place}\r\n\r\n".encode()
        with answering(answer) as port, pytest.raises(ApiError, match="leads elsewhere") as found:
            call(f"http://127.0.0.1:{port}", SECRET)
        assert found.value.status == status
        assert where in str(found.value)
        assert "word" not in str(found.value)
        assert SECRET not in told(found.value)


def waited(client: Client, job: str, **options: Any) -> None:
    client.wait(job, **options)


def waited_apart(client: Client, job: str, **options: Any) -> None:
    async def work() -> None:
        async with AsyncClient(HERE, SECRET) as other:
            await other.wait(job, **options)

    asyncio.run(work())


@pytest.mark.parametrize("timeout", [0, -1, "1", math.nan, math.inf, 10**400, True, b"1"])
@pytest.mark.parametrize("wait", [waited, waited_apart])
def test_no_job_is_waited_for_so_long(wait: Any, timeout: Any) -> None:
    """For a number that is none a client would wait without end."""
    with Client(HERE, SECRET) as client, pytest.raises(ValueError, match="timeout must be a numb"):
        wait(client, "a", timeout=timeout)


def test_a_job_may_be_waited_for_without_end() -> None:
    body = b'{"status": "cancelled"}'
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 23\r\n\r\n"
    with answering(head + body) as port, Client(f"http://127.0.0.1:{port}", SECRET) as client:
        assert client.wait("a", timeout=None) == {"status": "cancelled"}


IDS = ["a\nb", "", ".", "..", "../datasets", "a?b=1", "?cursor=x", "a#b", "a%2Fb", "a b", "ä", "a/"]


@pytest.mark.parametrize("wrong", IDS)
def test_an_id_that_no_address_holds_is_told(wrong: str) -> None:
    """It would ask for something else, such as a list in the place of a job."""
    calls: dict[str, Callable[[Client], Any]] = {
        "job": lambda client: client.job(wrong),
        "events": lambda client: list(client.events(wrong)),
        "cancel": lambda client: client.cancel(wrong),
        "revoke": lambda client: client.revoke(wrong),
        "disable": lambda client: client.disable(wrong),
        "apart": lambda client: waited_apart(client, wrong),
    }
    for call in calls.values():
        with Client(HERE, SECRET) as client, pytest.raises(WrongAddressError, match="characters"):
            call(client)


def test_a_form_of_files_that_there_is_not_is_told() -> None:
    calls: dict[str, Callable[[Client, Any], Any]] = {
        "chain": lambda client, form: client.chain("a", form),
        "posterior_draws": lambda client, form: client.posterior_draws("a", {}, form),
        "inference_draws": lambda client, form: client.inference_draws("a", {}, form),
        "dummy_table": lambda client, form: client.dummy_table("a", form),
        "table": lambda client, form: client.table("a", 0, form),
    }
    for call in calls.values():
        for form in ("xlsx", None, ["csv"], "CSV"):
            with Client(HERE, SECRET) as client, pytest.raises(ValueError, match="form must be"):
                call(client, form)


@pytest.mark.parametrize("word", ["two\nlines", "schlüssel", "a\0b"])
def test_an_idempotency_key_that_no_header_holds_is_told(word: str) -> None:
    job: dict[str, Any] = {}
    with Client(HERE, SECRET) as client, pytest.raises(ValueError, match="idempotency_key"):
        client.submit(job, idempotency_key=word)

    async def work() -> None:
        async with AsyncClient(HERE, SECRET) as client:
            await client.submit(job, idempotency_key=word)

    with pytest.raises(ValueError, match="idempotency_key"):
        asyncio.run(work())
