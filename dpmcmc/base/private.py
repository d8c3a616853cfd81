"""Types of private and of released values, and the permit that opens private rows."""

import os
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, NoReturn, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Neighbouring(StrEnum):
    """When two datasets count as neighbours: the unit that the privacy guarantee protects."""

    REPLACE_ONE = "replace_one"
    ADD_REMOVE = "add_remove"


class PermitError(RuntimeError):
    """A permit was used twice, on another dataset, or for another event than was paid for."""


class Permit:
    """Proof that the ledger was debited: opens the rows of `subject` for one event, once.

    subject: the dataset's identifier. event_digest: digest of the event that was paid for.
    Only `app.ledger` and `dpmcmc.fit.local.owned` (for the owner of the data) create one, which an
    import contract and a test check. It cannot be copied, and serves the process that made it: a
    fork makes a copy too, which would open the rows for the same payment again.
    """

    __slots__ = ("__event_digest", "__process", "__subject", "__unused")

    def __init__(self, *, subject: str, event_digest: str) -> None:
        self.__subject, self.__event_digest = subject, event_digest
        self.__process = os.getpid()
        self.__unused = [True]  # popping it is one step, so that of two threads one is refused

    @property
    def subject(self) -> str:
        """The dataset's identifier."""
        return self.__subject

    @property
    def event_digest(self) -> str:
        """Digest of the event that was paid for."""
        return self.__event_digest

    def use(self) -> None:
        """Mark the permit as used. Raises PermitError where it was, or in another process."""
        if self.__process != os.getpid():
            raise PermitError("the permit was made in another process, which may use it as well")
        try:
            self.__unused.pop()
        except IndexError:
            raise PermitError("the permit was used before: each opens the rows once") from None

    def __reduce_ex__(self, _: object) -> NoReturn:
        raise TypeError("a permit has no copies: each opens the rows once")


class Private(Generic[T_co]):
    """Sensitive rows, which only `open` returns, for a permit: no printing, copying, comparing."""

    __slots__ = ("__subject", "__value")

    def __init__(self, value: T_co, *, subject: str) -> None:
        self.__value = value
        self.__subject = subject

    def open(self, permit: Permit) -> T_co:
        """Return the rows, and mark the permit as used.

        Raises PermitError where the permit is for another subject, or was used before.
        """
        if permit.subject != self.__subject:
            raise PermitError("the permit was made for another dataset")
        permit.use()
        return self.__value

    def __repr__(self) -> str:
        return "<Private>"

    def _refuse(self, *_: object) -> NoReturn:
        """Raise an error: private rows cannot be printed, copied, compared or pickled."""
        raise TypeError("private data can only be opened with a permit")

    __reduce_ex__ = __iter__ = __bool__ = __len__ = __getitem__ = _refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __hash__ = __format__ = __getstate__ = __array__ = _refuse


@dataclass(frozen=True, slots=True)
class Released(Generic[T]):
    """The output of a mechanism that was paid for; whoever may see the job may see it."""

    value: T
