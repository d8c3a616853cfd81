"""Snapshots: datasets read from a source that the operator has configured.

They go the way of an upload, with the same checks, and are registered whole or not at all.
"""

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from uuid import UUID

from sqlalchemy import select

from app import ledger, logs
from app.services.accounts.access import visible_dataset
from app.services.accounts.caller import Caller
from app.services.context import Services
from app.services.datasets import uploads
from app.services.datasets.uploads import Definition, Taken
from app.services.errors import Fault, Refusal, invalid
from app.services.idempotency import Once
from app.storage.dialect import Dialect, Reading
from app.storage.errors import SourceError
from app.storage.read_source import Progress, Snapshot
from app.storage.rows import DatasetRow, GrantRow
from app.storage.sources import Item, Source, SourcesFileError, sources_in

MOST_AT_ONCE = 2  # of one process
_places = threading.BoundedSemaphore(MOST_AT_ONCE)


def offered(services: Services) -> Mapping[str, Source]:
    """Return the configured sources, by name. Raises Refusal 503."""
    try:
        return sources_in(services.settings.sources)
    except SourcesFileError as error:
        logs.logger().error("sources_unreadable", reason=error.args[0])
        detail = "The file of sources cannot be used; its operator must mend it."
        raise Refusal(503, "source_unavailable", detail) from None


def create(
    services: Services,
    caller: Caller,
    definition: Definition,
    name: str,
    item: Item,
    progress: Progress,
    once: Once | None = None,
) -> Taken:
    """Create a dataset from a source's present rows. Raises Refusal 409, 422, 429 and 503."""
    if definition.reading.dialect != Dialect():
        raise invalid("/metadata/format", "a source is no text file: leave it out")
    if definition.holders is not None and definition.holders.column is None:
        raise invalid("/metadata/holders/column", "name the column that says whose a row is")
    reading = definition.reading
    source = {
        "name": name,
        **item.model_dump(exclude_none=True),
        "skip": list(reading.skip),
        "skip_undeclared": reading.skip_undeclared,
    }
    definition = replace(definition, source=source)
    return _taken(services, caller, lambda: definition, name, item, progress, once)


def refresh(
    services: Services,
    caller: Caller,
    dataset_id: UUID,
    new_name: str | None,
    progress: Progress,
    once: Once | None = None,
) -> Taken:
    """Create a dataset's next version from its source, on the same ledger.

    Raises Refusal 404, 409, 422, 429 and 503.
    """
    with services.sessions.read() as session:
        row = visible_dataset(session, caller, dataset_id)
        if row.source is None:
            raise Refusal(409, "not_a_snapshot", "This dataset was uploaded: upload it again.")
        source = dict(row.source)
    item = Item(**{name: source.get(name) for name in ("table", "query", "path")})

    def next_version() -> Definition:
        """Return the definition of the next version."""
        return _next(services, caller, dataset_id, new_name)

    return _taken(services, caller, next_version, source["name"], item, progress, once)


def _next(services: Services, caller: Caller, dataset_id: UUID, new_name: str | None) -> Definition:
    """Return the definition of a dataset's next version. Raises Refusal 404 and 409."""
    with services.sessions.read() as session:
        row = visible_dataset(session, caller, dataset_id)
        if row.destroyed_at is not None:
            raise Refusal(409, "dataset_destroyed", "The rows of this dataset were destroyed.")
        if row.holders or row.pool_id is not None:
            detail = "A dataset of several data holders has several ledgers: register it anew."
            raise Refusal(409, "not_a_snapshot", detail)
        uploads.check_newest(session, dataset_id)
        terms = ledger.terms_of(session, row.id)
        grants = select(GrantRow.user_id).where(GrantRow.dataset_id == row.id)
        source, version, before = row.source or {}, 2, row.refreshes
        while before is not None:
            version, before = version + 1, session.get_one(DatasetRow, before).refreshes
        ending = f", version {version}"
        base = re.sub(r", version [0-9]+$", "", row.name)[: uploads.MAX_NAME - len(ending)]
        return Definition(
            name=new_name or base + ending,
            description=row.description,
            columns=row.columns,
            neighbouring=row.neighbouring,
            epsilon=terms.epsilon,
            delta=terms.delta,
            gdp_weight=terms.gdp_weight,
            renyi=terms.renyi,
            failure_weight=terms.failure_weight,
            grants=session.scalars(grants).all() if row.restricted else None,
            population=row.population,
            shares_ledger_with=row.id,
            privacy_unit=row.privacy_unit,
            reading=Reading(skip=tuple(source["skip"]), skip_undeclared=source["skip_undeclared"]),
            source=source,
            refreshes=row.id,
        )


def _taken(
    services: Services,
    caller: Caller,
    define: Callable[[], Definition],
    name: str,
    item: Item,
    progress: Progress,
    once: Once | None,
) -> Taken:
    """Ingest a source's rows as a dataset."""
    source = offered(services).get(name)
    if source is None:
        raise invalid("/source/name", "There is no such source.")
    with _place(), _source_errors(name):
        earlier = uploads.made_before(services, caller, once)
        snapshot = Snapshot(source, item, progress)
        return earlier or uploads.create(services, caller, define(), [snapshot], once)


@contextmanager
def _place() -> Iterator[None]:
    """Hold one of a few ingestion slots. Raises Refusal 429."""
    if not _places.acquire(blocking=False):
        raise Refusal(429, "too_many_snapshots", "Other snapshots are being taken; try again soon.")
    try:
        yield
    finally:
        _places.release()


@contextmanager
def _source_errors(name: str) -> Iterator[None]:
    """Translate errors of a source or its rows into Refusal."""
    try:
        yield
    except SourceError as error:
        if error.code != "not_offered":
            logs.logger().warning("source_failed", source=name, reason=error.reason)
        raise _refused(name, error) from None
    except Refusal as refusal:
        refusal.errors = [_at_source(fault) for fault in refusal.errors]
        raise


def _refused(name: str, error: SourceError) -> Refusal:
    """Return the refusal for a source error."""
    if error.code == "not_offered":
        return invalid(f"/source{error.pointer}", error.message)
    detail = f"Source {name}: {error.message}. Nothing was registered."
    if error.code == "source_changed":
        return Refusal(409, "source_changed", detail)
    if error.code == "stopped":
        return Refusal(503, "unavailable", detail)
    return Refusal(503, "source_unavailable", detail)


def _at_source(fault: Fault) -> Fault:
    """Return a fault with its pointer moved from the file to the source."""
    if not fault.pointer.startswith("/file"):
        return fault
    return Fault(f"/source{fault.pointer.removeprefix('/file')}", fault.message)
