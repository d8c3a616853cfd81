"""What every kind of job has: a spec in the database, a plan, and a way to run.

A kind is one file here and one line in the registry. Whoever handles jobs asks a `Job`, and never
which kind it is of.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, Self
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.orm import Session

from app.services.accounts.caller import Caller
from app.services.errors import Fault
from dpmcmc.base.private import Permit, Private, Released
from dpmcmc.inputs.schema import Schema
from dpmcmc.inputs.streamed import AnyRows
from dpmcmc.planner import BasePlan, Cost
from dpmcmc.posterior.units import Scale
from dpmcmc.privacy.events import Event

Json = dict[str, Any]
Floats = NDArray[np.float64]
Blocks = Iterator[Released[Floats]]
Opened = Callable[[], tuple[Private[AnyRows], Permit]]
BASE_BYTES = 2**29  # Python, the libraries and the compiled kernels
ROW_NUMBERS = 24  # of a row: its response, and what a column needs while it is made


class UnrunnableError(Exception):
    """A job lacks what it needs to run, before anything is paid. code: of the job's error."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class Attempt(Protocol):
    """What one attempt at a job has released so far."""

    def draws(self) -> Floats:
        """All blocks (chain, draw, parameter), one after the other."""

    def first(self) -> Floats:
        """The first block (numbers,)."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """What a run that stopped early did to the rows, and what that costs."""

    event: Event
    cost: Cost


class Work(ABC):
    """A claimed job with all that it needs besides the rows.

    A kind that stops early says so in `finished`; its blocks end there.
    """

    @property
    @abstractmethod
    def seconds(self) -> float:
        """About how long it runs, from public facts, above 0."""

    @abstractmethod
    def blocks(self, opened: Opened) -> Blocks:
        """Return what is released, block by block (chain, draw, parameter).

        opened: returns the rows, still closed, and the permit for them, once they are paid for.
        """

    def finished(self, draws: int, planned: int) -> bool:
        """Whether the block that brings the draws of each chain to this number is the last."""
        return draws == planned

    @abstractmethod
    def summary(self, attempt: Attempt) -> tuple[Json, Json]:
        """Return the summaries by scale, and the verdict, of everything that was released."""

    def drawn(self) -> Drawn | None:
        """Return what was drawn of a run that stopped early; None where all of its event was."""
        return None

    def kept(self) -> Json | None:
        """Return what stays usable of a release behind the blocks; None where there is none."""
        return None


@dataclass(frozen=True, slots=True)
class Shown:
    """How the blocks of a job are shown as a chain. converted: draws on the scale asked for.

    attributes: what it cost and how it was made.
    """

    parameters: tuple[str, ...]
    num_warmup: int
    converted: Callable[[Floats], Floats]
    attributes: Mapping[str, str | float]


class Job(ABC):
    """A job without its dataset: what is asked for, and how such a job is handled.

    kind: as the API names it. member: of the spec's JSON, that no other kind has. failure: the code
    of a job whose run failed. pays: whether it opens rows, for which a ledger pays. answer: what
    it leaves behind, a chain or a result of its own form.
    """

    kind: ClassVar[str]
    member: ClassVar[str]
    failure: ClassVar[str]
    pays: ClassVar[bool] = False
    answer: ClassVar[Literal["chain", "result"]] = "chain"

    @classmethod
    def holds(cls, stored: Mapping[str, Any]) -> bool:
        """Return whether a stored spec is of this kind."""
        return cls.member in stored

    @classmethod
    @abstractmethod
    def read(cls, stored: Json) -> Self:
        """Return the job of a stored spec. Raises ValidationError."""

    @abstractmethod
    def as_json(self) -> Json:
        """Return the spec as it is stored."""

    def used(self, schema: Schema) -> Schema:
        """Return the schema of the rows that it uses of a dataset. Raises SpecError."""
        return schema

    def hashed(self) -> Json:
        """Return the spec as it stands for a request that is sent again."""
        return self.as_json()

    @classmethod
    def title(cls, stored: Json) -> str:
        """Return the algorithm of a stored spec."""
        return str(stored["sampler"]["algorithm"])

    @abstractmethod
    def work(self, session: Session, schema: Schema) -> Work:
        """Return the job ready to run, but for the rows. Raises UnrunnableError."""

    def shown(self, schema: Schema, cost: Cost, scale: Scale) -> Shown:
        """Return how its blocks are shown as a chain. Raises LookupError where they are none."""
        raise LookupError(f"the job {self.kind} has no chain")


class PaidJob(Job):
    """A job that opens rows: it is planned from public facts, and a ledger pays.

    too_many, too_wide: what is wrong where it would release too many numbers, or need too much
    memory. unbounded: where no branch of a dataset's promise bounds its cost.
    """

    failure = "sampler_failed"
    pays = True
    too_many: ClassVar[Fault]
    too_wide: ClassVar[Fault]
    unbounded: ClassVar[Fault]

    @property
    def quick(self) -> bool:
        """Whether it is planned in hundredths of a second."""
        return False

    def least_event(self, rows: int) -> Event | None:
        """Return what costs least of its kind; None where every promise bounds the cost."""
        return None

    def facts(self, session: Session, caller: Caller, dataset_id: UUID) -> Sequence[Any]:
        """Return what it may use again of the caller's own jobs on the dataset."""
        return ()

    @abstractmethod
    def plan(self, schema: Schema, facts: Sequence[Any], *, advise: bool) -> BasePlan:
        """Return its plan. facts: see `facts`. advise: whether to work warnings out.

        Runs in a planner process. Raises SpecError.
        """

    @abstractmethod
    def settled(self, plan: Any) -> Self:
        """Return the job that a plan makes of it, with nothing left open."""

    @abstractmethod
    def numbers(self, plan: Any) -> int:
        """Return how many numbers it releases."""

    @abstractmethod
    def memory_bytes(self, schema: Schema, plan: Any) -> int:
        """Return the most memory that a process takes which runs it."""

    def answer_bytes(self, schema: Schema, plan: Any) -> int:
        """Return about the most bytes of an answer that is sent as one; 0 where none is."""
        return 0

    def columns(self, plan: Any) -> Sequence[str]:
        """Return the columns whose bounds matter to it."""
        return ()

    def shortfall(self, schema: Schema, plan: Any) -> tuple[str, float | None]:
        """Return why a plan is not usable, and the epsilon at which it would be, if one is known.

        Runs in a planner process.
        """
        return "", None
