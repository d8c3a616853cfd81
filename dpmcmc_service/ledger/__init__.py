"""The only door to the ledger's tables: pay first, exactly once, and prove it afterwards."""

from dpmcmc_service.ledger import audit
from dpmcmc_service.ledger.account import expire, open_account, post, reserve, void
from dpmcmc_service.ledger.amend import amend
from dpmcmc_service.ledger.errors import (
    AccountClosed,
    AlreadyReserved,
    AmendmentRefused,
    BudgetExhausted,
    LedgerError,
    NotVoidable,
    UnknownAccount,
    UnknownReservation,
    Voided,
)
from dpmcmc_service.ledger.read import (
    Allotted,
    Balance,
    Entry,
    HistoryPoint,
    Preview,
    allotments,
    balance,
    balances,
    budgets,
    entries,
    history,
    preview,
    sums_of,
    terms_of,
)
from dpmcmc_service.ledger.totals import Totals, totals
from dpmcmc_service.ledger.verify import Verification, verify

__all__ = [
    "AccountClosed",
    "Allotted",
    "AlreadyReserved",
    "AmendmentRefused",
    "Balance",
    "BudgetExhausted",
    "Entry",
    "HistoryPoint",
    "LedgerError",
    "NotVoidable",
    "Preview",
    "Totals",
    "UnknownAccount",
    "UnknownReservation",
    "Verification",
    "Voided",
    "allotments",
    "amend",
    "audit",
    "balance",
    "balances",
    "budgets",
    "entries",
    "expire",
    "history",
    "open_account",
    "post",
    "preview",
    "reserve",
    "sums_of",
    "terms_of",
    "totals",
    "verify",
    "void",
]
