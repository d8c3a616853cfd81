"""The planner: completes a job from public facts and a budget, and predicts its quality."""

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
