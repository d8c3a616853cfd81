"""The contract's bodies. Requests are strict: right types, finite numbers, no other fields."""

from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Literal, TypeVar
from uuid import UUID

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from app.services.budgets.promises import LARGEST_PROMISE
from app.services.jobs.kinds.chains import ChainJob
from app.services.jobs.kinds.dry import DryChainJob
from app.services.jobs.kinds.tasks import TaskJob
from app.storage.columns import ISO_DAY, MAX_DESCRIPTION
from app.storage.dialect import (
    LONGEST_SPELLING,
    MOST_SPELLINGS,
    Compression,
    DateOrder,
    Decimal,
    Encoding,
    Thousands,
)
from dpmcmc.base.names import NAMED_ROW, ROW
from dpmcmc.inputs.options import AlgorithmOptions, AutoOptions
from dpmcmc.inputs.published import with_known_names
from dpmcmc.inputs.schema import (
    DATES,
    LARGEST_BOUND,
    LARGEST_WHOLE,
    MOST_SPIKES,
    MOST_UNIT_ROWS,
    day_of,
    is_date,
)
from dpmcmc.inputs.spec import JobSpec, ModelSpec, PrivacySpec, Spend
from dpmcmc.posterior.units import Scale
from dpmcmc.privacy.event_json import from_dict
from dpmcmc.privacy.events import Event, EventError
from dpmcmc.queries.statistics.mechanisms import StatisticKind
from dpmcmc.queries.tasks import Task, TaskSpec
from dpmcmc.samplers.algorithms import OPTIONS

if TYPE_CHECKING:
    Algorithm = AlgorithmOptions
else:
    Algorithm = OPTIONS  # of whatever is registered

Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]
Note = Annotated[str, Field(min_length=1, max_length=2000, pattern=r"^[^\x00-\x08\x0b-\x1f\x7f]*$")]
Email = Annotated[
    str, Field(max_length=254, pattern=r"^[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*$")
]
FileName = Annotated[str, Field(max_length=1000, pattern=r"^[^\x00]*$")]
MOST_SKIPPED = 10_000
Word = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]
Delta = Annotated[float, Field(gt=0, lt=1)]
Positive = Annotated[float, Field(gt=0)]
MOST_CHOICES = 64  # thetas or powers of a choice
NotNegative = Annotated[float, Field(ge=0)]
Role = Literal["admin", "analyst", "auditor"]
Item = TypeVar("Item")


class Request(BaseModel):
    """What a client sends. most_values: members and items in it, those of inner ones included."""

    most_values: ClassVar[int] = 5000
    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, frozen=True)

    @classmethod
    def prepared(cls, document: Any) -> Any:
        """The body in the words that it is validated in. Raises SpecError."""
        return document


class Answer(BaseModel):
    """What the service answers."""

    model_config = ConfigDict(from_attributes=True, allow_inf_nan=False)


class Listing(Answer, Generic[Item]):
    """One page of a list."""

    items: list[Item]
    next_cursor: str | None


# ---- datasets ----


def _no_date(value: Any) -> Any:
    """Refuse a date as a bound, by name."""
    if is_date(value):
        raise PydanticCustomError("date", "is a date, and {dates}", {"dates": DATES})
    return value


def _no_dates(value: Any) -> Any:
    """Refuse a column of dates, by name."""
    kind = value.get("type") if isinstance(value, dict) else None
    if isinstance(kind, str) and kind.startswith(("date", "time")) and kind != "date":
        raise PydanticCustomError("date", "{dates}", {"dates": DATES})
    return value


Bound = Annotated[
    float,
    BeforeValidator(_no_date),
    Field(
        ge=-LARGEST_BOUND,
        le=LARGEST_BOUND,
        description="a column of larger numbers is to be scaled, with bounds to match",
    ),
]


def _true_or_codes(value: Any, codes: ValidatorFunctionWrapHandler) -> Any:
    return True if value is True else codes(value)


def _codes_or_true(items: dict[str, str]) -> WithJsonSchema:
    codes = {"type": "array", "items": items, "maxItems": 20}
    return WithJsonSchema({"anyOf": [codes, {"type": "boolean", "const": True}]})


# a union would name its members in the pointers of errors
Missing = Annotated[
    list[float],
    Field(max_length=20),
    WrapValidator(_true_or_codes),
    PlainSerializer(lambda missing: missing),
    _codes_or_true({"type": "number"}),
]


def _day(value: str) -> str:
    if day_of(value) is None:
        raise ValueError("must be a date, such as 2020-01-31")
    return value


Day = Annotated[str, Field(pattern=f"^{ISO_DAY}$"), AfterValidator(_day)]
MissingDays = Annotated[
    list[Day],
    Field(max_length=20),
    WrapValidator(_true_or_codes),
    PlainSerializer(lambda missing: missing),
    _codes_or_true({"type": "string", "format": "date"}),
]
Described = Annotated[
    str,
    Field(
        max_length=MAX_DESCRIPTION,
        pattern=r"^[^\x00]*$",
        description="what the column holds, in words; public",
    ),
]


class NumberIn(Request):
    """A numeric column with public bounds; values outside are clamped."""

    name: Name
    description: Described = ""
    type: Literal["number"]
    lower: Bound
    upper: Bound
    missing: Annotated[
        Missing,
        Field(
            description="codes, wherever they lie, that stand for no value: rows with one are left"
            " out of models that use the column, and count as rows all the same; true where null,"
            " NaN and empty fields stand for no value",
        ),
    ] = []
    integer: Annotated[
        bool,
        Field(
            description="whether all values are whole numbers: synthetic tables hold whole numbers"
            " then, quantiles are whole, and an upload with others is refused",
        ),
    ] = False
    spikes: Annotated[
        list[float],
        Field(
            max_length=MOST_SPIKES,
            description="values that many rows have exactly, such as 0 of an amount: tables of"
            " counts and synthetic tables give each of them a cell of its own",
        ),
    ] = []

    @model_validator(mode="after")
    def _ordered(self) -> "NumberIn":
        if not self.lower < self.upper:
            raise ValueError("lower must be below upper")
        if not self.upper - self.lower < float("inf"):
            raise ValueError("the bounds are too far apart")
        codes = self.missing if isinstance(self.missing, list) else []
        if len(set(codes)) < len(codes):
            raise ValueError("the missing codes must be distinct")
        whole = [self.lower, self.upper, *self.spikes]
        if self.integer and not all(float(number).is_integer() for number in whole):
            raise ValueError("the bounds and spikes of an integer column must be whole numbers")
        if self.integer and max(abs(self.lower), abs(self.upper)) > LARGEST_WHOLE:
            raise ValueError("the bounds of an integer column must lie within 2^51")
        if not all(self.lower <= number <= self.upper for number in self.spikes):
            raise ValueError("the spikes must lie within the bounds")
        if len(set(self.spikes)) < len(self.spikes) or set(self.spikes) & set(codes):
            raise ValueError("the spikes must be distinct, and no missing codes")
        return self


MayBeMissing = Annotated[
    bool,
    Field(
        description="whether null, NaN and empty fields stand for no value: rows with one are left"
        " out of models that use the column, and count as rows all the same"
    ),
]


class DateIn(Request):
    """A column of dates with public bounds, as 2020-01-31; dates outside are clamped.

    In formulas it is whole days since the lower bound. The time of day is left out.
    """

    name: Name
    description: Described = ""
    type: Literal["date"]
    lower: Day
    upper: Day
    missing: Annotated[
        MissingDays,
        Field(
            description="dates that stand for no value, such as 9999-12-31; true where null and"
            " empty fields do"
        ),
    ] = []
    spikes: Annotated[
        list[Day], Field(max_length=MOST_SPIKES, description="dates that many rows have")
    ] = []

    @model_validator(mode="after")
    def _ordered(self) -> "DateIn":
        if not self.lower < self.upper:
            raise ValueError("lower must be before upper")
        codes = self.missing if isinstance(self.missing, list) else []
        if len(set(codes)) < len(codes):
            raise ValueError("the missing codes must be distinct")
        if not all(self.lower <= spike <= self.upper for spike in self.spikes):
            raise ValueError("the spikes must lie within the bounds")
        if len(set(self.spikes)) < len(self.spikes) or set(self.spikes) & set(codes):
            raise ValueError("the spikes must be distinct, and no missing codes")
        return self


class CategoryIn(Request):
    """A column of declared categories; the first one is the reference."""

    name: Name
    description: Described = ""
    type: Literal["category"]
    categories: Annotated[list[Word], Field(min_length=2, max_length=1000)]
    missing: MayBeMissing = False

    @model_validator(mode="after")
    def _distinct(self) -> "CategoryIn":
        if len(set(self.categories)) < len(self.categories):
            raise ValueError("the categories must be distinct")
        return self


class BinaryIn(Request):
    """A column of two declared categories; the second one is coded as 1."""

    name: Name
    description: Described = ""
    type: Literal["binary"]
    categories: Annotated[list[Word], Field(min_length=2, max_length=2)]
    missing: MayBeMissing = False

    @model_validator(mode="after")
    def _distinct(self) -> "BinaryIn":
        if self.categories[0] == self.categories[1]:
            raise ValueError("the categories must be distinct")
        return self


ColumnIn = Annotated[
    NumberIn | DateIn | CategoryIn | BinaryIn,
    Field(discriminator="type"),
    BeforeValidator(_no_dates),
]


Share = Annotated[float, Field(ge=0, le=1)]
Order = Annotated[float, Field(gt=1, le=1e6)]


class Branches(Request):
    """How delta is shared between filters; a job is accepted while one of them still holds.

    gdp: share of the Gaussian filter. rdp: (order, share) of each Rényi filter, needed for samplers
    on secret minibatches. failure: share of delta that noise may use up which is itself
    (epsilon, delta), needed for the median and the maximum. Shares sum to at most 1; fixed at the
    dataset's creation. Noise of pure epsilon has a filter of its own, which needs no delta.
    """

    gdp: Share = 1.0
    rdp: Annotated[list[tuple[Order, Share]], Field(max_length=4)] = Field(default_factory=list)
    failure: Share = Field(default=0.0, exclude_if=lambda share: share == 0.0)


Promised = Annotated[Positive, Field(le=LARGEST_PROMISE)]


class PrivacyIn(Request):
    """A dataset's promise, fixed at its creation."""

    neighbouring: Literal["replace_one"] = "replace_one"
    epsilon: Promised
    delta: Delta
    branches: Branches = Field(default_factory=Branches)


class HoldersIn(Request):
    """Data holders who share the rows, and by what a row is known to be whose.

    names: of the holders. column: of the file, which names a row's holder and is not stored; left
    out where each holder's rows come in a file of their own, in the order of the names. Who has a
    row, and how many rows (or persons) a holder has, is public: a neighbouring dataset differs in
    one row, which stays with its holder. Holders of persons share one ledger.
    """

    names: Annotated[list[Name], Field(min_length=2, max_length=100)]
    column: Name | None = None

    @model_validator(mode="after")
    def _distinct(self) -> "HoldersIn":
        if len(set(self.names)) < len(self.names):
            raise ValueError("the holders' names must be distinct")
        return self


class UnitIn(Request):
    """What is protected where one person may have several rows: all rows of a person at once.

    column: of the file, words or whole numbers, which says whose a row is; it is not stored.
    max_rows: of a person with more rows, so many are kept, chosen at random. Both are public, and
    so is the number of persons; the number of rows is not.
    """

    column: Name
    max_rows: Annotated[int, Field(ge=1, le=MOST_UNIT_ROWS)]

    @field_validator("column")
    @classmethod
    def _not_row(cls, column: str) -> str:
        if column == ROW:
            raise ValueError(NAMED_ROW)
        return column


Reason = Annotated[str, Field(min_length=1, max_length=1000, pattern=r"^[^\x00]*[^\s\x00]")]


class SeparateIn(Request):
    """Why rows that were here before get a budget besides the one that they have."""

    reason: Reason


NoValue = Annotated[
    str, Field(min_length=1, max_length=LONGEST_SPELLING, pattern=r"^[^\x00-\x1f\x7f]*$")
]
Sign = Annotated[str, Field(min_length=1, max_length=1, pattern=r"^[\t\x01\x1f -~]$")]


class FormatIn(Request):
    """How a text file is written. What is left out is found, or asked for where it is not sure.

    separator: of fields. decimal, thousands: of numbers. quote: encloses fields; empty for none.
    skip_lines: above the header; skip_first_rows: below it, such as units or the wording of
    questions; skip_last_lines: below the rows, blank ones not counted: none where it is left out,
    but asked for where the last line may hold totals.
    row_names: whether rows begin with a field that the header does not name, as R writes them.
    dates: the order of day and month in dates such as 01/02/2020. missing: spellings of no value,
    such as NA, besides an empty field.
    """

    separator: Sign | None = None
    decimal: Decimal | None = None
    thousands: Thousands | None = None
    encoding: Encoding | None = None
    quote: Literal['"', "'", ""] | None = None
    compression: Compression | None = None
    skip_lines: Annotated[int, Field(ge=0, le=1000)] | None = None
    row_names: bool | None = None
    skip_first_rows: Annotated[int, Field(ge=0, le=1000)] | None = None
    skip_last_lines: Annotated[int, Field(ge=0, le=1000)] | None = None
    dates: DateOrder | None = None
    missing: Annotated[list[NoValue], Field(max_length=MOST_SPELLINGS)] = []

    @model_validator(mode="after")
    def _apart(self) -> "FormatIn":
        if self.decimal is not None and self.decimal == self.thousands:
            raise ValueError("decimal and thousands must be different signs")
        if self.quote and self.quote == self.separator:
            raise ValueError("quote and separator must be different signs")
        return self


class InspectIn(Request):
    """What is known of a file before it is looked at."""

    format: FormatIn = Field(default_factory=FormatIn)


class ColumnFound(Answer):
    """A column of a file: its name, and what its first values look like.

    kind: whole, number, date or text. skip: whether it looks like an id or free text. missing:
    spellings of no value, such as NA, that are among the first values.
    """

    name: str
    kind: Literal["whole", "number", "date", "text"]
    skip: bool
    missing: list[str]


FOUND = {"name": "age", "kind": "whole", "skip": False, "missing": ["NA"]}


class QuestionOut(Answer):
    """A member of format that has to be declared, and why."""

    pointer: str
    message: str


class InspectOut(Answer):
    """What is found of a file, for its admin to confirm.

    kind: of the file. format: what was declared or found; null for Parquet, and members that are
    null are open: see questions. rows: the first ones, five at most; none of Parquet.
    """

    kind: Literal["csv", "parquet"]
    format: FormatIn | None
    questions: list[QuestionOut]
    columns: Annotated[list[ColumnFound], Field(json_schema_extra={"example": [FOUND]})]
    rows: list[list[str]]


class ProblemOut(Answer):
    """What is wrong in a schema file. line: from 1; of JSON, the number of the column."""

    line: int
    field: str
    message: str


class SchemaOut(Answer):
    """What a schema file declares: columns as in the metadata of an upload, as far as they go."""

    columns: list[dict[str, Any]]
    problems: list[ProblemOut]


class DatasetIn(Request):
    """The metadata of an upload.

    population: whom the rows are about; datasets of one population share one ledger and budget.
    shares_ledger_with: a dataset whose ledger and budget this one is to share. Rows that are surely
    those of an earlier dataset, and persons who are in one, share its ledger unasked, also after it
    was destroyed, unless separate_budget says why not.
    holders: several who have rows each, every one of them with a dataset and a ledger of its own
    beside the pooled dataset, whose jobs debit all of them.
    privacy_unit: may one person have several rows? If so, by which column of the file, and how many
    of them are used; "row" if not; left out where that is not known, and a row is protected.
    format: how a text file is written, where it is to be declared. skip: columns of the file that
    are left out and never stored, such as ids and free text; skip_undeclared: all that are not
    declared. A column without a name is left out.
    unique_name: refuse the upload (409 name_taken) where a dataset in use has this name; otherwise
    same_name of the answer says so. An archived or destroyed dataset leaves its name free.
    """

    most_values = 50_000  # categories

    name: Name
    description: Annotated[str, Field(max_length=10_000, pattern=r"^[^\x00]*$")] = ""
    privacy: PrivacyIn
    columns: Annotated[list[ColumnIn], Field(min_length=1, max_length=1000)]
    population: Name | None = None
    shares_ledger_with: UUID | None = None
    separate_budget: SeparateIn | None = None
    grants: Annotated[list[UUID], Field(max_length=10_000)] | None = None
    holders: HoldersIn | None = None
    privacy_unit: UnitIn | Literal["row"] | None = None
    format: FormatIn = Field(default_factory=FormatIn)
    skip: Annotated[list[FileName], Field(max_length=MOST_SKIPPED)] = []
    skip_undeclared: bool = False
    unique_name: bool = False

    @model_validator(mode="after")
    def _distinct(self) -> "DatasetIn":
        names = [column.name for column in self.columns]
        if isinstance(self.privacy_unit, UnitIn) and self.privacy_unit.column in names:
            raise ValueError("the column that names persons is not stored: leave it undeclared")
        own = [*names, getattr(self.privacy_unit, "column", None)]
        own.append(self.holders.column if self.holders else None)
        if used := next((name for name in self.skip if name in own), None):
            raise ValueError(f"{used!r} is declared or names persons: it cannot be skipped")
        if self.holders is not None and self.holders.column in names:
            raise ValueError("the column that names the holders is not stored: leave it undeclared")
        if twice := [name for name, number in Counter(names).items() if number > 1]:
            raise ValueError(f"columns are declared more than once, such as {twice[0]!r}")
        others = (self.separate_budget, self.population, self.holders)
        if self.shares_ledger_with is not None and any(one is not None for one in others):
            raise ValueError(
                "shares_ledger_with stands without separate_budget, population and holders"
            )
        return self


Path = Annotated[str, Field(max_length=1000, pattern=r"^[^\x00-\x1f]*$")]


class SourceIn(Request):
    """Of what a snapshot is taken: a source, and what of it.

    table, query: of a database, one that the source offers. path: in a folder, of a Parquet file or
    of a folder with all Parquet files in it; empty for all of the source's.
    """

    name: Name
    table: Name | None = None
    query: Name | None = None
    path: Path | None = None

    @model_validator(mode="after")
    def _one(self) -> "SourceIn":
        if [self.table, self.query, self.path].count(None) != 2:
            raise ValueError("name one of table, query and path")
        return self


class SnapshotIn(Request):
    """A snapshot of a source as a dataset. metadata: as of an upload, without format."""

    most_values = DatasetIn.most_values

    source: SourceIn
    metadata: DatasetIn


class RefreshIn(Request):
    """name: of the next version; where it is left out the version's number is in it."""

    name: Name | None = None


class BudgetIn(Request):
    """A budget that is raised; neither number may sink."""

    epsilon: Promised | None = None
    delta: Delta | None = None


class DatasetPatch(Request):
    """Changes of a dataset, each a ledger entry. grants null: every analyst may use it.

    available: the stored rows of a dataset that was set aside are put right; they are looked at.

    allotments: epsilons (at the dataset's delta) that single analysts may use of the budget, by the
    analysts' ids; null lifts an allotment.

    reason: why, for the ledger and the audit trail.
    """

    most_values = 12_000
    reason: Reason | None = None
    privacy: BudgetIn | None = None
    archived: bool | None = None
    available: Literal[True] | None = None
    grants: Annotated[list[UUID], Field(max_length=10_000)] | None = None
    allotments: Annotated[dict[UUID, NotNegative | None], Field(max_length=1000)] | None = None

    @model_validator(mode="after")
    def _something(self) -> "DatasetPatch":
        if not self.model_fields_set - {"reason"}:
            raise ValueError("name at least one change")
        return self


class PrivacyOut(Answer):
    """What a dataset promises. branches: only where the admin shared delta between filters."""

    neighbouring: str
    epsilon: float
    delta: float
    branches: Branches | None = Field(None, exclude_if=lambda declared: declared is None)


class WeakOut(Answer):
    """A dataset's epsilon is so large that its promise says little."""

    code: Literal["weak_promise"]
    detail: str


class SeenOut(Answer):
    """An upload is like an earlier one.

    shared: whether the two share one ledger by now; otherwise each has a budget of its own.
    kind: same_rows (in any order), rows (a share of them), columns (a share of them), or persons.
    persons: how many are in both, where both name their persons. destroyed: whether the earlier
    dataset's rows were destroyed.
    """

    code: Literal["rows_seen_before"]
    detail: str
    dataset: UUID
    destroyed: bool
    shared: bool
    kind: Literal["same_rows", "rows", "columns", "persons"]
    share: float
    persons: int | None = Field(None, exclude_if=lambda value: value is None)


class ProtectsOut(Answer):
    """Whom an epsilon protects: a row, or a person, by the column that names them."""

    unit: str
    max_rows: int


ROW_PROTECTED = ProtectsOut(unit=ROW, max_rows=1)


class CutOut(Answer):
    """Persons with more rows than max_rows. For the admin who uploaded them, once."""

    code: Literal["rows_cut"]
    detail: str


class HolderOut(Answer):
    """A data holder of a pooled dataset, and the holder's own dataset."""

    dataset: UUID
    name: str
    rows: int


class UnavailableOut(Answer):
    """Since when a dataset is set aside, and what is wrong with its stored rows. For admins."""

    since: datetime
    reason: str


class SourceOut(Answer):
    """A source that the operator has configured. tables, queries: of a database, what it offers.

    A table "schema.*" stands for all of a schema.
    """

    name: str
    kind: Literal["postgresql", "duckdb", "parquet", "delta", "iceberg"]
    tables: list[str]
    queries: list[str]


class OriginOut(Answer):
    """Of what a dataset is a snapshot."""

    name: str
    table: str | None = Field(None, exclude_if=lambda value: value is None)
    query: str | None = Field(None, exclude_if=lambda value: value is None)
    path: str | None = Field(None, exclude_if=lambda value: value is None)


class ReadOut(Answer):
    """How far a snapshot is. rows: read so far."""

    rows: int


class DatasetOut(Answer):
    """Public metadata. grants: only told to admins; null where every analyst may use it.

    holders: of a pooled dataset. pool: the pooled dataset that a holder's one is part of.
    shares_ledger_with: the dataset on whose ledger this one is; for admins and auditors, absent
    where the ledger is its own.
    rows: null where persons are protected, of whom units says how many there are.
    source: of a snapshot, for admins and auditors. refreshes: the dataset whose next version it is.
    same_name: other datasets in use of this name, oldest first; for admins, where one dataset is
    shown, absent where there is none.
    """

    id: UUID
    name: str
    description: str
    rows: int | None
    units: int
    privacy_unit: UnitIn | Literal["row"] | None
    protects: ProtectsOut
    privacy: PrivacyOut
    columns: list[dict[str, Any]]
    status: Literal["open", "archived", "unavailable", "destroyed"]
    unavailable: UnavailableOut | None = Field(None, exclude_if=lambda value: value is None)
    created_at: datetime
    grants: list[UUID] | None = None
    population: str | None = Field(None, exclude_if=lambda named: named is None)
    holders: list[HolderOut] = Field([], exclude_if=lambda value: not value)
    pool: UUID | None = Field(None, exclude_if=lambda value: value is None)
    shares_ledger_with: UUID | None = Field(None, exclude_if=lambda value: value is None)
    source: OriginOut | None = Field(None, exclude_if=lambda value: value is None)
    refreshes: UUID | None = Field(None, exclude_if=lambda value: value is None)
    same_name: list[UUID] = Field([], exclude_if=lambda value: not value)
    warnings: list[Annotated[WeakOut | SeenOut | CutOut, Field(discriminator="code")]] = Field(
        [],
        description="rows_seen_before, rows_cut: in the answer to the upload only, for its admin",
    )


class Epsilon(Answer):
    """An epsilon at the delta named beside it; null where none is finite."""

    epsilon: float | None


class DummyOut(Answer):
    """Rows made from declared bounds and categories alone, column by column.

    data: of each column as many values as rows, null where one is missing; where persons are
    protected, their column is among them.
    """

    dataset: UUID
    rows: int
    seed: int
    note: str
    data: Annotated[
        dict[str, list[float | str | None]],
        Field(json_schema_extra={"example": {"dose": [1.25, 7.5], "cured": ["no", "yes"]}}),
    ]


class AllotmentOut(Answer):
    """What one analyst may use of a budget. spent: with reservations. remaining: in both.

    remaining_pure: of noise of pure epsilon (Laplace, randomised response), in both.
    jobs_left: of the epsilon that was asked for with job_epsilon; absent without it.
    """

    epsilon: float
    spent: Epsilon
    remaining: Epsilon
    remaining_pure: Epsilon
    jobs_left: int | None = Field(None, exclude_if=lambda count: count is None)


class RaisedOut(Answer):
    """What a budget would be if it were raised. jobs_left: as the budget's own, about."""

    epsilon: float
    jobs_left: int | None = Field(None, exclude_if=lambda count: count is None)
    warnings: list[WeakOut]


class BudgetOut(Answer):
    """A budget; every epsilon is composed, at the dataset's delta.

    remaining: of one job with Gaussian noise; remaining_pure: of one with noise of pure epsilon
    (Laplace, randomised response). remaining_failure: what is left of the share of delta that is
    kept for medians and maxima, whose noise may fail.
    allotments: by analysts' ids, only where there are any; an analyst is told the own one.
    jobs_left: how many jobs of job_epsilon still fit, one after the other; absent without it.
    raised: what raised_to would do; absent without it.
    """

    dataset: UUID
    neighbouring: str
    protects: ProtectsOut
    epsilon: float
    delta: float
    spent: Epsilon
    reserved: Epsilon
    remaining: Epsilon
    remaining_pure: Epsilon
    remaining_failure: float
    mu_total: float
    mu_spent: float | None
    jobs: int
    jobs_left: int | None = Field(None, exclude_if=lambda count: count is None)
    allotments: dict[UUID, AllotmentOut] = Field({}, exclude_if=lambda caps: not caps)
    raised: RaisedOut | None = Field(None, exclude_if=lambda raised: raised is None)


class HistoryOut(Answer):
    """One step of a budget's curve."""

    at: datetime
    job: UUID | None
    kind: str
    epsilon_after: float | None


class BudgetItem(BudgetOut):
    """A budget with its curve.

    history: the last steps, oldest first: 200, or an equal part of 4,000 on a page of more than 20
    datasets. The ledger has all of them.
    """

    history: list[HistoryOut]


class EntryOut(Answer):
    """One ledger entry. hash covers everything else and the entry before."""

    seq: int
    at: datetime
    kind: str
    job: UUID | None
    analyst: UUID | None
    actor: UUID | None
    event: dict[str, Any] | None
    event_digest: str | None
    cost: list[str | None] | None
    total: dict[str, Any]
    details: dict[str, Any]
    previous: str
    hash: str


class AnchorIn(Request):
    """An end of a chain that was kept elsewhere: how many entries, and the last one's hash.

    signature: as a verification gave it, where it is to be checked as well.
    """

    rows: Annotated[int, Field(ge=1, le=2**53)]
    head: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    signature: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None


class VerifyIn(Request):
    """What to hold a chain against besides itself."""

    anchor: AnchorIn | None = None


class AnchorOut(Answer):
    """An end of a chain, signed with this installation's key. ledger: null for the audit trail."""

    ledger: UUID | None
    rows: int
    head: str
    signature: str


class VerificationOut(Answer):
    """Whether a ledger is whole. problem: the first fault.

    anchor: to be kept elsewhere and sent with a later verification; null where there is a fault.
    """

    ok: bool
    rows: int
    head: str
    problem: str | None
    anchor: AnchorOut | None


# ---- plans and jobs ----


class JobIn(Request):
    """One sampling job. What is left out of `sampler` is chosen by the planner.

    Without `sampler` (or with `{"algorithm": "auto"}`, which is the same) it chooses the algorithm
    too, from public facts: the plan names it in `algorithm` and says why in `reasons`. Names that
    theses and papers give to algorithms are taken as well, such as MCMC-fixedS or adaSSP, and those
    that other software gives to families, such as gaussian or binomial. The family may be left out
    where the response says it, as surv(time, event) does.
    accept_low_quality: take a job whose plan is not `usable`, which is refused otherwise. spend:
    until_hopeless ends a release early that its own released numbers show to be hopeless; it then
    costs what it drew, and the rest of its reservation is returned. all goes on whatever they show.
    privacy.epsilon may be {"up_to": 4, "until": "reliable"}: a job of noisy_quadratic that begins
    small and goes on until its verdict is reliable; it reserves all, and costs what it drew.
    dry_run: run it on rows made from declared bounds and categories alone: the same way and the
    same limits, nothing is charged, no row is opened, and all that comes of it says so.
    name, note: for people; nothing is computed from them.
    """

    dataset: UUID
    model: ModelSpec
    sampler: Annotated[Algorithm, Field(discriminator="algorithm")] = AutoOptions()
    privacy: PrivacySpec
    accept_low_quality: bool = False
    spend: Spend = "until_hopeless"
    dry_run: bool = False
    name: Name | None = None
    note: Note | None = None

    @classmethod
    def prepared(cls, document: Any) -> Any:
        """The body with other software's names of families and algorithms replaced by ours."""
        return with_known_names(document) if isinstance(document, dict) else document

    def job(self) -> ChainJob:
        """The job without its dataset."""
        kind = DryChainJob if self.dry_run else ChainJob
        return kind(
            JobSpec(model=self.model, sampler=self.sampler, privacy=self.privacy, spend=self.spend)
        )


class TaskIn(Request):
    """A job that releases something else than a posterior: summaries, tables, a statistic, a check.

    It is planned, paid for and followed like any job; its result is `GET /v1/jobs/{id}/result`.
    accept_low_quality: take a task whose plan is not `usable`, which is refused otherwise. name,
    note: for people; nothing is computed from them.
    """

    dataset: UUID
    task: Annotated[Task, Field(discriminator="kind")]
    privacy: PrivacySpec
    accept_low_quality: bool = False
    name: Name | None = None
    note: Note | None = None

    def job(self) -> TaskJob:
        """The job without its dataset."""
        return TaskJob(TaskSpec(task=self.task, privacy=self.privacy))


class JobPatch(Request):
    """What an own job is called, and what is noted on it. A member left out stays; null removes."""

    name: Name | None = None
    note: Note | None = None


class PlanOut(Answer):
    """What a job would cost and bring, from public facts only.

    Of a task: algorithm is its kind, num_steps the blocks that it releases, reasons its noise.
    algorithm: the one that was named, or the planner's choice; reasons: why it was chosen.
    noise_multiplier: of every step of a chain; of a release as a whole, which costs
    mu = 1 / noise_multiplier. warnings: what is wrong with the job, and what would help.
    expected_ess: effective draws where effects are large or answers are rare; null where nothing is
    known of how a sampler mixes.
    expected_width: sd of the draws over the non-private posterior's, median coefficient; null where
    it is not known. usable: whether the result is expected to be of any use. rounds: of a job that
    goes on until its result is reliable, the epsilon that is paid after each round if it ends
    there; empty of other jobs.
    """

    algorithm: str
    epsilon: float
    delta: float
    mu: float | None
    noise_multiplier: float
    num_steps: int
    num_chains: int
    num_warmup: int
    expected_ess: float | None
    expected_width: float | None
    usable: bool
    rounds: list[float]
    parameters: list[str]
    remaining_after: Epsilon
    affordable: bool
    warnings: list[str]
    reasons: list[str]
    protects: ProtectsOut


class CostOut(Answer):
    """What a job costs."""

    epsilon: float
    delta: float
    mu: float | None


class ProgressOut(Answer):
    """Steps of each chain that are done."""

    step: int
    of: int


class ErrorOut(Answer):
    """Why a job ended without a chain."""

    code: str
    detail: str


class NoteOut(Answer):
    """Something to know for the next dataset, from released values. column: that it is about."""

    column: str
    sentence: str


class VerdictOut(Answer):
    """Whether a result may be believed, from released values only.

    reasons: each thing that is wrong, and what would mend it. width_from_privacy: part of its
    intervals' width that is due to privacy, where that is known. notes: on declared bounds, for the
    next dataset. mended_at: the epsilon that the sentence names, at which noise would be no reason
    any more; null where it names none. Other reasons that stand beside it may remain.
    """

    status: Literal["reliable", "unreliable"]
    sentence: str
    reasons: list[str]
    width_from_privacy: float | None
    notes: list[NoteOut] = []
    mended_at: float | None = None


class JobEvent(Answer):
    """An event of a stream of several jobs: one of them as it is now.

    step, of: its progress. verdict: on its result; null until it succeeded.
    """

    id: UUID
    status: Literal["queued", "running", "succeeded", "failed", "cancelled"]
    step: int
    of: int
    verdict: VerdictOut | None = None


class StatusEvent(Answer):
    """An event of a stream: the job's status, from now on or in the end.

    verdict: on the result, in the last event of a job that succeeded; absent otherwise.
    """

    status: Literal["queued", "running", "succeeded", "failed", "cancelled"]
    verdict: VerdictOut | None = None


class JobOut(Answer):
    """A job. spec: as planned and paid for; algorithm: its sampler's or release's name.

    cost: of what is reserved or debited; of a job that stopped early, of what it drew, and the rest
    of reserved is returned.

    reasons: why the planner chose the algorithm; empty where the job named it. verdict: null until
    the job has succeeded. expired_at: when its draws were deleted, after their time. submitted: the
    spec as it was asked for, before the planner filled it; of a single job, absent in a list. kind:
    chain, whose result is draws; task, whose result is `/result`; inference, draws given a task.
    name, note: as its analyst wrote them. dry_run: whether its rows were made, so that nothing of
    it is about the data.
    """

    id: UUID
    name: str | None
    note: str | None
    status: Literal["queued", "running", "succeeded", "failed", "cancelled"]
    dataset: UUID
    protects: ProtectsOut
    cost: CostOut
    reserved: CostOut
    progress: ProgressOut
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    expired_at: datetime | None
    error: ErrorOut | None
    algorithm: str
    reasons: list[str]
    verdict: VerdictOut | None
    spec: dict[str, Any]
    submitted: dict[str, Any] | None = Field(None, exclude_if=lambda spec: spec is None)
    kind: Literal["chain", "task", "inference"]
    dry_run: bool = False


class ParameterOut(Answer):
    """One parameter's released draws after warm-up."""

    name: str
    mean: float
    sd: float
    q05: float
    q25: float
    q50: float
    q75: float
    q95: float
    r_hat: float | None
    ess_bulk: float | None
    ess_tail: float | None


class SummaryOut(Answer):
    """The summary of a chain. draws: of each chain, after warm-up. scale: of the coefficients.

    explanation: what a regression found, how sure it is and what it cost, in sentences. covariates:
    the columns that its predictions need.
    """

    job: UUID
    scale: Scale = "original"
    chains: int
    draws: int
    num_warmup: int
    parameters: list[ParameterOut]
    verdict: VerdictOut | None = None
    protects: ProtectsOut = ROW_PROTECTED
    explanation: list[str] = []
    covariates: list[str] = []
    dry_run: bool = Field(False, exclude_if=lambda dry: not dry)


class ChainOut(Answer):
    """A chain as JSON. draws: (chain, draw, parameter), of which the first num_warmup warm up.

    verdict: the status of its verdict, with the sentence.
    """

    job: UUID
    parameters: list[str]
    num_chains: int
    num_draws: int
    num_warmup: int
    verdict: Literal["reliable", "unreliable"] | None = None
    verdict_sentence: str | None = None
    dry_run: bool = Field(False, exclude_if=lambda dry: not dry)
    draws: list[list[list[float]]]


class EstimateOut(Answer):
    """A number with its interval.

    dates: estimate, lower and upper as dates, where they are days of a column of dates.
    """

    name: str
    estimate: float
    lower: float
    upper: float
    dates: tuple[str, str, str] | None = Field(None, exclude_if=lambda value: value is None)


class SummariesOut(Answer):
    """Released summaries. noise_sd: of each count, in rows. Each interval holds by itself.

    target: population, whose random sample the rows are, or rows: noise alone.
    """

    kind: Literal["summaries"]
    job: UUID
    level: float
    target: Literal["population", "rows"]
    noise_sd: float
    estimates: list[EstimateOut]
    note: str


class MarginalOut(Answer):
    """A noisy contingency table, the last column fastest."""

    columns: list[str]
    counts: list[float]


class SyntheticOut(Answer):
    """What synthetic tables were drawn from. tables: how many; each is an address of its own.

    noise_sd: of each count of the marginals. r_hat: of the chains that drew the tables.
    """

    kind: Literal["synthetic"]
    job: UUID
    tables: int
    rows: int
    columns: list[str]
    levels: dict[str, list[str]]
    noise_sd: float
    r_hat: float | None
    marginals: list[MarginalOut]
    note: str


class StatisticOut(Answer):
    """A released statistic. values: one noisy sum (batch), median or maximum; or one of each row.

    statistic: kind, a, and the bounds of rows. noise: its law, which does not depend on rows.
    """

    kind: Literal["statistic"]
    job: UUID
    form: Literal["batch", "sequential", "median", "maximum"]
    statistic: dict[str, Any]
    rows: int
    values: list[float]
    noise: dict[str, Any]
    note: str


class StageOut(Answer):
    """What one stage released, as a statistic's fields say it."""

    form: Literal["batch"]
    statistic: dict[str, Any]
    rows: int
    values: list[float]
    noise: dict[str, Any]


class ScoreOut(Answer):
    """What a power promises: the mean of 1 / Fisher information, the least of which is chosen."""

    power: float
    mean_inverse_information: float | None


class WeightOut(Answer):
    """How likely a value is after the first stage."""

    theta: float
    weight: float


class TwoStagesOut(Answer):
    """Two released sums over separate rows. power: of the second, chosen by what the first told."""

    kind: Literal["two_stages"]
    job: UUID
    stages: list[StageOut]
    power: float
    scores: list[ScoreOut]
    weights: list[WeightOut]
    note: str


class BinOut(Answer):
    """A bin of a check, and how many rows lie in it.

    low, high: its ends, of the predictive distribution or of fitted probabilities. expected: its
    share of all rows under the model; or the share of its rows that was fitted. share: as released,
    null where it has too few rows; noise_sd: of its noise; sd: of sampling and noise together,
    under the model. differs: more or fewer than the model allows, else empty.
    """

    low: float
    high: float
    expected: float
    share: float | None
    noise_sd: float | None
    sd: float | None
    rows: float
    differs: Literal["", "more", "fewer"]


class PredictiveCheckOut(Answer):
    """How rows lie in the predictive distribution of a fitted regression.

    by: what bins are of: distribution, or fitted probability of a response with categories.
    statistic, degrees, p_value: a chi-squared test of all bins that knows sampling and noise.
    misfit: whether p_value is below .05. detectable: the least misfit that shows nine times in ten,
    a share of all rows in one bin or, of probabilities, of the fullest bin's rows. sentences: all
    of it in words, with what would fit better. noise_sd: of each count.
    """

    kind: Literal["predictive_check"]
    job: UUID
    family: str
    formula: str
    by: Literal["distribution", "probability"]
    rows: int
    noise_sd: float
    bins: list[BinOut]
    statistic: float
    degrees: int
    p_value: float
    misfit: bool
    detectable: float
    sentences: list[str]
    note: str


TaskOut = Annotated[
    SummariesOut | SyntheticOut | StatisticOut | TwoStagesOut | PredictiveCheckOut,
    Field(discriminator="kind"),
]


# ---- users, registries, accounting ----


class UserIn(Request):
    """A new user. expires_at: when the first key ends; null: never."""

    name: Name
    role: Role
    expires_at: AwareDatetime | None = None


class UserPatch(Request):
    """Whether a user is shut out, and why, for the audit trail."""

    disabled: bool
    reason: Reason | None = None


class MePatch(Request):
    """Where you want mail about access requests to be sent; null: nowhere."""

    email: Email | None


class KeyIn(Request):
    """What a new key is for, and when it ends."""

    label: Name | None = None
    expires_at: AwareDatetime | None = None


class UserOut(Answer):
    """A user. disabled_at: since when no key of the user lets anybody in."""

    id: UUID
    name: str
    role: Role
    created_at: datetime
    disabled_at: datetime | None


class KeyOut(Answer):
    """An API key without its secret. created_by: null where the service itself made it.

    last_used_at: to the minute.
    """

    id: UUID
    label: str | None
    created_at: datetime
    created_by: UUID | None
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None


class OneKey(KeyOut):
    """An API key without its secret, and its user."""

    user: UUID = Field(validation_alias="user_id")


class UserItem(UserOut):
    """A user with the keys that were made."""

    keys: list[KeyOut]


class NewUser(UserOut):
    """A new user with the key's only showing."""

    key: str
    key_id: UUID


class NewKey(Answer):
    """A further key, shown once."""

    id: UUID
    user: UUID
    key: str
    label: str | None
    expires_at: datetime | None


class AccessRequestIn(Request):
    """What an analyst asks admins for: a dataset, or budget on one, and why.

    dataset: of one that you may see; dataset_name: of another one, in words; one of the two.
    epsilon: the budget that is asked for. job: what it is for, as `POST /v1/plans` takes it without
    its dataset.
    """

    dataset: UUID | None = None
    dataset_name: Name | None = None
    epsilon: Promised | None = None
    reason: Reason
    job: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _one_dataset(self) -> "AccessRequestIn":
        if (self.dataset is None) == (self.dataset_name is None):
            raise ValueError("name a dataset by its id, or by a name: one of the two")
        if self.job is not None and self.dataset is None:
            raise ValueError("a job needs a dataset that you may see")
        return self


class AccessRequestPatch(Request):
    """An answer to a request. withdrawn: by the analyst; granted and refused: by an admin.

    Of a grant: dataset, where the request names one in words; allotment, the analyst's cap from now
    on; epsilon, what the dataset's whole budget is raised to. Access to the dataset comes with it.
    """

    status: Literal["granted", "refused", "withdrawn"]
    answer: Reason | None = None
    dataset: UUID | None = None
    allotment: NotNegative | None = None
    epsilon: Promised | None = None

    @model_validator(mode="after")
    def _of_a_grant(self) -> "AccessRequestPatch":
        given = {"dataset", "allotment", "epsilon"} & self.model_fields_set
        if given and self.status != "granted":
            raise ValueError(f"only a request that is granted has {' and '.join(sorted(given))}")
        return self


class GrantedOut(Answer):
    """What a grant changed. access: whether the dataset was opened to the analyst by it."""

    dataset: UUID
    access: bool
    allotment: float | None
    epsilon: float | None


class AccessRequestOut(Answer):
    """A request of an analyst, and what an admin answered. See AccessRequestIn."""

    id: UUID
    status: Literal["open", "granted", "refused", "withdrawn"]
    analyst: UUID = Field(validation_alias="user_id")
    dataset: UUID | None = Field(validation_alias="dataset_id")
    dataset_name: str | None
    epsilon: float | None
    reason: str
    job: dict[str, Any] | None
    created_at: datetime
    decided_at: datetime | None
    decided_by: UUID | None
    answer: str | None
    granted: GrantedOut | None


class AuditOut(Answer):
    """One entry of the audit trail. hash covers everything else and the entry before.

    actor: who did it, null for the service itself; key, address: with which key and from where;
    subject: to what; user: whom it concerns, who sees it too.
    """

    seq: int
    at: datetime
    action: str
    actor: UUID | None
    key: UUID | None
    address: str | None
    subject: UUID | None
    user: UUID | None
    details: dict[str, Any]
    previous: str
    hash: str


class PlaceOut(Answer):
    """Where a ledger ends."""

    rows: int
    head: str


class RewoundOut(Answer):
    """A ledger that is behind its anchor; null for the audit trail. datasets: that are on it.

    found: where it ends in the database; null where the database does not know it.
    """

    ledger: UUID | None
    datasets: list[UUID]
    anchor: PlaceOut
    found: PlaceOut | None


class RestoreOut(Answer):
    """What an older database is missing, and the sentence that says what to do."""

    rewound: list[RewoundOut]
    detail: str


class RestoreIn(Request):
    """An admin's word that a database was put back on purpose. reason: for the audit trail."""

    accept: Literal[True]
    reason: Annotated[str, Field(min_length=1, max_length=1000, pattern=r"^[^\x00]*$")]


class ActOut(Answer):
    """What somebody else did that concerns you."""

    seq: int
    at: datetime
    action: str
    actor: UUID | None
    subject: UUID | None
    details: dict[str, Any]


class MeOut(UserItem):
    """You, your keys with who made them, and what others did that concerns you, newest first.

    email: where you want to be told of access requests, which nobody else sees; null: nowhere.
    """

    acts: list[ActOut]
    email: str | None


class ProviderOut(Answer):
    """An identity provider (OpenID Connect) at which people sign in.

    name: what people call it. scopes: to ask for. browser: the address at which a browser begins;
    null: the dashboard takes keys only. device_client_id: the client id for the device flow (RFC
    8628) of the command line; null: it takes keys only.
    """

    issuer: str
    name: str
    scopes: str
    browser: str | None
    device_client_id: str | None


class SignInOut(Answer):
    """How to sign in beside keys. provider: null where there are keys only."""

    provider: ProviderOut | None


class RegisteredOut(Answer):
    """Something registered, with the JSON schema of its options.

    automatic: of an algorithm, whether the planner may choose it by itself; of a model, whether it
    may choose an algorithm for it that releases a regression. What is not is there for those who
    repeat what theses did.
    """

    name: str
    description: str
    automatic: bool
    options: dict[str, Any]


def _event_of(value: Any) -> Event:
    """Return the privacy event that JSON describes. Raises an error with the pointer into it."""
    try:
        return from_dict(value)
    except EventError as error:
        context = {"message": error.message, "pointer": error.pointer}
        raise PydanticCustomError("event", "{message}", context) from None


EventIn = Annotated[Event, PlainValidator(_event_of, json_schema_input_type=Event)]


class ComposeIn(Request):
    """Mechanisms one after the other on the same rows, and the delta to quote them at."""

    most_values = 10_000
    events: Annotated[list[EventIn], Field(min_length=1, max_length=1000)]
    delta: Delta


class NoiseIn(Request):
    """A budget, and the steps of all chains together that it is to pay for."""

    epsilon: Positive
    delta: Delta
    num_steps: int = 1


class NoiseOut(Answer):
    """The least noise multiplier of every step, and what they cost with it. See a job's privacy."""

    noise_multiplier: float
    epsilon: float
    delta: float
    mu: float


class StepsIn(Request):
    """A budget, and the noise of every step that it is to pay for.

    With gradient_noise_multiplier: steps of one chain of dp_hmc, or with num_leapfrog 1 of dp_mala.
    """

    epsilon: Positive
    delta: Delta
    noise_multiplier: Positive
    gradient_noise_multiplier: Positive | None = None
    num_leapfrog: int = 1


class StepsOut(Answer):
    """How many steps a budget pays for."""

    num_steps: int


class StatisticChoiceIn(Request):
    """Which power of a column's values to release, for a family whose one number is unknown.

    statistic, noise: as in a task of kind `statistic`. family, options: how rows are thought to
    come about, as in an inference. thetas: values of the family's number that are thought likely.
    powers: to choose from.
    """

    dataset: UUID
    column: Word
    statistic: StatisticKind = "absolute_power"
    noise: Literal["gaussian", "laplace"] = "laplace"
    family: Word
    options: dict[Word, float] = {}
    thetas: Annotated[list[float], Field(min_length=1, max_length=MOST_CHOICES)]
    powers: Annotated[list[float], Field(min_length=1, max_length=MOST_CHOICES)]
    epsilon: Positive
    delta: NotNegative = 0.0


class PowerOut(Answer):
    """What a noisy sum of values to this power tells.

    information: the Fisher information at each theta, noise included; score: the mean of its
    inverse, the smaller the better; null where it is infinite: nothing would be learnt.
    """

    power: float
    score: float | None
    information: list[float | None]


class StatisticChoiceOut(Answer):
    """The power that tells most, and what each would tell. From public facts alone, free."""

    power: float
    powers: list[PowerOut]


class Health(Answer):
    """Whether the process and what it needs are there."""

    status: Literal["ok", "unavailable"]
    checks: dict[str, Literal["ok", "unavailable"]] = {}
