"""What is private, what is released, and the permit that turns the one into the other."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, NoReturn, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Neighbouring(StrEnum):
    """When two datasets count as neighbours."""

    REPLACE_ONE = "replace_one"
    ADD_REMOVE = "add_remove"


class PermitError(RuntimeError):
    """A permit was used on another subject or for another event than it was paid for."""


class Permit:
    """Proof that the ledger was debited: opens the rows of `subject` for one event, once.

    subject: the dataset's identifier. event_digest: digest of the event that was paid for.
    Only `app.ledger` and `dpmcmc.fit.local.owned` (the data owner's own single-use ledger)
    make one; an import contract and a test hold everybody else to it. It has no copies.
    """

    __slots__ = ("__event_digest", "__subject", "__unused")

    def __init__(self, *, subject: str, event_digest: str) -> None:
        self.__subject, self.__event_digest = subject, event_digest
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
        """Use it up. Raises PermitError where it was used before."""
        try:
            self.__unused.pop()
        except IndexError:
            raise PermitError("the permit was used before: each opens the rows once") from None

    def __reduce_ex__(self, _: object) -> NoReturn:
        raise TypeError("a permit has no copies: each opens the rows once")


class Private(Generic[T]):
    """Sensitive rows. Shows nothing of itself and hands its value out against a permit only."""

    __slots__ = ("__subject", "__value")

    def __init__(self, value: T, *, subject: str) -> None:
        self.__value = value
        self.__subject = subject

    def open(self, permit: Permit) -> T:
        """Return the rows, and use the permit up.

        Raises PermitError where the permit is for another subject, or was used before.
        """
        if permit.subject != self.__subject:
            raise PermitError("the permit was made for another dataset")
        permit.use()
        return self.__value

    def __repr__(self) -> str:
        return "<Private>"

    def _refuse(self, *_: object) -> NoReturn:
        raise TypeError("private data can only be opened with a permit")

    __reduce_ex__ = __iter__ = __bool__ = __len__ = __getitem__ = _refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __hash__ = __format__ = __getstate__ = __array__ = _refuse


@dataclass(frozen=True, slots=True)
class Released(Generic[T]):
    """A value that left a paid mechanism and may be shown to anybody who may see its job."""

    value: T
