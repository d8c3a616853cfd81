"""Datasets, their budgets and their ledgers."""

import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any, BinaryIO, TypeVar

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import StreamingResponse

from app import ledger
from app.api import anchors
from app.api.anchors import anchor_of
from app.api.auth import Admin, Anyone, DatasetId, Downloading, House, Overseer
from app.api.bodies import describe, parse, parsed, read, read_any
from app.api.endpoints import IdempotencyKey, Route, in_thread
from app.api.formats import (
    BINARY,
    CSV,
    JSON,
    PARQUET,
    negotiate,
    table_as_csv,
    table_as_json,
    table_as_parquet,
)
from app.api.multipart import receive
from app.api.paging import DEFAULT_LIMIT, Cursor, Limit
from app.api.pieces import download
from app.api.problems import of_status
from app.api.schemas import (
    AllotmentOut,
    Branches,
    BudgetItem,
    BudgetOut,
    ColumnFound,
    CutOut,
    DatasetIn,
    DatasetOut,
    DatasetPatch,
    DummyOut,
    EntryOut,
    Epsilon,
    FormatIn,
    HistoryOut,
    HolderOut,
    HoldersIn,
    InspectIn,
    InspectOut,
    Listing,
    OriginOut,
    PrivacyOut,
    ProblemOut,
    ProtectsOut,
    QuestionOut,
    RaisedOut,
    SchemaOut,
    SeenOut,
    UnavailableOut,
    UnitIn,
    VerificationOut,
    VerifyIn,
    WeakOut,
)
from app.services import idempotency
from app.services.accounts.caller import Caller
from app.services.budgets.promises import LARGEST_PROMISE, jobs_within, warnings
from app.services.context import Services
from app.services.datasets import records as use
from app.services.datasets import uploads
from app.services.datasets.inspect import inspect
from app.services.errors import Fault, Refusal, invalid
from app.storage.dialect import Dialect, Reading
from app.storage.rows import DatasetRow
from dpmcmc.base import schema_file
from dpmcmc.base.names import ROW

router = APIRouter(prefix="/v1", tags=["datasets"], route_class=Route)


SCHEMA_PART = {
    "type": "string",
    "format": "binary",
    "description": "a schema file in place of metadata.columns: columns as JSON, or a table with"
    " a line for each column. Fields stand between commas, semicolons or tabs: `name`, `type`,"
    " `lower`, `upper`, `categories`, `missing`, `integer`, `spikes`, `description`",
}
SCHEMA_FORM = {"type": "object", "required": ["schema"], "properties": {"schema": SCHEMA_PART}}
SCHEMA = {"requestBody": {"required": True, "content": {"multipart/form-data": {
    "schema": SCHEMA_FORM, "example": {"schema": "schema.csv"},
}}}}  # fmt: skip


def _file_and(model: str, file: str, *required: str) -> dict[str, Any]:
    """What OpenAPI says of a body of a file and its metadata. file: its description."""
    properties = {
        "file": {"type": "string", "format": "binary", "description": file},
        "metadata": {"$ref": f"#/components/schemas/{model}"},
    }
    if model == "DatasetIn":
        properties["schema"] = SCHEMA_PART
    form = {
        "schema": {"type": "object", "required": [*required], "properties": properties},
        "encoding": {"metadata": {"contentType": "application/json"}},
    }
    return {"requestBody": {"required": True, "content": {"multipart/form-data": form}}}


UPLOAD = _file_and(
    "DatasetIn",
    "text with a header line, Parquet, or text in a gzip or zip file; once, or of each data holder"
    " that metadata.holders names without a column",
    "file",
    "metadata",
)
INSPECT = _file_and("InspectIn", "a text file, alone or in a gzip or zip file, or Parquet", "file")
describe(DatasetIn)
describe(InspectIn)
Body = TypeVar("Body", DatasetIn, InspectIn)
SEEN = {
    "same_rows": "These are the very rows of an earlier dataset",
    "rows": "{:.0%} of the rows are those of an earlier dataset",
    "columns": "{:.0%} of the columns are those of an earlier dataset",
    "persons": "{persons:,} persons are in an earlier dataset as well",
}
SHARED = (
    ": the two share one ledger and its budget. If they are other people's, destroy this dataset"
    " and upload it again with separate_budget and the reason."
)
APART = (
    " with a budget of its own. What was spent on it counts for the people in these rows as well:"
    " name it in shares_ledger_with, and they share one budget."
)
DUMMY = "made from declared bounds and categories alone; no row of the dataset was read"
ROWS = "/query/rows"
MOST_DUMMY_VALUES = 1_000_000
DummyRows = Annotated[int, Query(ge=1, le=10_000)]
DummySeed = Annotated[int, Query(ge=0, le=2**32 - 1)]
Why = Annotated[
    str | None, Query(max_length=1000, description="for the ledger and the audit trail")
]
MOST_FAULTS = 50  # of a schema file that are listed
NEVER_NULL = ("privacy", "archived", "available", "allotments")
RaisedTo = Annotated[
    float | None, Query(gt=0, le=LARGEST_PROMISE, description="a larger epsilon of the dataset")
]
JobEpsilon = Annotated[
    float | None,
    Query(
        gt=0,
        le=LARGEST_PROMISE,
        description="of jobs, at the dataset's delta, whose number is wanted",
    ),
]


def shown(
    described: use.Described,
    caller: Caller,
    seen: Sequence[uploads.Seen] = (),
    cut: tuple[int, int] = (0, 0),
) -> DatasetOut:
    """A dataset's public metadata; who may use it is told to admins only.

    seen, cut: for the answer to the upload, which only its admin gets.
    """
    row, balance = described.row, described.balance
    return DatasetOut(
        id=row.id,
        name=row.name,
        description=row.description,
        rows=row.rows if row.unit == ROW else None,
        units=row.units,
        privacy_unit=row.privacy_unit,  # type: ignore[arg-type]
        protects=ProtectsOut.model_validate(row.protects),
        privacy=PrivacyOut(
            neighbouring=balance.neighbouring,
            epsilon=balance.epsilon,
            delta=balance.delta,
            branches=_branches(balance),
        ),
        columns=row.columns,
        status=described.status,  # type: ignore[arg-type]
        unavailable=_set_aside(row) if caller.role == "admin" else None,
        created_at=row.created_at,
        grants=list(described.grants)
        if described.grants is not None and caller.role == "admin"
        else None,
        warnings=[
            *(WeakOut(code="weak_promise", detail=said) for said in warnings(balance.epsilon)),
            *(_warning(one) for one in seen),
            *_cut(cut),
        ],
        population=row.population,
        holders=[HolderOut.model_validate(one) for one in row.holders or ()],
        pool=row.pool_id,
        shares_ledger_with=row.ledger_id if caller.role in ("admin", "auditor") else None,
        source=OriginOut.model_validate({n: row.source.get(n) for n in OriginOut.model_fields})
        if row.source is not None and caller.role in ("admin", "auditor")
        else None,
        refreshes=row.refreshes,
        same_name=list(described.namesakes),
    )


def _cut(cut: tuple[int, int]) -> list[CutOut]:
    """What an admin is told about persons with more rows than are used."""
    persons, rows = cut
    if not persons:
        return []
    message = (
        f"{persons:,} persons have more rows than max_rows: {rows:,} of their rows are not used"
    )
    return [CutOut(code="rows_cut", detail=f"{message}. Nobody else is told.")]


def _set_aside(row: DatasetRow) -> UnavailableOut | None:
    if row.unavailable_at is None:
        return None
    return UnavailableOut(since=row.unavailable_at, reason=row.unavailable_reason or "")


def _warning(seen: uploads.Seen) -> SeenOut:
    """What an admin is told about an upload that came before."""
    said = SEEN[seen.like.kind].format(seen.like.share, persons=seen.like.persons)
    return SeenOut(
        code="rows_seen_before",
        detail=said + (SHARED if seen.shared else APART),
        dataset=seen.dataset_id,
        destroyed=seen.destroyed,
        shared=seen.shared,
        kind=seen.like.kind,
        share=round(seen.like.share, 2),
        persons=seen.like.persons or None,
    )


def budget_of(budget: use.Budget, job_epsilon: float | None = None) -> dict[str, Any]:
    """The members of a budget's answer. job_epsilon: of jobs whose number is wanted."""
    balance = budget.balance

    def fit(left: float) -> int | None:
        return None if job_epsilon is None else jobs_within(left, job_epsilon, balance.delta)

    return {
        "dataset": balance.dataset_id,
        "neighbouring": balance.neighbouring,
        "protects": budget.protects,
        "epsilon": balance.epsilon,
        "delta": balance.delta,
        "spent": Epsilon(epsilon=balance.spent_epsilon),
        "reserved": Epsilon(epsilon=balance.reserved_epsilon),
        "remaining": Epsilon(epsilon=balance.remaining_epsilon),
        "remaining_pure": Epsilon(epsilon=balance.remaining_pure),
        "remaining_failure": balance.remaining_failure,
        "mu_total": balance.mu_total,
        "mu_spent": balance.mu_spent,
        "jobs": balance.jobs,
        "jobs_left": fit(balance.remaining_epsilon),
        "allotments": {
            own.analyst_id: AllotmentOut(
                epsilon=own.epsilon,
                spent=Epsilon(epsilon=own.spent_epsilon),
                remaining=Epsilon(epsilon=own.remaining_epsilon),
                remaining_pure=Epsilon(epsilon=own.remaining_pure),
                jobs_left=fit(own.remaining_epsilon),
            )
            for own in budget.allotments
        },
    }


@router.post("/datasets", status_code=201, openapi_extra=UPLOAD)
async def create(
    caller: Admin,
    services: House,
    request: Request,
    response: Response,
    key: IdempotencyKey = None,
) -> DatasetOut:
    """Upload rows with their public metadata, and fix the budget.

    Rows that were here before share the earlier dataset's ledger, and the answer says so; where
    that is not sure, it warns.
    """
    upload = await receive(request, services.settings.data_dir)
    try:
        declared = bytes(upload.schema) if "schema" in upload.seen else None
        definition = await parsed(_definition, declared, bytes(upload.metadata))
        once = idempotency.once(key, "dataset", upload.digest)
        asked = (services, caller, definition, upload.sources, once)
        taken = await in_thread(uploads.create, *asked)
    finally:
        upload.close()
    response.headers["Location"] = f"/v1/datasets/{taken.dataset.row.id}"
    return shown(taken.dataset, caller, taken.seen, taken.cut)


@router.post("/datasets/inspect", openapi_extra=INSPECT, response_model=InspectOut)
async def look(_: Admin, services: House, request: Request) -> Response:
    """Show how a file is written, its columns and its first five rows, before it is uploaded.

    Nothing of it is stored. Of a text file that is not in a zip file its first MiB is enough.
    """
    upload = await receive(request, services.settings.data_dir, ("file",))
    try:
        declared = _metadata(InspectIn, bytes(upload.metadata) or b"{}")
        seen = await in_thread(_inspected, services, upload.sources[0], _dialect(declared.format))
    finally:
        upload.close()
    return Response(seen, media_type="application/json")


def _inspected(services: Services, file: BinaryIO, declared: Dialect) -> str:
    """The answer as JSON, made where it holds nobody up: a file may have very many columns."""
    inspected = inspect(services, file, declared)
    answer = InspectOut(
        kind=inspected.kind,
        format=None if inspected.dialect is None else _format(inspected.dialect),
        questions=[QuestionOut(pointer=at, message=said) for at, said in inspected.questions],
        columns=[ColumnFound.model_validate(column) for column in inspected.columns],
        rows=[list(row) for row in inspected.rows],
    )
    return answer.model_dump_json(by_alias=True)


@router.post("/datasets/schema", openapi_extra=SCHEMA, response_model=SchemaOut)
async def columns(_: Admin, services: House, request: Request) -> Response:
    """Show what a schema file declares, and what is wrong in it, by line and field.

    Nothing of it is stored. Columns are those of an upload's metadata, as far as they are there.
    """
    upload = await receive(request, services.settings.data_dir, ("schema",))
    upload.close()
    answer = await in_thread(_declared, bytes(upload.schema))
    return Response(answer, media_type="application/json")


def _declared(schema: bytes) -> str:
    """The answer as JSON, made where it holds nobody up."""
    content = schema_file.read(schema)
    problems = [
        ProblemOut(line=problem.line, field=problem.field, message=problem.message)
        for problem in content.problems
    ]
    return SchemaOut(columns=list(content.columns), problems=problems).model_dump_json()


def _in_schema(declared: bytes, text: bytes) -> tuple[bytes, schema_file.SchemaFile]:
    """The metadata with the columns of a schema file. Raises Refusal 422."""
    content = schema_file.read(declared)
    if content.problems:
        shown = content.problems[:MOST_FAULTS]
        faults = [Fault(f"/schema/{one.line}/{one.field}", str(one)) for one in shown]
        detail = f"The schema file is not valid: {len(content.problems)} faults."
        raise Refusal(422, "invalid_schema", detail, faults)
    try:
        metadata = json.loads(text)
    except (ValueError, RecursionError):
        metadata = None
    if not isinstance(metadata, dict):
        return text, content
    if "columns" in metadata:
        raise invalid("/metadata/columns", "the columns are in the schema file: leave them out")
    return json.dumps(metadata | {"columns": list(content.columns)}).encode(), content


def _metadata(model: type[Body], text: bytes) -> Body:
    """The metadata part. Its faults point below /metadata."""
    try:
        return parse(model, text)
    except Refusal as refusal:
        refusal.errors = [Fault(f"/metadata{e.pointer}", e.message) for e in refusal.errors]
        raise


def _branches(balance: ledger.Balance) -> Branches | None:
    declared = Branches(
        gdp=balance.gdp_weight, rdp=list(balance.renyi), failure=balance.failure_weight
    )
    return None if declared == Branches() else declared


def _definition(declared: bytes | None, text: bytes) -> uploads.Definition:
    """What an upload declares. declared: a schema file in place of the columns."""
    if declared is None:
        return defined(_metadata(DatasetIn, text))
    text, schema = _in_schema(declared, text)
    try:
        return defined(_metadata(DatasetIn, text))
    except Refusal as refusal:
        refusal.errors = [_by_line(fault, schema) for fault in refusal.errors]
        raise


def _by_line(fault: Fault, schema: schema_file.SchemaFile) -> Fault:
    """A fault of a column with its place in the schema file."""
    named = re.fullmatch(r"/metadata(/columns/([0-9]+)(?:/(.*))?)", fault.pointer)
    if named is None or int(named[2]) >= len(schema.columns):
        return fault
    field = f", {named[3]}" if named[3] else ""
    place = f"{schema.place(int(named[2]))}{field}"
    return Fault(f"/schema{named[1]}", f"{place}: {fault.message}")


def defined(metadata: DatasetIn) -> uploads.Definition:
    """What metadata declare about rows, as the use case takes it."""
    return uploads.Definition(
        name=metadata.name,
        description=metadata.description,
        columns=[column.model_dump() for column in metadata.columns],
        neighbouring=metadata.privacy.neighbouring,
        epsilon=metadata.privacy.epsilon,
        delta=metadata.privacy.delta,
        gdp_weight=metadata.privacy.branches.gdp,
        renyi=tuple(metadata.privacy.branches.rdp),
        failure_weight=metadata.privacy.branches.failure,
        grants=metadata.grants,
        population=metadata.population,
        separate_budget=separate.reason if (separate := metadata.separate_budget) else None,
        shares_ledger_with=metadata.shares_ledger_with,
        holders=_holders(metadata.holders),
        privacy_unit=_unit(metadata.privacy_unit),
        reading=Reading(
            dialect=_dialect(metadata.format),
            skip=tuple(metadata.skip),
            skip_undeclared=metadata.skip_undeclared,
        ),
        unique_name=metadata.unique_name,
    )


def _format(dialect: Dialect) -> FormatIn:
    return FormatIn(**{**asdict(dialect), "missing": list(dialect.missing)})


def _dialect(format_: FormatIn) -> Dialect:
    return Dialect(**{**format_.model_dump(), "missing": tuple(format_.missing)})


def _unit(unit: UnitIn | str | None) -> dict[str, Any] | str | None:
    return unit.model_dump() if isinstance(unit, UnitIn) else unit


def _holders(holders: HoldersIn | None) -> uploads.Holders | None:
    return None if holders is None else uploads.Holders(tuple(holders.names), holders.column)


@router.get("/datasets")
def datasets(
    caller: Anyone, services: House, limit: Limit = DEFAULT_LIMIT, cursor: Cursor = None
) -> Listing[DatasetOut]:
    """The datasets that you may see, newest first."""
    page = use.datasets(services, caller, limit, cursor)
    items = [shown(dataset, caller) for dataset in page.items]
    return Listing(items=items, next_cursor=page.next_cursor)


@router.get("/datasets/{id}")
def dataset(caller: Anyone, services: House, dataset_id: DatasetId) -> DatasetOut:
    """One dataset's public metadata."""
    return shown(use.dataset(services, caller, dataset_id), caller)


@router.get(
    "/datasets/{id}/dummy",
    response_class=StreamingResponse,
    responses={200: {"model": DummyOut, "content": dict.fromkeys((CSV, PARQUET), BINARY)}},
    dependencies=[Downloading],
)
def dummy(
    caller: Anyone,
    services: House,
    dataset_id: DatasetId,
    request: Request,
    rows: DummyRows = 100,
    seed: DummySeed = 0,
) -> StreamingResponse:
    """Rows made from the declared bounds and categories alone, to write and try code with. Free.

    No row of the dataset is read, and no result of these rows says anything of it: values are
    uniform and columns independent. The same seed gives the same rows. As JSON, CSV or Parquet.
    """
    kind = negotiate(",".join(request.headers.getlist("accept")), (JSON, CSV, PARQUET))
    if kind is None:
        raise of_status(406, f"Dummy rows come as {JSON}, {CSV} or {PARQUET}.")
    schema = use.schema(services, caller, dataset_id)
    if rows * len(schema.columns) > MOST_DUMMY_VALUES:
        most = f"At most {MOST_DUMMY_VALUES // len(schema.columns):,} rows of this dataset."
        raise Refusal(422, "invalid_request", "The request is not valid.", [Fault(ROWS, most)])
    data = schema.dummy(rows, seed=seed)
    if kind == JSON:
        head = {"dataset": str(dataset_id), "rows": rows, "seed": seed, "note": DUMMY}
        body = table_as_json(head, data)
    else:
        body = table_as_csv([data]) if kind == CSV else table_as_parquet([data])
    return download(request, caller, body, kind, {"Dpmcmc-Rows": DUMMY})


@router.patch("/datasets/{id}", openapi_extra=describe(DatasetPatch))
def amend(
    caller: Admin,
    services: House,
    dataset_id: DatasetId,
    body: Annotated[DatasetPatch, Depends(read(DatasetPatch))],
) -> DatasetOut:
    """Raise the budget, archive, say who may use how much of it: each change a ledger entry."""
    named = body.model_dump(exclude_unset=True)
    if any(named.get(name, ...) is None for name in NEVER_NULL):
        fault = Fault("", "Only grants may be null.")
        raise Refusal(422, "invalid_request", "The request is not valid.", [fault])
    return shown(use.amend(services, caller, dataset_id, named), caller)


@router.delete("/datasets/{id}", status_code=204, response_class=Response)
def destroy(caller: Admin, services: House, dataset_id: DatasetId, reason: Why = None) -> None:
    """Destroy the stored rows and their key. Metadata and ledger stay."""
    use.destroy(services, caller, dataset_id, (reason or "").strip() or None)


@router.get("/datasets/{id}/budget")
def budget(
    caller: Anyone,
    services: House,
    dataset_id: DatasetId,
    job_epsilon: JobEpsilon = None,
    raised_to: RaisedTo = None,
) -> BudgetOut:
    """What is spent, reserved and left, and with `job_epsilon` for how many such jobs.

    With `raised_to` also what a raise would do, before anybody does it: nothing is changed.
    """
    members = budget_of(use.budget(services, caller, dataset_id), job_epsilon)
    if raised_to is not None:
        members["raised"] = _raised(members, raised_to, job_epsilon)
    return BudgetOut.model_validate(members)


def _raised(budget: dict[str, Any], epsilon: float, job_epsilon: float | None) -> RaisedOut:
    if epsilon < budget["epsilon"]:
        raise invalid("/query/raised_to", use.NEVER_LOWERED)
    left = budget["jobs_left"]
    if job_epsilon is not None:
        before, after = (
            jobs_within(whole, job_epsilon, budget["delta"])
            for whole in (budget["epsilon"], epsilon)
        )
        left += after - before
    warned = [WeakOut(code="weak_promise", detail=said) for said in warnings(epsilon)]
    return RaisedOut(epsilon=epsilon, jobs_left=left, warnings=warned)


@router.get("/budget")
def budgets(
    caller: Anyone,
    services: House,
    job_epsilon: JobEpsilon = None,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Listing[BudgetItem]:
    """Every visible dataset's budget with its history."""
    page = use.budgets(services, caller, limit, cursor)
    items = [
        BudgetItem.model_validate(
            {**budget_of(budget, job_epsilon), "history": [_step(p) for p in budget.history]}
        )
        for budget in page.items
    ]
    return Listing(items=items, next_cursor=page.next_cursor)


def _step(point: ledger.HistoryPoint) -> HistoryOut:
    return HistoryOut(
        at=point.at, job=point.job_id, kind=point.kind, epsilon_after=point.epsilon_after
    )


@router.get("/datasets/{id}/ledger")
def entries(
    caller: Overseer,
    services: House,
    dataset_id: DatasetId,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Listing[EntryOut]:
    """The ledger's entries, oldest first, each hashed with the one before."""
    page = use.entries(services, caller, dataset_id, limit, cursor)
    return Listing(items=[_entry(e) for e in page.items], next_cursor=page.next_cursor)


def _entry(entry: ledger.Entry) -> EntryOut:
    return EntryOut(
        seq=entry.seq,
        at=entry.at,
        kind=entry.kind,
        job=entry.job_id,
        analyst=entry.analyst_id,
        actor=entry.actor_id,
        event=entry.event,
        event_digest=entry.event_digest,
        cost=entry.cost,
        total=entry.total,
        details=entry.details,
        previous=entry.previous,
        hash=entry.hash,
    )


@router.post("/datasets/{id}/ledger/verify", openapi_extra=describe(VerifyIn, required=False))
def verify(
    caller: Overseer,
    services: House,
    dataset_id: DatasetId,
    body: Annotated[VerifyIn | None, Depends(read_any(VerifyIn))],
) -> VerificationOut:
    """Recompute chain and totals, and hold them against an end that was kept elsewhere."""
    verification, whose = use.verify(services, caller, dataset_id, anchor_of(body))
    return anchors.shown(services, verification, whose, body)
