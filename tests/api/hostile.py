"""Requests that cost their sender little, at the limits of what is read of them."""

import json
import random
import string
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

LARGEST = 2**20  # bytes of a body
Part = Callable[[random.Random, int], bytes]
SETTING = {"dataset": "6f9619ff-8b86-4011-b42d-00c04fc964ff"}
MODEL = {"family": "logistic", "formula": "income ~ age"}
PRIVACY = {"epsilon": 1.0, "delta": 1e-6}


def _json(document: Any) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def _names(draw: random.Random, count: int) -> list[str]:
    return [f"{draw.choice(string.ascii_lowercase)}{n}" for n in range(count)]


def _job(**changes: Any) -> bytes:
    return _json({**SETTING, "model": MODEL, "privacy": PRIVACY, **changes})


def _fill(draw: random.Random, size: int, one: Callable[[int], str], around: str) -> bytes:
    """Very many of one thing between commas, in `around` at its %."""
    count = max(1, size // (len(one(size)) + 1))
    begin, end = around.split("%")
    return (begin + ",".join(one(draw.randrange(10) + n) for n in range(count)) + end).encode()


PRIORS = '{"dataset":"x","privacy":{"delta":1e-6},"model":{"family":"logistic","formula":"y~x",%s}}'
# bodies of JSON, by what is wrong with them; each takes what is drawn and a size in bytes
BODIES: dict[str, Part] = {
    "priors of unknown kinds": lambda d, n: _fill(
        d, n, lambda k: f'"a{k}":{{"kind":"x"}}', PRIORS % '"prior":{%}'
    ),
    "priors that are no objects": lambda d, n: _fill(
        d, n, lambda k: f'"a{k}":{k}', PRIORS % '"prior":{%}'
    ),
    "unknown members": lambda d, n: _fill(d, n, lambda k: f'"a{k}":0', "{%}"),
    "unknown members of options": lambda d, n: _fill(
        d, n, lambda k: f'"a{k}":0', PRIORS % '"options":{%}'
    ),
    "variances": lambda d, n: _fill(d, n, lambda _: '"a"', PRIORS % '"options":{"variances":[%]}'),
    "one member again and again": lambda d, n: _fill(d, n, lambda _: '"name":"x"', "{%}"),
    "events": lambda d, n: _fill(d, n, lambda _: '{"kind":"x"}', '{"delta":1e-6,"events":[%]}'),
    "nested events": lambda _, n: (
        b'{"delta":1e-6,"events":[' + b'{"kind":"compose","events":[' * (n // 56) + b"]}" * 9
    ),
    "settings": lambda d, n: _fill(
        d, n, lambda k: f'{{"a":[],"b":{{}},"c{k}":null}}', '{"given":[%]}'
    ),
    "effects": lambda d, n: _fill(
        d, n, lambda k: f'{{"covariate":"c","given":[{{"a":{k}}}]}}', '{"effects":[%]}'
    ),
    "statistics of a task": lambda d, n: _fill(
        d,
        n,
        lambda _: '{"kind":"quantiles","column":"age","cuts":[1]}',
        '{"dataset":"x","privacy":{"delta":1e-6},"task":{"kind":"summaries","statistics":[%]}}',
    ),
    "columns of a task": lambda d, n: _fill(
        d,
        n,
        lambda _: '"age"',
        '{"dataset":"x","privacy":{"delta":1e-6},"task":{"kind":"synthetic","columns":[%]}}',
    ),
    "grants": lambda d, n: _fill(d, n, lambda _: '"x"', '{"grants":[%]}'),
    "allotments": lambda d, n: _fill(d, n, lambda k: f'"{k}":"x"', '{"allotments":{%}}'),
    "empty lists": lambda d, n: _fill(d, n, lambda _: "[]", "[%]"),
    "empty objects": lambda d, n: _fill(d, n, lambda _: "{}", '{"events":[%]}'),
    "numbers": lambda d, n: _fill(d, n, lambda _: "1", '{"null":[%]}'),
    "brackets": lambda _, n: b"[" * n,
    "brackets that close": lambda _, n: b"[" * (n // 2) + b"]" * (n // 2),
    "objects in objects": lambda _, n: b'{"a":' * (n // 5),
    "digits": lambda _, n: b'{"num_draws":' + b"9" * n + b"}",
    "long numbers": lambda d, n: _fill(d, n, lambda _: "9" * 4299, '{"null":[%]}'),
    "long fractions": lambda _, n: b'{"num_draws":0.' + b"1" * n + b"}",
    "long exponents": lambda _, n: b'{"num_draws":1e' + b"1" * n + b"}",
    "a long formula": lambda _, n: _job(model=MODEL | {"formula": "y ~ " + "a + " * (n // 4)}),
    "a formula of brackets": lambda _, n: _job(model=MODEL | {"formula": "y ~ " + "(" * n}),
    "a formula that expands": lambda d, _: _job(
        model=MODEL | {"formula": "income ~ (" + " + ".join(_names(d, 300)) + ")**5"}
    ),
    "a long name": lambda _, n: _json({"name": "x" * n, "role": "analyst"}),
    "a name of escapes": lambda _, n: b'{"name":"' + b"\\u0041" * (n // 6) + b'"}',
    "broken surrogates": lambda _, n: b'{"name":"' + b"\\ud800" * (n // 6) + b'"}',
    "commas in a string": lambda _, n: _json({"name": "," * n, "role": "x"}),
    "white space": lambda _, n: b" " * n + b"{}",
    "no JSON": lambda d, n: d.randbytes(n),
    "nothing": lambda _, __: b"",
}
QUERIES: dict[str, Part] = {
    "parameters": lambda _, n: b"&".join([b"a=1"] * (n // 4)),
    "ampersands": lambda _, n: b"&" * n,
    "jobs": lambda _, n: b"&".join([b"job=x"] * (n // 6)),
    "percents": lambda _, n: b"text=" + b"%41" * (n // 3),
    "limit": lambda _, n: b"limit=" + b"9" * n,
    "semicolons": lambda _, n: b"a=1;" * (n // 4),
}
HEADERS: dict[str, Part] = {
    "Accept": lambda _, n: b"a/b;q=0.1," * (n // 10),
    "Accept of parameters": lambda _, n: b"Accept: a" + b";q=1" * (n // 4),
    "Accept of commas": lambda _, n: b"Accept: " + b"," * n,
    "Cookie": lambda _, n: b"a=1; " * (n // 5),
    "Cookie of escapes": lambda _, n: b'Cookie: dpmcmc_session="' + b"\\0" * (n // 2) + b'"',
    "Authorization": lambda _, n: b"Bearer " + b"a." * (n // 2),
    "Authorization of brackets": lambda _, n: (
        b"Authorization: Bearer " + b"W1tb" * (n // 4) + b".a.b"
    ),
    "Idempotency-Key": lambda _, n: b"k" * n,
    "Content-Type": lambda _, n: b"application/json;" + b"a=b;" * (n // 4),
    "Content-Type of quotes": lambda _, n: (
        b'Content-Type: multipart/form-data; boundary="' + b"\\" * n
    ),
    "X-Request-Id": lambda _, n: b"a" * n,
    "traceparent": lambda _, n: b"00-" * (n // 3),
    "many": lambda _, n: b"A: b\r\n" * (n // 6) + b"A: b",
    "many names": lambda _, n: b"\r\n".join(b"A%d: b" % k for k in range(n // 9)),
    "If-None-Match": lambda _, n: b'"a",' * (n // 4),
    "Range": lambda _, n: b"bytes=" + b"0-1," * (n // 4),
}
FORMS: dict[str, Part] = {
    "fields": lambda _, n: b"&".join([b"a=1"] * (n // 4)),
    "percents": lambda _, n: b"key=" + b"%41" * (n // 3),
    "plus": lambda _, n: b"key=" + b"+" * n,
    "options": lambda _, n: b"&".join(b"option.a%d=1" % k for k in range(n // 15)),
    "priors": lambda _, n: b"priors=" + b"a%2C1%2C1%0A" * (n // 12),
    "list": lambda _, n: b"option.a=" + b"1%2C" * (n // 4),
}
BOUNDARY = b"x"


def _parts(_: random.Random, n: int) -> bytes:
    part = b'--x\r\nContent-Disposition: form-data; name="file"\r\n\r\na\r\n'
    return part * (n // len(part))


def _headers_of_a_part(_: random.Random, n: int) -> bytes:
    return b"--x\r\n" + b"a: b\r\n" * (n // 6)


def _metadata(_: random.Random, n: int) -> bytes:
    columns = _fill(
        random.Random(1),
        min(n, LARGEST) - 2000,
        lambda k: f'{{"name":"c{k}","type":"category","categories":[0,1]}}',
        '{"name":"x","privacy":{"epsilon":1,"delta":1e-6},"columns":[%]}',
    )
    head = b'Content-Disposition: form-data; name="%s"\r\n\r\n'
    return (
        b"--x\r\n"
        + head % b"metadata"
        + columns
        + b"\r\n--x\r\n"
        + head % b"file"
        + b"a\r\n1\r\n\r\n--x--\r\n"
    )


MULTIPART: dict[str, Part] = {
    "parts": _parts,
    "headers of a part": _headers_of_a_part,
    "a long header": lambda _, n: b"--x\r\na: " + b"b" * n,
    "dashes": lambda _, n: b"--x" * (n // 3),
    "line ends": lambda _, n: (
        b"--x\r\nContent-Disposition: form-data; name=file\r\n\r\n" + b"\r\n" * (n // 2)
    ),
    "metadata": _metadata,
}


@dataclass(frozen=True)
class Shape:
    """A request. chunk: its body comes in chunks of so many bytes; 0: with its length."""

    method: str
    path: str
    query: bytes = b""
    header: bytes = b""
    kind: bytes = b""
    body: bytes | None = None
    chunk: int = 0

    def written(self, key: str, cookie: str = "") -> bytes:
        """As it goes over the line. key: of whoever asks; empty for nobody."""
        lines = [
            b"%s %s%s HTTP/1.1"
            % (self.method.encode(), self.path.encode(), b"?" + self.query if self.query else b"")
        ]
        lines += [b"Host: x", b"Connection: close"]
        if key and not self.header.startswith(b"Authorization"):
            lines.append(b"Authorization: Bearer " + key.encode())
        if cookie and not self.header.startswith(b"Cookie"):
            lines.append(b"Cookie: dpmcmc_session=" + cookie.encode())
        if self.header:
            lines.append(self.header)
        if self.kind and not self.header.startswith(b"Content-Type"):
            lines.append(b"Content-Type: " + self.kind)
        body = self.body
        if body is not None and self.chunk:
            lines.append(b"Transfer-Encoding: chunked")
            chunks = (body[k : k + self.chunk] for k in range(0, len(body), self.chunk))
            body = b"".join(b"%x\r\n%s\r\n" % (len(one), one) for one in chunks) + b"0\r\n\r\n"
        elif body is not None:
            lines.append(b"Content-Length: %d" % len(body))
        return b"\r\n".join([*lines, b"", body or b""])


def header(name: str, draw: random.Random, size: int) -> bytes:
    """A header line, of one that is named or written as a whole."""
    made = HEADERS[name](draw, size)
    plain = name.split(" of ")[0]
    whole = made.startswith(f"{plain}: ".encode()) or name.startswith("many")
    return made if whole else f"{plain}: ".encode() + made
