"""Errors of the ledger. No message depends on private rows."""
# ruff: noqa: N818 - named by what happened

from dpmcmc.privacy.filter import (
    EntryCost,
    FilterState,
    FilterTerms,
    failure_left,
    in_units,
    remaining_for,
    spent_epsilon,
)


class LedgerError(Exception):
    """The ledger refuses a request."""


class UnknownAccount(LedgerError):
    """The dataset has no ledger."""


class AccountClosed(LedgerError):
    """The dataset is archived or destroyed, and takes no new jobs."""


class UnknownReservation(LedgerError):
    """The job has no reservation."""


class AlreadyReserved(LedgerError):
    """The job has a reservation already."""


class Voided(LedgerError):
    """The job's reservation was voided and cannot be posted."""


class NotDrawn(LedgerError):
    """The drawn event is not a prefix of the debited event."""


class NotVoidable(LedgerError):
    """The job was claimed or posted, so its reservation cannot be voided."""


class AmendmentRefused(LedgerError):
    """The amendment is unknown, malformed, or would weaken the privacy guarantee."""


class BudgetExhausted(LedgerError):
    """The budget is exhausted. allotment: whether by the analyst's own cap.

    requested, remaining: epsilons at the dataset's delta, worked out when asked for, so that nobody
    waits for them under the ledger's lock.
    """

    def __init__(
        self, terms: FilterTerms, held: FilterState, cost: EntryCost, *, allotment: bool = False
    ) -> None:
        super().__init__("the budget is exhausted")
        self._terms, self._held, self._cost = terms, held, cost
        self.allotment = allotment

    @property
    def requested(self) -> float:
        """Return the epsilon of the refused event alone; infinite where no branch bounds it."""
        return spent_epsilon(self._terms, FilterState.empty(self._terms).add(self._cost))

    @property
    def remaining(self) -> float:
        """Return the epsilon of the largest job of this kind that would fit."""
        return remaining_for(self._terms, self._held, self._cost)

    @property
    def failure(self) -> tuple[float, float] | None:
        """Return the failure probabilities of the job and remaining; None where it fits."""
        needed = float(in_units(self._cost.failure or 0))
        available = failure_left(self._terms, self._held)
        return (needed, available) if needed > available else None
