"""Uploads: taken in whole or not at all, and held against everything that was uploaded before."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, BinaryIO
from uuid import UUID, uuid4

from sqlalchemy import select
from sqlalchemy.orm import Session

from dpmcmc.privacy.filter import FilterTerms
from dpmcmc.privacy.types import Neighbouring
from dpmcmc_service import ledger
from dpmcmc_service.jobs.caller import Caller
from dpmcmc_service.jobs.datasets import Described, check_users, described, grant
from dpmcmc_service.jobs.errors import Fault, Refusal, invalid
from dpmcmc_service.jobs.promises import TOO_LIKELY, senseless
from dpmcmc_service.jobs.rewind import refuse_rewound
from dpmcmc_service.jobs.services import Services
from dpmcmc_service.jobs.trail import note
from dpmcmc_service.storage.columns import columns_json, parse_columns
from dpmcmc_service.storage.errors import IngestError, StoreError
from dpmcmc_service.storage.fingerprint import Fingerprint, Likeness, likeness
from dpmcmc_service.storage.ingest import ingest
from dpmcmc_service.storage.limits import Limits
from dpmcmc_service.storage.locks import UPLOADS, take
from dpmcmc_service.storage.rows import DatasetRow, FingerprintRow
from dpmcmc_service.storage.types import utc_now

PARQUET_MAGIC = b"PAR1"
UPLOAD_REFUSED = "The upload cannot be taken; nothing was stored."
MOST_NAMED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """What an admin declares about an upload. population: whom the rows are about."""

    name: str
    description: str
    columns: Sequence[Mapping[str, Any]]
    neighbouring: str
    epsilon: float
    delta: float
    gdp_weight: float = 1.0
    renyi: tuple[tuple[float, float], ...] = ()
    failure_weight: float = 0.0
    grants: Sequence[UUID] | None = None
    population: str | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """An earlier dataset with another budget that an upload is like."""

    dataset_id: UUID
    destroyed: bool
    like: Likeness


@dataclass(frozen=True, slots=True)
class Taken:
    """What was taken in. seen: for its admin only."""

    dataset: Described
    seen: Sequence[Seen]


def create(services: Services, caller: Caller, definition: Definition, file: BinaryIO) -> Taken:
    """Take an upload in: the encrypted file first, then record and ledger in one transaction.

    Raises Refusal 422; its counts per column are for the uploading admin only.
    """
    terms = _terms(definition)
    with services.sessions.read() as session:
        check_users(session, definition.grants, "/metadata/grants")
        _first_of(services, session, definition.population, terms)
    dataset_id = uuid4()
    try:
        columns = parse_columns([dict(column) for column in definition.columns])
        sketch = services.vault.fingerprints.start(columns)
        stored = ingest(
            services.vault.files,
            dataset_id,
            file,
            _format(file),
            columns,
            Limits(file_bytes=services.settings.max_upload_bytes),
            sketch,
        )
    except IngestError as error:
        raise _refused(error) from None
    row = DatasetRow(
        id=dataset_id,
        name=definition.name,
        description=definition.description,
        columns=columns_json(columns),
        rows=stored.rows,
        neighbouring=definition.neighbouring,
        restricted=definition.grants is not None,
        wrapped_key=stored.wrapped_key,
        population=definition.population,
        created_by=caller.id,
        created_at=utc_now(),
    )
    try:
        if senseless(definition.delta, row.rows):  # how many they are is known only now
            raise invalid("/metadata/privacy/delta", TOO_LIKELY.format(rows=row.rows))
        return _record(services, caller, row, terms, definition.grants, sketch.fingerprint())
    except BaseException:
        with suppress(StoreError):  # the sweep deletes what stays
            services.vault.files.destroy(dataset_id)
        raise


def _terms(definition: Definition) -> FilterTerms:
    try:
        return FilterTerms(
            definition.epsilon,
            definition.delta,
            Neighbouring(definition.neighbouring),
            definition.gdp_weight,
            definition.renyi,
            basic=True,  # needs no share of delta: docs/proofs/filter.md, section 2
            failure_weight=definition.failure_weight,
        )
    except ValueError:
        raise invalid("/metadata/privacy", "This budget cannot be kept.") from None


def _record(
    services: Services,
    caller: Caller,
    row: DatasetRow,
    terms: FilterTerms,
    grants: Sequence[UUID] | None,
    made: Fingerprint,
) -> Taken:
    looked_at = _Earlier(services)
    with services.sessions.read() as session:
        looked_at.compare(session, made)  # most of it before anybody has to wait
    with services.sessions.write() as session:
        take(session, UPLOADS)
        _open(services, session, caller, row, terms)
        looked_at.compare(session, made)
        seen = looked_at.on_other_ledgers(row)
        sealed = services.vault.fingerprints.seal(row.id, made)
        session.add(FingerprintRow(dataset_id=row.id, sealed=sealed))
        if grants is not None:
            grant(session, caller, row.id, grants)
        found = described(session, row)
        note(
            session,
            caller,
            "dataset.create",
            row.id,
            name=row.name,
            rows=row.rows,
            epsilon=terms.epsilon,
            delta=terms.delta,
            population=row.population,
        )
        if seen:
            told = [_plain(one) for one in seen]
            note(session, caller, "dataset.rows_seen_before", row.id, like=told)
        return Taken(found, seen)


def _open(
    services: Services, session: Session, caller: Caller, row: DatasetRow, terms: FilterTerms
) -> None:
    """A ledger of its own, or that of the dataset's population."""
    first = _first_of(services, session, row.population, terms)
    row.ledger_id = first
    session.add(row)
    if first is None:
        ledger.open_account(session, row.id, terms, caller.id)
    else:
        session.flush()
        ledger.amend(session, row.id, "join", {"rows": row.rows}, caller.id)


def _first_of(
    services: Services, session: Session, population: str | None, terms: FilterTerms
) -> UUID | None:
    """The dataset that holds a population's ledger. Raises Refusal 422 for another budget."""
    if population is None:
        return None
    first = session.scalar(
        select(DatasetRow.id).where(
            DatasetRow.population == population, DatasetRow.ledger_id.is_(None)
        )
    )
    if first is None:
        return None
    refuse_rewound(session, services, first)
    kept = ledger.terms_of(session, first)
    for name in ("epsilon", "delta"):
        if getattr(kept, name) != getattr(terms, name):
            raise invalid(
                f"/metadata/privacy/{name}",
                f"The datasets of this population share one budget: its {name} is"
                f" {getattr(kept, name)!r}. Declare the same, or raise it by PATCH first.",
            )
    if replace(kept, basic=terms.basic) != terms:
        raise invalid(
            "/metadata/privacy",
            "The datasets of this population share one budget: declare its branches.",
        )
    return first


class _Earlier:
    """The uploads before, each compared once."""

    def __init__(self, services: Services) -> None:
        self._fingerprints = services.vault.fingerprints
        self._compared: set[UUID] = set()
        self._alike: list[tuple[DatasetRow, Likeness]] = []

    def compare(self, session: Session, made: Fingerprint) -> None:
        """Look at those that were not there at the last look."""
        known = select(FingerprintRow.dataset_id)
        for dataset_id in set(session.scalars(known)) - self._compared:
            self._compared.add(dataset_id)
            stored = session.get_one(FingerprintRow, dataset_id)
            like = likeness(made, self._fingerprints.open(dataset_id, stored.sealed))
            if like is not None:
                self._alike.append((session.get_one(DatasetRow, dataset_id), like))

    def on_other_ledgers(self, row: DatasetRow) -> list[Seen]:
        """Those whose budget the upload does not share: the most alike first, then the oldest."""
        own = row.ledger_id or row.id
        found = [one for one in self._alike if (one[0].ledger_id or one[0].id) != own]
        found.sort(key=lambda one: (-one[1].share, one[0].created_at))
        return [
            Seen(other.id, other.destroyed_at is not None, like)
            for other, like in found[:MOST_NAMED]
        ]


def _plain(seen: Seen) -> Mapping[str, Any]:
    return {
        "dataset": str(seen.dataset_id),
        "destroyed": seen.destroyed,
        "kind": seen.like.kind,
        "share": round(seen.like.share, 2),
    }


def _format(file: BinaryIO) -> Any:
    file.seek(0)
    magic = file.read(len(PARQUET_MAGIC))
    file.seek(0)
    return "parquet" if magic == PARQUET_MAGIC else "csv"


def _refused(error: IngestError) -> Refusal:
    """An upload's faults. Places among the declared columns lie in the metadata."""
    found = [
        Fault(place if place.startswith("/file") else f"/metadata{place}", message)
        for place, message in error.problems
    ]
    return Refusal(422, error.code, UPLOAD_REFUSED, found)
