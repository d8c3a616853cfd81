"""Datasets, their budgets and their ledgers."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Query, Request, Response

from app import ledger
from app.api import anchors
from app.api.anchors import anchor_of
from app.api.auth import Admin, Anyone, DatasetId, House, Overseer
from app.api.bodies import describe, parse, parsed, read, read_any
from app.api.endpoints import IdempotencyKey, Route, in_thread
from app.api.multipart import receive
from app.api.paging import DEFAULT_LIMIT, Cursor, Limit
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
    EntryOut,
    Epsilon,
    FormatIn,
    HistoryOut,
    HolderOut,
    HoldersIn,
    InspectIn,
    InspectOut,
    Listing,
    PrivacyOut,
    ProtectsOut,
    QuestionOut,
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
from app.services.datasets import records as use
from app.services.datasets import uploads
from app.services.datasets.inspect import inspect
from app.services.errors import Fault, Refusal
from app.storage.dialect import Dialect, Reading
from app.storage.rows import DatasetRow
from dpmcmc.base.names import ROW

router = APIRouter(prefix="/v1", tags=["datasets"], route_class=Route)


def _file_and(model: str, file: str, *required: str) -> dict[str, Any]:
    """What OpenAPI says of a body of a file and its metadata. file: its description."""
    properties = {
        "file": {"type": "string", "format": "binary", "description": file},
        "metadata": {"$ref": f"#/components/schemas/{model}"},
    }
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
NEVER_NULL = ("privacy", "archived", "available", "allotments")
JobEpsilon = Annotated[
    float | None,
    Query(
        gt=0,
        le=LARGEST_PROMISE,
        description="of jobs, at the dataset's delta, whose number is wanted",
    ),
]


def shown(
    found: use.Described,
    caller: Caller,
    seen: Sequence[uploads.Seen] = (),
    cut: tuple[int, int] = (0, 0),
) -> DatasetOut:
    """A dataset's public metadata; who may use it is told to admins only.

    seen, cut: for the answer to the upload, which only its admin gets.
    """
    row, balance = found.row, found.balance
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
        status=found.status,  # type: ignore[arg-type]
        unavailable=_set_aside(row) if caller.role == "admin" else None,
        created_at=row.created_at,
        grants=list(found.grants) if found.grants is not None and caller.role == "admin" else None,
        warnings=[
            *(WeakOut(code="weak_promise", detail=said) for said in warnings(balance.epsilon)),
            *(_warning(one) for one in seen),
            *_cut(cut),
        ],
        population=row.population,
        holders=[HolderOut.model_validate(one) for one in row.holders or ()],
        pool=row.pool_id,
        shares_ledger_with=row.ledger_id if caller.role in ("admin", "auditor") else None,
    )


def _cut(cut: tuple[int, int]) -> list[CutOut]:
    """What an admin is told about persons with more rows than are used."""
    persons, rows = cut
    if not persons:
        return []
    told = f"{persons:,} persons have more rows than max_rows: {rows:,} of their rows are not used"
    return [CutOut(code="rows_cut", detail=f"{told}. Nobody else is told.")]


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


def budget_of(found: use.Budget, job_epsilon: float | None = None) -> dict[str, Any]:
    """The members of a budget's answer. job_epsilon: of jobs whose number is wanted."""
    balance = found.balance

    def fit(left: float) -> int | None:
        return None if job_epsilon is None else jobs_within(left, job_epsilon, balance.delta)

    return {
        "dataset": balance.dataset_id,
        "neighbouring": balance.neighbouring,
        "protects": found.protects,
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
            for own in found.allotments
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
        definition = await parsed(_definition, bytes(upload.metadata))
        once = idempotency.once(key, "dataset", upload.digest)
        asked = (services, caller, definition, upload.sources, once)
        taken = await in_thread(uploads.create, *asked)
    finally:
        upload.close()
    response.headers["Location"] = f"/v1/datasets/{taken.dataset.row.id}"
    return shown(taken.dataset, caller, taken.seen, taken.cut)


@router.post("/datasets/inspect", openapi_extra=INSPECT)
async def look(_: Admin, services: House, request: Request) -> InspectOut:
    """Show how a file is written, its columns and its first five rows, before it is uploaded.

    Nothing of it is stored. Of a text file that is not in a zip file its first MiB is enough.
    """
    upload = await receive(request, services.settings.data_dir, ("file",))
    try:
        told = _metadata(InspectIn, bytes(upload.metadata) or b"{}")
        found = await in_thread(inspect, services, upload.sources[0], _dialect(told.format))
    finally:
        upload.close()
    return InspectOut(
        kind=found.kind,
        format=None if found.dialect is None else _format(found.dialect),
        questions=[QuestionOut(pointer=at, message=said) for at, said in found.questions],
        columns=[ColumnFound.model_validate(one) for one in found.columns],
        rows=[list(row) for row in found.rows],
    )


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


def _definition(text: bytes) -> uploads.Definition:
    metadata = _metadata(DatasetIn, text)
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
    )


def _format(found: Dialect) -> FormatIn:
    return FormatIn(**{**asdict(found), "missing": list(found.missing)})


def _dialect(told: FormatIn) -> Dialect:
    return Dialect(**{**told.model_dump(), "missing": tuple(told.missing)})


def _unit(told: UnitIn | str | None) -> dict[str, Any] | str | None:
    return told.model_dump() if isinstance(told, UnitIn) else told


def _holders(told: HoldersIn | None) -> uploads.Holders | None:
    return None if told is None else uploads.Holders(tuple(told.names), told.column)


@router.get("/datasets")
def datasets(
    caller: Anyone, services: House, limit: Limit = DEFAULT_LIMIT, cursor: Cursor = None
) -> Listing[DatasetOut]:
    """The datasets that you may see, newest first."""
    page = use.datasets(services, caller, limit, cursor)
    items = [shown(found, caller) for found in page.items]
    return Listing(items=items, next_cursor=page.next_cursor)


@router.get("/datasets/{id}")
def dataset(caller: Anyone, services: House, dataset_id: DatasetId) -> DatasetOut:
    """One dataset's public metadata."""
    return shown(use.dataset(services, caller, dataset_id), caller)


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
def destroy(caller: Admin, services: House, dataset_id: DatasetId) -> None:
    """Destroy the stored rows and their key. Metadata and ledger stay."""
    use.destroy(services, caller, dataset_id)


@router.get("/datasets/{id}/budget")
def budget(
    caller: Anyone, services: House, dataset_id: DatasetId, job_epsilon: JobEpsilon = None
) -> BudgetOut:
    """What is spent, reserved and left, and with `job_epsilon` for how many such jobs."""
    found = use.budget(services, caller, dataset_id)
    return BudgetOut.model_validate(budget_of(found, job_epsilon))


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
            {**budget_of(found, job_epsilon), "history": [_step(p) for p in found.history]}
        )
        for found in page.items
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
    found, whose = use.verify(services, caller, dataset_id, anchor_of(body))
    return anchors.shown(services, found, whose, body)
