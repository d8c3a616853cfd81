"""Prometheus metrics. No dataset, user or job in any label, and nothing that rows could move:

no memory or CPU of the process, no size of a body, no duration of an upload or of a job.
"""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from sqlalchemy.orm import Session

from app.jobs import fetch

UNTIMED = frozenset({("POST", "/v1/datasets")})


class Metrics:
    """The counters of one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "dpmcmc_http_requests",
            "Requests answered.",
            ("method", "route", "status"),
            registry=self.registry,
        )
        self._seconds = Histogram(
            "dpmcmc_http_request_seconds",
            "Time to an answer; uploads are not timed.",
            ("method", "route"),
            registry=self.registry,
        )
        self._jobs = Gauge("dpmcmc_jobs", "Jobs by status.", ("status",), registry=self.registry)

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one request; route is the template, never the address."""
        self._requests.labels(method, route, str(status)).inc()
        if (method, route) not in UNTIMED:
            self._seconds.labels(method, route).observe(seconds)

    def render(self, session: Session) -> bytes:
        """The exposition, with the present number of jobs in each status."""
        for status, number in fetch.count_jobs(session).items():
            self._jobs.labels(status).set(number)
        return generate_latest(self.registry)
