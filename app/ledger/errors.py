"""What the ledger refuses. No message is ever a function of private rows."""
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
    """A request that the ledger refuses."""


class UnknownAccount(LedgerError):
    """No ledger was opened for this dataset."""


class AccountClosed(LedgerError):
    """The dataset is archived or destroyed: nothing new is paid for."""


class UnknownReservation(LedgerError):
    """Nothing was ever reserved for this job."""


class AlreadyReserved(LedgerError):
    """This job has a reservation."""


class Voided(LedgerError):
    """The job's reservation was given back: it cannot be posted any more."""


class NotDrawn(LedgerError):
    """What is said to have been drawn is not how a debited event begins."""


class NotVoidable(LedgerError):
    """A worker claimed the job, or it is posted: nothing is given back."""


class AmendmentRefused(LedgerError):
    """An amendment that does not exist, is malformed, or would take a promise back."""


class BudgetExhausted(LedgerError):
    """The filter refused. allotment: whether it was the analyst's own cap and not the dataset's.

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
        """Epsilon of the refused event alone; infinite where no branch bounds it."""
        return spent_epsilon(self._terms, FilterState.empty(self._terms).add(self._cost))

    @property
    def remaining(self) -> float:
        """Epsilon of the largest job of this one's kind that would still fit."""
        return remaining_for(self._terms, self._held, self._cost)

    @property
    def failure(self) -> tuple[float, float] | None:
        """With which probability the job may fail, and which is left; None where that fits."""
        asked = float(in_units(self._cost.failure or 0))
        left = failure_left(self._terms, self._held)
        return (asked, left) if asked > left else None
