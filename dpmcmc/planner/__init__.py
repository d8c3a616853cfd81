"""Public facts and a budget become a complete job: its cost, and what to expect of it."""

from dpmcmc.planner.planning import (
    BasePlan,
    Cost,
    Plan,
    check_rows,
    cost_of,
    event,
    expected_seconds,
    noise_event,
    plan,
    shortfall,
)

__all__ = [
    "BasePlan",
    "Cost",
    "Plan",
    "check_rows",
    "cost_of",
    "event",
    "expected_seconds",
    "noise_event",
    "plan",
    "shortfall",
]
