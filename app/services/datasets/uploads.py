"""Uploads: ingested atomically, and compared with the fingerprints of all earlier uploads."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import func, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app import ledger
from app.services.accounts.caller import Caller
from app.services.audit.trail import note
from app.services.budgets.rewind import refuse_rewound
from app.services.context import Services
from app.services.datasets.records import (
    Described,
    check_users,
    grant,
    in_use,
    units_on,
    with_namesakes,
)
from app.services.datasets.stored_rows import check_store
from app.services.errors import Fault, Refusal, invalid
from app.services.idempotency import Once
from app.storage.columns import columns_json, parse_columns, unit_of
from app.storage.dialect import Reading
from app.storage.errors import IngestError, StoreError
from app.storage.fingerprint import Fingerprint, Likeness, likeness
from app.storage.ingest import (
    Format,
    Input,
    Stored,
    StoredUnits,
    ingest,
    ingest_apart,
    ingest_by_unit,
)
from app.storage.limits import Limits
from app.storage.locks import UPLOADS, take
from app.storage.read_source import Snapshot
from app.storage.rows import DatasetRow, FingerprintRow
from app.storage.types import utc_now
from dpmcmc.base.private import Neighbouring
from dpmcmc.inputs.schema import CategoryColumn, Column, PrivacyUnit
from dpmcmc.privacy.filter import FilterTerms
from dpmcmc.privacy.promises import refusal

PARQUET_MAGIC = b"PAR1"
SEEN_REFUSED = "These rows or persons were here before, and cannot share the budget that they have."
ANOTHER_BUDGET = "The rows are largely those of a dataset whose budget is not this population's."
ANOTHER_RELATION = "The ledger that would be shared promises for another relation of neighbours."
ANOTHER_PERSONS = "Persons of this upload are in a dataset whose budget is not this population's."
SEVERAL_LEDGERS = (
    "Persons of this upload are in datasets of {number} ledgers: name one of these datasets in"
    " shares_ledger_with."
)
STRICTER = (
    "The ledger that would be shared allows {name} {kept!r}: a smaller promise cannot be kept."
)
ANOTHER_UNIT = (
    "The ledger that would be shared protects by {kept!r}, and this dataset by {named!r}: the two"
    " promises do not add up."
)
SAY_WHY = "Declare the same, or say in separate_budget why they get another budget."
UPLOAD_REFUSED = "The upload cannot be taken; nothing was stored."
NAME_IN_USE = "A dataset in use has this name: give another name, or archive that dataset."
NEWER = "There is a later version of this dataset: refresh that one."
MOST_NAMED = 20
MAX_NAME = 200


@dataclass(frozen=True, slots=True)
class Holders:
    """The data holders of the rows: a column that names them, or one file for each."""

    names: tuple[str, ...]
    column: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """An admin's declaration of an upload. population: whom the rows are about.

    separate_budget: why rows that were here before get a budget besides the earlier one.
    shares_ledger_with: a dataset whose ledger and budget these rows are to have. privacy_unit:
    {column, max_rows} where a person may have several rows, "row" where none has; None: not said.
    reading: how the file is written, and which of its columns are left out. source: of what the
    rows are a snapshot. refreshes: the dataset whose next version this is. unique_name: whether to
    refuse the name of a dataset in use.
    """

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
    separate_budget: str | None = None
    shares_ledger_with: UUID | None = None
    holders: Holders | None = None
    privacy_unit: Mapping[str, Any] | str | None = None
    reading: Reading = field(default_factory=Reading)
    source: Mapping[str, Any] | None = None
    refreshes: UUID | None = None
    unique_name: bool = False


@dataclass(frozen=True, slots=True)
class Seen:
    """An earlier dataset similar to an upload. shared: whether they share a ledger."""

    dataset_id: UUID
    ledger_id: UUID
    destroyed: bool
    like: Likeness
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Taken:
    """The created dataset. seen, cut: similar uploads and dropped rows, for the admin only.

    cut: of persons with more rows than max_rows, how many there are and how many rows they lost.
    """

    dataset: Described
    seen: Sequence[Seen]
    cut: tuple[int, int] = (0, 0)


def create(
    services: Services,
    caller: Caller,
    definition: Definition,
    files: Sequence[Input],
    once: Once | None = None,
) -> Taken:
    """Ingest an upload: encrypted files first, then records in one transaction.

    files: one, or a snapshot; or one of each data holder, in the order of their names. once: the
    request, where it is not to make another dataset when it is sent again.
    Raises Refusal 422; its counts per column are for the uploading admin only.
    """
    if (earlier := made_before(services, caller, once)) is not None:
        return earlier
    try:
        return _created(services, caller, definition, files, once)
    except (IntegrityError, Refusal):
        if (earlier := made_before(services, caller, once)) is not None:
            return earlier  # by the same request, sent twice at once
        raise


def made_before(services: Services, caller: Caller, once: Once | None) -> Taken | None:
    """Return the dataset that an idempotent request created before. Raises Refusal 422."""
    if once is None:
        return None
    with services.sessions.read() as session:
        record = once.made(session, caller)
        if record is None:
            return None
        row = session.get_one(DatasetRow, record.made_id)
        return Taken(with_namesakes(session, caller, row), ())


def _created(
    services: Services,
    caller: Caller,
    definition: Definition,
    files: Sequence[Input],
    once: Once | None,
) -> Taken:
    """Ingest the files and record the dataset."""
    terms = _terms(definition)
    _check_files(definition, len(files))
    check_store(services)
    with services.sessions.read() as session:
        check_users(session, definition.grants, "/metadata/grants")
        _check_name(session, definition)  # and again once the rows are there
        _first_of(services, session, definition.population, terms)
        if definition.shares_ledger_with is not None:
            named = _ledger_named(session, definition.shares_ledger_with)
            _check_promise(services, session, named, terms)
    names = definition.holders.names if definition.holders else ()
    if not names or _by_person(definition):
        names = ("", *names)  # all rows, and then those of each holder: docs/proofs/units.md
    ids = [uuid4() for _ in names]
    try:
        columns, stored, made = _ingested(services, definition, ids, files)
        cut = [
            (file.cut_units, file.dropped_rows) for file in stored if isinstance(file, StoredUnits)
        ]
        rows = [
            _row(definition, caller, columns, at, name, file.rows, file.wrapped_key)
            for at, name, file in zip(ids, names, stored, strict=True)
        ]
        pool = _pool(services, definition, caller, columns, rows) if names[0] else None
        services.vault.files.mark(services.sessions.installation)
        taken = _record(services, caller, pool, rows, terms, definition, made, once)
        return replace(taken, cut=cut[0]) if cut else taken
    except BaseException:
        for dataset_id in ids:
            with suppress(StoreError):  # the sweep deletes what stays
                services.vault.files.destroy(dataset_id)
        raise


def check_newest(session: Session, dataset_id: UUID) -> None:
    """Refuse to refresh a dataset that has a later version. Raises Refusal 409."""
    later = select(DatasetRow.id).where(
        DatasetRow.refreshes == dataset_id, DatasetRow.destroyed_at.is_(None)
    )
    version = session.scalar(later.limit(1))
    if version is not None:
        raise Refusal(409, "dataset_refreshed", NEWER, (), {"dataset": str(version)})


def _check_name(session: Session, definition: Definition) -> None:
    """Refuse a name in use, if the caller wants a unique one. Raises Refusal 409."""
    if not definition.unique_name:
        return
    holders = definition.holders.names if definition.holders else ()
    names = [_name(definition, name) for name in ("", *holders)]
    if others := in_use(session, names):
        raise Refusal(409, "name_taken", NAME_IN_USE, (), {"dataset": str(others[0])})


def _check_files(definition: Definition, number: int) -> None:
    """Refuse undeclared or missing files, and names that are too long."""
    holders = definition.holders
    wanted = 1 if holders is None or holders.column is not None else len(holders.names)
    if number != wanted:
        raise invalid("/file", f"{wanted} needed by the metadata, {number} came")
    if holders is None:
        return
    if definition.population is not None and not _by_person(definition):
        message = "a pooled dataset and its holders have ledgers of their own: leave it out"
        raise invalid("/metadata/population", message)
    for at, name in enumerate(holders.names):
        if len(_name(definition, name)) > MAX_NAME:
            message = f"at most {MAX_NAME} characters together with the dataset's name"
            raise invalid(f"/metadata/holders/names/{at}", message)


def _ingested(
    services: Services, definition: Definition, ids: Sequence[UUID], files: Sequence[Input]
) -> tuple[tuple[Column, ...], Sequence[Stored], list[Fingerprint]]:
    """Parse and encrypt the rows of each dataset, and fingerprint them. Raises Refusal."""
    limits = Limits(file_bytes=services.settings.max_upload_bytes)
    vault, holders = services.vault, definition.holders
    apart: dict[str, str] = {}  # where faults are of columns that are not stored
    reading = definition.reading
    unit = unit_of(definition.privacy_unit)
    try:
        columns = parse_columns([dict(column) for column in definition.columns])
        sketches = [vault.fingerprints.start(columns) for _ in ids]
        owner = None
        if holders is not None and holders.column is not None:
            owner = CategoryColumn(name=holders.column, categories=holders.names)
        named = {"/privacy_unit/column": _by_person(definition), "/holders/column": owner}
        behind = [place for place, there in named.items() if there]
        apart = {f"/columns/{len(columns) + at}": place for at, place in enumerate(behind)}
        stored: Sequence[Stored]
        if isinstance(unit, PrivacyUnit):
            sources = [(file, kind_of(file)) for file in files]
            stored = ingest_by_unit(
                vault.files, ids, sources, columns, unit, limits, sketches, reading, owner
            )
        elif owner is not None:
            kind, source = kind_of(files[0]), files[0]
            stored = ingest_apart(
                vault.files, ids, source, kind, columns, owner, limits, sketches, reading
            )
        else:
            stored = [
                ingest(
                    vault.files, dataset_id, file, kind_of(file), columns, limits, sketch, reading
                )
                for dataset_id, file, sketch in zip(ids, files, sketches, strict=True)
            ]
    except IngestError as error:
        raise refused(error, apart) from None
    return columns, stored, [sketch.fingerprint() for sketch in sketches]


def _by_person(definition: Definition) -> bool:
    """Return whether one person may have several rows."""
    return isinstance(unit_of(definition.privacy_unit), PrivacyUnit)


def _name(definition: Definition, holder: str) -> str:
    """Return a holder's dataset name."""
    return f"{definition.name}/{holder}" if holder else definition.name


def _row(
    definition: Definition,
    caller: Caller,
    columns: Sequence[Column],
    dataset_id: UUID,
    holder: str,
    rows: int,
    wrapped_key: bytes,
) -> DatasetRow:
    """Return the record of one dataset."""
    return DatasetRow(
        id=dataset_id,
        name=_name(definition, holder),
        description=definition.description,
        columns=columns_json(columns),
        rows=rows,
        neighbouring=definition.neighbouring,
        restricted=definition.grants is not None,
        wrapped_key=wrapped_key,
        population=definition.population,
        created_by=caller.id,
        created_at=utc_now(),
        privacy_unit=definition.privacy_unit,
        source=None if definition.source is None else dict(definition.source),
        refreshes=definition.refreshes,
    )


def _pool(
    services: Services,
    definition: Definition,
    caller: Caller,
    columns: Sequence[Column],
    rows: Sequence[DatasetRow],
) -> DatasetRow:
    """Return the pooled dataset of several holders. Its key decrypts nothing."""
    at, count = uuid4(), sum(row.rows for row in rows)
    key = services.vault.files.new_key(at)[1]
    pool = _row(definition, caller, columns, at, "", count, key)
    named = definition.holders.names if definition.holders else ()
    pool.holders = [
        {"dataset": str(row.id), "name": name, "rows": row.rows}
        for name, row in zip(named, rows, strict=True)
    ]
    for row in rows:
        row.pool_id = at
    return pool


def _terms(definition: Definition) -> FilterTerms:
    """Return the privacy guarantee that the upload declares."""
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
    pool: DatasetRow | None,
    rows: Sequence[DatasetRow],
    terms: FilterTerms,
    definition: Definition,
    made: Sequence[Fingerprint],
    once: Once | None,
) -> Taken:
    """Write the records. pool: of several holders. rows, made: of each holder's dataset."""
    compared = rows if pool is not None else rows[:1]  # whose rows the others have
    looked_at = [_Earlier(services) for _ in compared]
    with services.sessions.read() as session:
        for earlier, mine in zip(looked_at, made[: len(compared)], strict=True):
            earlier.compare(session, mine)  # most of it before anybody has to wait
    similar: list[Seen] = []
    with services.sessions.write() as session:
        take(session, UPLOADS)
        if definition.refreshes is not None:
            check_newest(session, definition.refreshes)
        if once is not None:
            once.remember(session, caller, (pool or rows[0]).id)
        _check_name(session, definition)
        if pool is not None:
            _new(services, session, caller, pool, terms, definition)
        for row, earlier, mine in zip(compared, looked_at, made[: len(compared)], strict=True):
            earlier.compare(session, mine)
            similar += _new(services, session, caller, row, terms, definition, earlier.alike())
        of_all = replace(definition, shares_ledger_with=rows[0].id)
        for row in rows[len(compared) :]:
            _new(services, session, caller, row, terms, of_all)
        for row, mine in zip(rows, made, strict=True):
            sealed = services.vault.fingerprints.seal(row.id, mine)
            session.add(FingerprintRow(dataset_id=row.id, sealed=sealed))
        return Taken(with_namesakes(session, caller, pool or rows[0]), similar)


def _new(
    services: Services,
    session: Session,
    caller: Caller,
    row: DatasetRow,
    terms: FilterTerms,
    definition: Definition,
    alike: Sequence[Seen] = (),
) -> Sequence[Seen]:
    """Write a dataset's record, ledger and grants. alike: similar earlier uploads.

    Returns those that the uploading admin is to know of.
    """
    similar = _open(services, session, caller, row, terms, definition, alike)
    if definition.grants is not None:
        grant(session, caller, row.id, definition.grants)
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
        **_origin(row),
    )
    if similar:
        recorded: dict[str, Any] = {"like": [_plain(earlier) for earlier in similar]}
        if row.ledger_id is not None:
            recorded["shares_ledger_with"] = str(row.ledger_id)
        if definition.separate_budget is not None:
            recorded["separate_budget"] = definition.separate_budget
        note(session, caller, "dataset.rows_seen_before", row.id, **recorded)
    return similar


def _origin(row: DatasetRow) -> dict[str, Any]:
    """Return a snapshot's source and predecessor, for the audit trail."""
    origin = {"source": row.source, "refreshes": row.refreshes and str(row.refreshes)}
    return {name: value for name, value in origin.items() if value is not None}


def _open(
    services: Services,
    session: Session,
    caller: Caller,
    row: DatasetRow,
    terms: FilterTerms,
    definition: Definition,
    alike: Sequence[Seen],
) -> Sequence[Seen]:
    """Open or join a ledger: its own, its population's, or that of equal earlier rows."""
    first = _first_of(services, session, row.population, terms)
    together = row.units + (0 if first is None else units_on(session, first))
    reason, joined = definition.separate_budget, None
    if definition.shares_ledger_with is not None:
        first = _ledger_named(session, definition.shares_ledger_with)
        _check_promise(services, session, first, terms)
        if definition.holders is not None:
            together = row.units  # they are among the others
        else:
            same = (
                earlier for earlier in alike if earlier.like.sure and earlier.ledger_id == first
            )
            together = _together(session, first, row, next(same, None))
    elif reason is None:
        _check_persons(alike, first)
        if not any(earlier.like.sure and earlier.ledger_id == first for earlier in alike):
            joined = next((earlier for earlier in alike if earlier.like.sure), None)
    if joined is not None:
        if first is not None:
            raise _seen_refused("/metadata/population", ANOTHER_BUDGET, joined)
        first = joined.ledger_id
        _check_promise(services, session, first, terms, joined)
        together = _together(session, first, row, joined)
    if first is not None:
        _check_unit(session, first, row, joined)
    # how many they are is known only now
    if refused := refusal(terms.delta, together, row.unit):
        raise invalid("/metadata/privacy/delta", refused)
    others = [earlier for earlier in alike if earlier.ledger_id != first]
    recorded: dict[str, Any] = {}
    if row.privacy_unit is not None:
        recorded["privacy_unit"] = row.privacy_unit
    if joined is not None:
        recorded["like"] = _plain(joined)
    elif others and reason is not None:
        like = [_plain(other) for other in others[:MOST_NAMED]]
        recorded["separate"] = {"reason": reason, "like": like}
    row.ledger_id = first
    session.add(row)
    if first is None:
        ledger.open_account(session, row.id, terms, caller.id, recorded)
    else:
        session.flush()
        ledger.amend(session, row.id, "join", {"rows": row.rows, **recorded}, caller.id)
    if joined is None:
        return others[:MOST_NAMED]
    return [replace(earlier, shared=earlier.ledger_id == first) for earlier in alike[:MOST_NAMED]]


def _together(session: Session, ledger_id: UUID, row: DatasetRow, like: Seen | None) -> int:
    """Return the number of rows or persons on a ledger once a dataset joins it.

    like: a dataset on that ledger that surely has rows or persons of the same.
    """
    if like is not None and like.like.kind != "persons":
        return row.units  # largely the same ones
    return row.units + units_on(session, ledger_id) - (0 if like is None else like.like.persons)


def _check_persons(alike: Sequence[Seen], first: UUID | None) -> None:
    """Refuse persons whom no single ledger would cover. Raises Refusal 422."""
    others = [earlier for earlier in alike if earlier.like.persons and earlier.ledger_id != first]
    ledgers = {other.ledger_id for other in others}
    if others and first is not None:
        raise _seen_refused("/metadata/population", ANOTHER_PERSONS, others[0])
    if len(ledgers) > 1:
        message = SEVERAL_LEDGERS.format(number=len(ledgers))
        raise _seen_refused("/metadata/shares_ledger_with", message, others[0])


def _check_unit(session: Session, ledger_id: UUID, row: DatasetRow, joined: Seen | None) -> None:
    """Refuse to mix ledgers of persons and of rows. Raises Refusal 422."""
    on_it = func.coalesce(DatasetRow.ledger_id, DatasetRow.id) == ledger_id
    for other in session.scalars(select(DatasetRow).where(on_it, DatasetRow.id != row.id)):
        if other.unit != row.unit:
            message = ANOTHER_UNIT.format(kept=other.unit, named=row.unit)
            raise _seen_refused("/metadata/privacy_unit", message, joined)


def _ledger_named(session: Session, dataset_id: UUID) -> UUID:
    """Return the ledger of the dataset that an upload shall share. Raises Refusal 422."""
    named = session.get(DatasetRow, dataset_id)
    if named is None:
        raise invalid("/metadata/shares_ledger_with", "There is no such dataset.")
    return named.ledger_id or named.id


def _check_promise(
    services: Services,
    session: Session,
    ledger_id: UUID,
    terms: FilterTerms,
    joined: Seen | None = None,
) -> None:
    """Refuse a weaker guarantee than the ledger's to be joined. Raises Refusal 422, 503.

    joined: the earlier upload because of which it would.
    """
    refuse_rewound(session, services, ledger_id)
    kept = ledger.terms_of(session, ledger_id)
    if kept.neighbouring is not terms.neighbouring:
        raise _seen_refused("/metadata/privacy/neighbouring", ANOTHER_RELATION, joined)
    for name in ("epsilon", "delta"):
        if getattr(kept, name) > getattr(terms, name):
            message = STRICTER.format(name=name, kept=getattr(kept, name))
            raise _seen_refused(f"/metadata/privacy/{name}", message, joined)


def _seen_refused(pointer: str, message: str, seen: Seen | None) -> Refusal:
    """Return Refusal 422 for an upload that cannot join the ledger of its rows."""
    if seen is None:
        return invalid(pointer, message)
    faults = [Fault(pointer, f"{message} {SAY_WHY}")]
    extra = {"dataset": str(seen.dataset_id)}
    return Refusal(422, "rows_seen_before", SEEN_REFUSED, faults, extra)


def _first_of(
    services: Services, session: Session, population: str | None, terms: FilterTerms
) -> UUID | None:
    """Return the dataset with a population's ledger. Raises Refusal 422 on another budget."""
    if population is None:
        return None
    whose = func.coalesce(DatasetRow.ledger_id, DatasetRow.id, type_=DatasetRow.id.type)
    first = session.scalar(select(whose).where(DatasetRow.population == population).limit(1))
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
    """The earlier uploads, each compared with the new one once."""

    def __init__(self, services: Services) -> None:
        self._fingerprints = services.vault.fingerprints
        self._compared: set[UUID] = set()
        self._alike: list[tuple[DatasetRow, Likeness]] = []

    def compare(self, session: Session, made: Fingerprint) -> None:
        """Compare with uploads added since the last comparison."""
        known = select(FingerprintRow.dataset_id)
        for dataset_id in set(session.scalars(known)) - self._compared:
            self._compared.add(dataset_id)
            stored = select(FingerprintRow.sealed).where(FingerprintRow.dataset_id == dataset_id)
            sealed = session.scalars(stored).one()  # of persons long, and not kept by the session
            like = likeness(made, self._fingerprints.open(dataset_id, sealed))
            if like is not None:
                self._alike.append((session.get_one(DatasetRow, dataset_id), like))

    def alike(self) -> list[Seen]:
        """Return similar uploads, most similar first, then oldest."""
        by_likeness = sorted(self._alike, key=lambda pair: pair[0].created_at)
        by_likeness.sort(key=lambda pair: pair[1].strength, reverse=True)
        return [
            Seen(other.id, other.ledger_id or other.id, other.destroyed_at is not None, like)
            for other, like in by_likeness
        ]


def _plain(seen: Seen) -> Mapping[str, Any]:
    """Return a similar upload for ledger and trail, without the number of persons."""
    kept: dict[str, Any] = {"dataset": str(seen.dataset_id), "destroyed": seen.destroyed}
    kept |= {"kind": seen.like.kind, "sure": seen.like.sure}
    return kept if seen.like.kind == "persons" else kept | {"share": round(seen.like.share, 2)}


def kind_of(file: Input) -> Format:
    """Return the format of an upload: "parquet", "csv" or a snapshot."""
    if isinstance(file, Snapshot):
        return "source"
    file.seek(0)
    magic = file.read(len(PARQUET_MAGIC))
    file.seek(0)
    return "parquet" if magic == PARQUET_MAGIC else "csv"


def refused(error: IngestError, apart: Mapping[str, str] = MappingProxyType({})) -> Refusal:
    """Return the refusal of an upload, with pointers into its metadata.

    apart: places of columns that are not declared among them, and where they are named.
    """
    places = [(apart.get(place, place), message) for place, message in error.problems]
    faults = [
        Fault(place if place.startswith("/file") else f"/metadata{place}", message)
        for place, message in places
    ]
    return Refusal(422, error.code, UPLOAD_REFUSED, faults)
