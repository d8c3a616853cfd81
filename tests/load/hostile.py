"""`python -m tests.load.hostile`: callers who want to stop the service, beside those who use it.

An analyst with a key, and others without one: large bodies that are wrong everywhere, downloads
that nobody reads, free posteriors without a pause, plans that are left at once, tokens of nobody
while the identity provider hangs, and bodies that trickle in behind a 401. It runs in a process of
its own: on stdin a JSON object (url, key, dataset, job, seconds), on stdout how often each thing
was done and what was answered.
"""

import base64
import functools
import http.client
import json
import os
import random
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import urlsplit

from tests.load import people

UNREAD, POSTERIORS, TOKENS, TRICKLES, LEAVERS = 30, 40, 30, 20, 4
BODY_SECONDS, LEAVE_SECONDS = 0.5, 0.05
NICE = 5  # callers have machines of their own: the probe does not wait for their work
LONG_JOB = {"algorithm": "noisy_quadratic", "num_steps": 250_000, "num_chains": 4}
Json = dict[str, Any]


class Attack:
    """One kind of call again and again, by several at once. done: how often, and the answers."""

    def __init__(self, name: str, asked: Json, callers: int, act: Callable[["Attack"], None]):
        self.name, self.asked, self.act = name, asked, act
        self.host, self.port = urlsplit(asked["url"]).hostname or "", urlsplit(asked["url"]).port
        self.until = time.monotonic() + asked["seconds"]
        self.done = Counter[str]()
        self.threads = [threading.Thread(target=self._go_on, daemon=True) for _ in range(callers)]

    def _go_on(self) -> None:
        while time.monotonic() < self.until:
            try:
                self.act(self)
            except (OSError, http.client.HTTPException) as error:
                self.done[type(error).__name__] += 1
                time.sleep(0.1)

    def post(self, path: str, body: bytes, token: str | None = None) -> None:
        """One request, and its answer to the end."""
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
        with closing(http.client.HTTPConnection(self.host, self.port, timeout=60.0)) as line:
            line.request("POST", path, body, headers)
            answer = line.getresponse()
            answer.read()
            self.done[str(answer.status)] += 1

    @contextmanager
    def opened(self, head: str) -> Iterator[socket.socket]:
        """A connection on which the head of a request was sent."""
        with socket.create_connection((self.host, self.port or 80), timeout=60.0) as line:
            line.sendall(head.encode())
            yield line


@functools.cache
def of_unknown_priors(dataset: str) -> bytes:
    """A body of 1 MB whose 40,000 priors are of no kind that there is."""
    body = people.body(dataset, 1.0)
    body["model"]["prior"] = {f"a{n}": {"kind": "x"} for n in range(40_000)}
    return json.dumps(body, separators=(",", ":")).encode()


def large_body(attack: Attack) -> None:
    """A body that is wrong everywhere."""
    attack.post("/v1/plans", of_unknown_priors(attack.asked["dataset"]), attack.asked["key"])
    time.sleep(BODY_SECONDS)


def unread(attack: Attack) -> None:
    """A download of a long chain that nobody reads."""
    job, key = attack.asked["job"], attack.asked["key"]
    kind = random.choice(["text/csv", "application/json", "application/x-netcdf"])
    head = f"GET /v1/jobs/{job}/chain HTTP/1.1\r\nHost: x\r\nAccept: {kind}\r\n"
    with attack.opened(f"{head}Authorization: Bearer {key}\r\n\r\n") as line:
        attack.done[line.recv(12, socket.MSG_WAITALL).decode()[9:]] += 1
        time.sleep(2.0)


def posterior(attack: Attack) -> None:
    """A free posterior, the dearest one that may be asked for."""
    prior = {"dose": {"kind": "normal", "loc": random.random(), "scale": 1.0}}
    body = json.dumps({"prior": prior, "num_draws": 20_000}).encode()
    attack.post(f"/v1/jobs/{attack.asked['job']}/posteriors", body, attack.asked["key"])


def leave(attack: Attack) -> None:
    """A dear plan that is left as soon as it is begun."""
    sampler = {"algorithm": "dp_barker", "num_steps": 600_000, "num_chains": 8}
    body = json.dumps(people.body(attack.asked["dataset"], random.uniform(0.5, 2.0), **sampler))
    head = (
        f"POST /v1/plans HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {attack.asked['key']}\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    )
    with attack.opened(head):
        attack.done["left"] += 1
        time.sleep(LEAVE_SECONDS + random.random() / 5)


def token(attack: Attack) -> None:
    """A token of nobody, whose key only the provider could know."""
    head = json.dumps({"alg": "RS256", "kid": os.urandom(8).hex()}).encode()
    written = base64.urlsafe_b64encode(head).rstrip(b"=").decode()
    attack.post("/v1/users/me/keys", b"", f"{written}.e30.AAAA")


def trickle(attack: Attack) -> None:
    """A body of one byte a second behind a 401."""
    head = "POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"
    with attack.opened(head) as line:
        attack.done[line.recv(12, socket.MSG_WAITALL).decode()[9:]] += 1
        while time.monotonic() < attack.until:
            line.sendall(b"x")
            time.sleep(1.0)


ATTACKS: dict[str, tuple[int, Callable[[Attack], None]]] = {
    "bodies of 1 MB": (2, large_body),
    "downloads that nobody reads": (UNREAD, unread),
    "free posteriors": (POSTERIORS, posterior),
    "plans that are left": (LEAVERS, leave),
    "tokens of nobody": (TOKENS, token),
    "bodies behind a 401": (TRICKLES, trickle),
}


def main() -> None:
    """Attack as stdin says, and tell on stdout."""
    asked = json.load(sys.stdin)
    os.nice(NICE)
    attacks = [Attack(name, asked, callers, act) for name, (callers, act) in ATTACKS.items()]
    for attack in attacks:
        for thread in attack.threads:
            thread.start()
    for attack in attacks:
        for thread in attack.threads:
            thread.join(max(0.0, attack.until + 1.0 - time.monotonic()))
    json.dump({attack.name: dict(attack.done) for attack in attacks}, sys.stdout)
    sys.stdout.flush()
    os._exit(0)  # calls that are still under way are not waited for


if __name__ == "__main__":
    main()
