"""The interface of job kinds: stored spec, plan, and execution.

A kind is one file here and one line in the registry. Whoever handles jobs asks a `Job`, and never
which kind it is of.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal, Protocol, Self
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.orm import Session

from app.services.accounts.caller import Caller
from app.services.errors import Fault
from dpmcmc.base.private import Permit, Private, Released
from dpmcmc.inputs.schema import Schema
from dpmcmc.inputs.spec import JobSpec
from dpmcmc.inputs.streamed import AnyRows
from dpmcmc.planner import BasePlan, Cost
from dpmcmc.posterior.units import Scale
from dpmcmc.privacy.events import Event
from dpmcmc.queries.tasks import TaskSpec

Json = dict[str, Any]
Floats = NDArray[np.float64]
Blocks = Iterator[Released[Floats]]
Opened = Callable[[], tuple[Private[AnyRows], Permit]]
BASE_BYTES = 2**29  # Python, the libraries and the compiled kernels
ROW_NUMBERS = 24  # of a row: its response, and what a column needs while it is made


class UnrunnableError(Exception):
    """A job cannot run for a missing input; nothing is paid. code: the job's error code."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class Attempt(Protocol):
    """The draws that one attempt at a job has released so far."""

    def draws(self) -> Floats:
        """Return all blocks (chain, draw, parameter), concatenated."""

    def first(self) -> Floats:
        """Return the first block (numbers,)."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """The event that a run that stopped early has drawn, and its cost."""

    event: Event
    cost: Cost


class Work(ABC):
    """A claimed job, ready to run once the rows are opened.

    A kind that stops early says so in `finished`; its blocks end there.
    """

    @property
    @abstractmethod
    def seconds(self) -> float:
        """Return the expected run time in seconds, from public facts, above 0."""

    @abstractmethod
    def blocks(self, opened: Opened) -> Blocks:
        """Yield released blocks (chain, draw, parameter).

        opened: returns the rows, still closed, and the permit for them, once they are paid for.
        """

    def finished(self, draws: int, planned: int) -> bool:
        """Return whether the block ending at draw number `draws` is the last."""
        return draws == planned

    @abstractmethod
    def summary(self, attempt: Attempt) -> tuple[Json, Json]:
        """Return summaries by scale, and the verdict, of the whole release."""

    def drawn(self) -> Drawn | None:
        """Return the drawn event of a run that stopped early; None if it is complete."""
        return None

    def kept(self) -> Json | None:
        """Return the stored release behind the blocks; None without one."""
        return None


@dataclass(frozen=True, slots=True)
class Shown:
    """How a job's blocks are shown as a chain. converted: maps draws to the requested scale.

    attributes: what it cost and how it was made.
    """

    parameters: tuple[str, ...]
    num_warmup: int
    converted: Callable[[Floats], Floats]
    attributes: Mapping[str, str | float]


class Job(ABC):
    """A job without its dataset: its spec, and the operations of its kind.

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
        """Return the spec as stored JSON."""

    def used(self, schema: Schema) -> Schema:
        """Return the schema of the dataset's rows that the job uses. Raises SpecError."""
        return schema

    def hashed(self) -> Json:
        """Return the spec as hashed for idempotency."""
        return self.as_json()

    @classmethod
    def title(cls, stored: Json) -> str:
        """Return the algorithm's name from a stored spec."""
        return str(stored["sampler"]["algorithm"])

    @abstractmethod
    def work(self, session: Session, schema: Schema) -> Work:
        """Return the job ready to run, without rows. Raises UnrunnableError."""

    def shown(self, schema: Schema, cost: Cost, scale: Scale) -> Shown:
        """Return how its blocks are shown as a chain. Raises LookupError if they are none."""
        raise LookupError(f"the job {self.kind} has no chain")


class PaidJob(Job):
    """A job that reads rows: planned from public facts and paid by a ledger.

    too_many, too_wide: what is wrong where it would release too many numbers, or need too much
    memory. unbounded: where no branch of a dataset's promise bounds its cost.
    """

    failure = "sampler_failed"
    pays = True
    too_many: ClassVar[Fault]
    too_wide: ClassVar[Fault]
    unbounded: ClassVar[Fault]
    spec: JobSpec | TaskSpec

    def used(self, schema: Schema) -> Schema:
        """Return the schema of the dataset's rows that the job uses. Raises SpecError."""
        return self.spec.privacy.schema(schema)

    def as_json(self) -> Json:
        """Return the spec as stored JSON."""
        return asdict(self.spec)

    @property
    def quick(self) -> bool:
        """Return whether planning takes only hundredths of a second."""
        return False

    def least_event(self, rows: int) -> Event | None:
        """Return the cheapest event of this kind; None where every guarantee bounds the cost."""
        return None

    def facts(self, session: Session, caller: Caller, dataset_id: UUID) -> Sequence[Any]:
        """Return the caller's releases on the dataset that the job may reuse."""
        return ()

    @abstractmethod
    def plan(self, schema: Schema, facts: Sequence[Any], *, advise: bool) -> BasePlan:
        """Return its plan. facts: see `facts`. advise: whether to compute warnings.

        Runs in a planner process. Raises SpecError.
        """

    @abstractmethod
    def settled(self, plan: Any) -> Self:
        """Return the job with all options filled in by a plan."""

    @abstractmethod
    def numbers(self, plan: Any) -> int:
        """Return the number of released numbers."""

    @abstractmethod
    def memory_bytes(self, schema: Schema, plan: Any) -> int:
        """Return the peak memory of a process that runs it."""

    def answer_bytes(self, schema: Schema, plan: Any) -> int:
        """Return about the largest answer in bytes, 0 where answers are streamed."""
        return 0

    def columns(self, plan: Any) -> Sequence[str]:
        """Return the columns whose declared bounds affect it."""
        return ()

    def shortfall(self, schema: Schema, plan: Any) -> tuple[str, float | None]:
        """Return why a plan is not usable, and an epsilon that would suffice, if known.

        Runs in a planner process.
        """
        return "", None
