"""Sources that the operator has configured, and datasets that are snapshots of them."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from sqlalchemy.exc import InterfaceError, OperationalError
from starlette.concurrency import run_in_threadpool

from app import logs
from app.api.auth import Admin, DatasetId, House, StreamPlaces
from app.api.bodies import describe, read, read_any
from app.api.endpoints import IdempotencyKey, Route, in_thread
from app.api.formats import JSON, negotiate
from app.api.limits import Places
from app.api.problems import of_status, problem
from app.api.routes.datasets import defined, shown
from app.api.schemas import DatasetOut, Listing, ReadOut, RefreshIn, SnapshotIn, SourceOut
from app.api.sse import ALIVE_SECONDS, EventStream, event
from app.services import idempotency
from app.services.accounts.caller import Caller
from app.services.datasets import snapshots
from app.services.datasets.uploads import Taken
from app.services.errors import Refusal
from app.storage.errors import StoreAwayError
from app.storage.read_source import Progress
from app.storage.sources import Item

router = APIRouter(prefix="/v1", tags=["datasets"], route_class=Route)
EVENTS, LOOK_SECONDS = "text/event-stream", 0.5
STREAM = """With `Accept: text/event-stream`, server-sent events: `event: progress` has data \
`{"rows": ...}` (ReadOut), the rows read so far; the last one is `event: dataset` (DatasetOut) or \
`event: problem` (Problem). Who leaves before it stops the snapshot, and nothing is registered."""
CONTENT = {"schema": {"description": "events as text", "x-item-schema": {"type": "object"}}}
RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"description": STREAM, "content": {EVENTS: CONTENT}}
}
AWAY = (StoreAwayError, OperationalError, InterfaceError)
Take = Callable[[Progress], Taken]


@router.get("/sources")
def sources(_: Admin, services: House) -> Listing[SourceOut]:
    """The sources of which admins may take snapshots, and what they offer."""
    items = [
        SourceOut(
            name=name,
            kind=source.kind,
            tables=list(getattr(source, "tables", ())),
            queries=sorted(getattr(source, "queries", ())),
        )
        for name, source in sorted(snapshots.offered(services).items())
    ]
    return Listing(items=items, next_cursor=None)


@router.post(
    "/datasets/snapshots",
    status_code=201,
    response_model=DatasetOut,
    responses=RESPONSES,
    openapi_extra=describe(SnapshotIn),
)
async def snapshot(
    caller: Admin,
    services: House,
    places: StreamPlaces,
    request: Request,
    body: Annotated[SnapshotIn, Depends(read(SnapshotIn))],
    key: IdempotencyKey = None,
) -> Response:
    """Register what a source has now as a dataset, as an upload of the same rows would be."""
    item = Item(**body.source.model_dump(exclude={"name"}))
    once = idempotency.once(key, "snapshot", body.model_dump(mode="json"))
    given = (services, caller, defined(body.metadata), body.source.name, item)
    return await _answer(
        request, caller, places, lambda progress: snapshots.create(*given, progress, once)
    )


@router.post(
    "/datasets/{id}/refresh",
    status_code=201,
    response_model=DatasetOut,
    responses=RESPONSES,
    openapi_extra=describe(RefreshIn, required=False),
)
async def refresh(
    caller: Admin,
    services: House,
    places: StreamPlaces,
    request: Request,
    dataset_id: DatasetId,
    body: Annotated[RefreshIn | None, Depends(read_any(RefreshIn))],
    key: IdempotencyKey = None,
) -> Response:
    """Register what a dataset's source has now as its next version, on the same ledger.

    Columns, persons, grants and the budget stay those of the dataset: all that is released of all
    versions together costs a person who is in several of them no more than the budget.
    """
    name = None if body is None else body.name
    once = idempotency.once(key, "refresh", str(dataset_id), name)
    given = (services, caller, dataset_id, name)
    return await _answer(
        request, caller, places, lambda progress: snapshots.refresh(*given, progress, once)
    )


async def _answer(request: Request, caller: Caller, places: Places, take: Take) -> Response:
    """The dataset once it is there, or events until then, as the request accepts."""
    kind = negotiate(",".join(request.headers.getlist("accept")), (JSON, EVENTS))
    if kind is None:
        raise of_status(406, f"A snapshot is answered as {JSON} or {EVENTS}.")
    stopping, left = request.app.state.stopping, threading.Event()
    progress = Progress(lambda: stopping.is_set() or left.is_set())
    if kind == EVENTS:
        places.take(caller.id)

        def over() -> None:
            places.leave(caller.id)
            left.set()

        return EventStream(_events(caller, take, progress), over)
    taken = await in_thread(take, progress)
    headers = {"Location": f"/v1/datasets/{taken.dataset.row.id}"}
    made = shown(taken.dataset, caller, taken.seen, taken.cut)
    return Response(made.model_dump_json(), 201, headers, JSON)


async def _events(caller: Caller, take: Take, progress: Progress) -> AsyncIterator[bytes]:
    """How far a snapshot is, until it is registered or refused."""
    taking = asyncio.ensure_future(run_in_threadpool(take, progress))
    taking.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    rows, silent = -1, 0.0
    try:
        while not (await asyncio.wait({taking}, timeout=LOOK_SECONDS))[0]:
            silent += LOOK_SECONDS
            if progress.rows != rows:
                rows, silent = progress.rows, 0.0
                yield event("progress", ReadOut(rows=rows).model_dump())
            elif silent >= ALIVE_SECONDS:
                silent = 0.0
                yield b": still here\n\n"
        taken = taking.result()
        made = shown(taken.dataset, caller, taken.seen, taken.cut)
        yield event("dataset", made.model_dump(mode="json"))
    except Refusal as refusal:
        yield _refused(refusal)
    except Exception as error:  # the answer has begun: what another would say is an event of it
        logs.logger().error("unhandled", exception=type(error).__name__, where=logs.where(error))
        yield _refused(of_status(503 if isinstance(error, AWAY) else 500))


def _refused(refusal: Refusal) -> bytes:
    return event("problem", json.loads(bytes(problem(refusal).body)))
