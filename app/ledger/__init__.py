"""The only door to the ledger's tables: pay first, exactly once, and prove it afterwards."""

from app.ledger import audit
from app.ledger.account import expire, hold, hold_pool, open_account, post, reserve, void
from app.ledger.amend import amend
from app.ledger.errors import (
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
from app.ledger.read import (
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
from app.ledger.totals import Totals, totals
from app.ledger.verify import Verification, verify

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
    "hold",
    "hold_pool",
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
