"""`python -m tests.load.probe`: two calls again and again, timed from a process of its own.

In the crowd's process a probe would also wait for 32 analysts' answers to be read. On stdin a JSON
object: url, key, dataset, seconds; on stdout another: milliseconds by call, and odd answers.
"""

import http.client
import json
import sys
import time
from collections import Counter
from threading import Thread
from urllib.parse import urlsplit

HEALTH, OTHER = "GET /healthz", "GET of another analyst"
HEALTH_SECONDS, OTHER_SECONDS = 0.1, 0.2  # between two calls


class Probe(Thread):
    """One call again and again, on one connection."""

    def __init__(self, name: str, path: str, pause: float, asked: dict[str, object]) -> None:
        super().__init__(name=name)
        self.path, self.pause = path, pause
        self.url, self.seconds = urlsplit(str(asked["url"])), float(str(asked["seconds"]))
        self.headers = {"Authorization": f"Bearer {asked['key']}"}
        self.taken, self.odd = list[float](), Counter[str]()

    def run(self) -> None:
        """Call until the time is over."""
        over = time.monotonic() + self.seconds
        line = http.client.HTTPConnection(str(self.url.hostname), self.url.port, timeout=120.0)
        while time.monotonic() < over:
            time.sleep(self.pause)
            self._call(line)
        line.close()

    def _call(self, line: http.client.HTTPConnection) -> None:
        began = time.perf_counter()
        try:
            line.request("GET", self.path, headers=self.headers)
            answer = line.getresponse()
            answer.read()
        except (OSError, http.client.HTTPException) as error:
            line.close()
            self.odd[f"{self.name}: {type(error).__name__}"] += 1
            return
        self.taken.append(1000 * (time.perf_counter() - began))
        if answer.status != http.client.OK:
            self.odd[f"{self.name}: {answer.status}"] += 1


def main() -> None:
    """Probe as stdin says, and tell on stdout."""
    asked = json.load(sys.stdin)
    probes = [
        Probe(HEALTH, "/healthz", HEALTH_SECONDS, asked),
        Probe(OTHER, f"/v1/datasets/{asked['dataset']}/budget", OTHER_SECONDS, asked),
    ]
    for probe in probes:
        probe.start()
    for probe in probes:
        probe.join()
    taken = {probe.name: probe.taken for probe in probes}
    odd = sum((probe.odd for probe in probes), Counter[str]())
    json.dump({"taken": taken, "odd": odd}, sys.stdout)


if __name__ == "__main__":
    main()
