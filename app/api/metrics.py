"""Prometheus metrics. No dataset, user or job in any label, and nothing that rows could move:

no memory or CPU of the process, no size of a body, no duration of an upload or of a job.
"""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from app.services.metrics import Figures

GAUGES = {
    "jobs": ("Jobs by status.", "status"),
    "queue_age_seconds": ("Wait of the oldest queued job, in steps of ten seconds.",),
    "workers": ("Workers that can take a job.",),
    "ledgers": ("Ledgers by status.", "status"),
    "ledger_entries": ("Entries on all ledgers; it never falls.",),
    "ledgers_rewound": ("Ledgers behind their anchors; NaN where nobody can tell.",),
    "budgets": ("Open ledgers by what is left of their budget.", "left"),
}
UNTIMED = frozenset(
    ("POST", f"/v1/datasets{path}") for path in ("", "/inspect", "/snapshots", "/{id}/refresh")
)


class Metrics:
    """The metrics of one process."""

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
        self._plans = Counter(
            "dpmcmc_plans",
            "Plans and prices that were worked out or given up.",
            ("outcome",),
            registry=self.registry,
        )
        self._plans_told: dict[str, int] = {}
        self._gauges = {name: self._gauge(name, *of) for name, of in GAUGES.items()}

    def _gauge(self, name: str, what: str, label: str = "") -> Gauge:
        """Return a new gauge."""
        labels = (label,) if label else ()
        return Gauge(f"dpmcmc_{name}", what, labels, registry=self.registry)

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one request. route: the template, never the actual path."""
        self._requests.labels(method, route, str(status)).inc()
        if (method, route) not in UNTIMED:
            self._seconds.labels(method, route).observe(seconds)

    def render(self, figures: Figures, plans: Mapping[str, int]) -> bytes:
        """Return the metrics in Prometheus's text format, with the present values."""
        for outcome, number in plans.items():
            self._plans.labels(outcome).inc(number - self._plans_told.get(outcome, 0))
        self._plans_told = dict(plans)
        for name, (_, *label) in GAUGES.items():
            value, gauge = getattr(figures, name), self._gauges[name]
            if not label:
                gauge.set(value)
                continue
            for value_of_label, number in value.items():
                gauge.labels(value_of_label).set(number)
        return generate_latest(self.registry)
