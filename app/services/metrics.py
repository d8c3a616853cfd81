"""The values of the metrics: counts, and the age of the queue."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from app import ledger
from app.services.budgets.rewind import rewound
from app.services.context import Services
from app.services.errors import Refusal
from app.services.presence import able_workers
from app.services.results.fetch import count_jobs
from app.storage.clock import database_now
from app.storage.rows import JobRow

AGE_STEP = 10.0  # seconds: how long single jobs ran is not told by how long others wait


@dataclass(frozen=True, slots=True)
class Figures:
    """The present values of the metrics. ledgers_rewound: NaN where it is unknown."""

    jobs: Mapping[str, int]
    queue_age_seconds: float
    workers: int
    ledgers: Counter[str]
    budgets: Counter[str]
    ledger_entries: int
    ledgers_rewound: float


def figures(services: Services) -> Figures:
    """Return the present values, from the database and the anchors."""
    with services.sessions.read() as session:
        jobs, age, totals = count_jobs(session), _queue_age(session), ledger.totals(session)
        workers = able_workers(session)
    return Figures(
        jobs,
        age,
        workers,
        totals.ledgers,
        totals.left,
        totals.entries,
        _rewound(services),
    )


def _queue_age(session: Session) -> float:
    """Return the age in seconds of the oldest queued job, 0 without one."""
    oldest = session.scalar(select(func.min(JobRow.created_at)).where(JobRow.status == "queued"))
    if oldest is None:
        return 0.0
    waited = (database_now(session) - oldest).total_seconds()
    return AGE_STEP * max(0.0, waited // AGE_STEP)


def _rewound(services: Services) -> float:
    """Return the number of rewound ledgers, NaN where it is unknown."""
    try:
        return float(len(rewound(services)))
    except Refusal:
        return math.nan
