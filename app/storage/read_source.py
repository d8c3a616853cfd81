"""Snapshots of sources as Arrow batches, read by the sources' own libraries.

A database is read in one read-only transaction that sees one state of it; files are held against
what they were before the first row was read. Rows stay in memory, a batch at a time.
"""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import fs

from app.storage.columns import UnitColumn, check_names
from app.storage.dialect import Reading
from app.storage.errors import IngestError, SourceError
from app.storage.limits import Limits
from app.storage.read_parquet import BATCH_ROWS, check_types, in_order, parquet_batches
from app.storage.sources import (
    DeltaSource,
    DuckdbSource,
    IcebergSource,
    Item,
    ParquetSource,
    PostgresqlSource,
    Source,
    beneath,
    quoted,
)
from dpmcmc.inputs.schema import Column

Columns = Sequence[Column | UnitColumn]
CONNECT_SECONDS, SILENT_SECONDS = 10, 60
BATCH_BYTES = 2**21
DUCKDB_MEMORY = "256MB"
FILE_BYTES = 2**40  # of one Parquet file: what it decodes to is bounded, and its rows
FROM, ALONE = "SELECT {} FROM ({}\n) AS snapshot", "LIMIT 0"
AWAY = "it cannot be reached, or broke off"
DENIED = "it does not let the service in, or does not let it read this"
SLOW = "it took longer than the {} seconds that it is given"
CHANGED = "it was changed while it was read: try again"
STOPPED = "the snapshot was stopped"
LEADS_OUT = "a link leads out of the source's folder"
NO_DELTA = "there is no table of Delta there"
ODD_DELTA = "the table uses a feature of Delta that is not read here"
NO_ICEBERG = "there is no table of Iceberg there"
ODD_ICEBERG = "the table uses a feature of Iceberg that is not read here"
TWO_ICEBERGS = "two versions of the table are the last one: try again"
ENDING, MOST_HINT = ".metadata.json", 200
METADATA = re.compile(r"v?([0-9]{1,18})(?:-.*)?(?:\.gz)?\.metadata\.json")
ABSENT = "there is no such {} in the source, or the service may not see it"
SQL_ABSENT = ("42P01", "3F000")
SQL_DENIED = ("28", "42501")
SQL_TIMEOUT = "57014"


@dataclass(slots=True)
class Progress:
    """Progress of a snapshot. rows: read so far. is_stopped: whether to abort."""

    is_stopped: Callable[[], bool] = lambda: False
    rows: int = 0


@dataclass(slots=True)
class Snapshot:
    """A table, query or path of a source, to be read once."""

    source: Source
    item: Item
    progress: Progress = field(default_factory=Progress)

    def batches(
        self, columns: Columns, limits: Limits, reading: Reading
    ) -> Iterator[pa.RecordBatch]:
        """Yield batches of the declared columns. Raises IngestError and SourceError."""
        until = time.monotonic() + self.source.seconds
        for batch in _batches(self.source, self.item, columns, limits, reading):
            if self.progress.is_stopped():
                raise SourceError("stopped", "", STOPPED)
            if time.monotonic() > until:
                raise _unavailable(SLOW.format(self.source.seconds))
            self.progress.rows += batch.num_rows
            yield in_order(batch, columns)


def _batches(
    source: Source, item: Item, columns: Columns, limits: Limits, reading: Reading
) -> Iterator[pa.RecordBatch]:
    """Yield batches of a source of any kind."""
    if isinstance(source, ParquetSource):
        return _parquet(source, item, columns, limits, reading)
    if isinstance(source, DeltaSource):
        return _delta(source, item, columns, reading)
    if isinstance(source, IcebergSource):
        return _iceberg(source, item, columns, reading)
    if item.path is not None:
        raise SourceError("not_offered", "/path", "this source has tables and queries, no paths")
    if isinstance(source, PostgresqlSource):
        return _postgresql(source, item, columns, reading)
    return _duckdb(source, item, columns, reading)


def _unavailable(message: str, reason: str = "") -> SourceError:
    """Return the error of an unavailable source."""
    return SourceError("source_unavailable", "", message, reason)


def _postgresql(
    source: PostgresqlSource, item: Item, columns: Columns, reading: Reading
) -> Iterator[pa.RecordBatch]:
    """Yield batches of a PostgreSQL table or query."""
    from adbc_driver_postgresql import StatementOptions, dbapi

    statement = source.statement(item)
    with (
        _postgresql_errors(source, item),
        dbapi.connect(_conninfo(source)) as connection,
        connection.cursor() as cursor,
    ):
        size = {StatementOptions.BATCH_SIZE_HINT_BYTES.value: str(BATCH_BYTES)}
        cursor.adbc_statement.set_options(**size)
        cursor.execute(f"{FROM.format('*', statement)} {ALONE}")
        with cursor.fetch_record_batch() as nothing:
            schema = nothing.schema
        check_names(schema.names, columns, reading)
        chosen = ", ".join(_postgresql_value(schema.field(column.name)) for column in columns)
        cursor.execute(FROM.format(chosen, statement))
        with cursor.fetch_record_batch() as rows:
            check_types(rows.schema, columns)
            yield from rows


def _conninfo(source: PostgresqlSource) -> str:
    """Return the connection string: with timeouts, and read-only."""
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    try:
        of_url = conninfo_to_dict(source.url())
    except ProgrammingError:
        raise _unavailable("its address is not one of PostgreSQL") from None
    options = [
        str(of_url.get("options") or ""),
        f"-c statement_timeout={source.seconds * 1000}",
        "-c default_transaction_read_only=on",
        r"-c default_transaction_isolation=repeatable\ read",
    ]
    times: dict[str, Any] = {
        "connect_timeout": CONNECT_SECONDS,
        "tcp_user_timeout": SILENT_SECONDS * 1000,
        "keepalives_idle": SILENT_SECONDS // 2,
        "keepalives_interval": SILENT_SECONDS // 6,
        "keepalives_count": 3,
    }
    return make_conninfo(**{**of_url, **times, "options": " ".join(options).strip()})


def _postgresql_value(field: pa.Field) -> str:
    """Return the SQL of a column: doubles or text where Arrow lacks its type.

    PostgreSQL turns a numeric into the nearest double, and text is what categories are.
    """
    name, type_name = quoted(field.name), (field.metadata or {}).get(b"POSTGRESQL:type", b"")
    if type_name in (b"numeric", b"money"):
        return f"{name}::numeric::float8 AS {name}"
    return f"{name}::text AS {name}" if isinstance(field.type, pa.BaseExtensionType) else name


@contextmanager
def _postgresql_errors(source: PostgresqlSource, item: Item) -> Iterator[None]:
    """Translate the database's errors by their code alone."""
    from adbc_driver_manager import Error

    until = time.monotonic() + source.seconds
    try:
        yield
    except (Error, pa.ArrowException, OSError) as error:
        state = str(getattr(error, "sqlstate", None) or "")
        reason = f"{type(error).__name__} {state}".strip()
        if state in SQL_ABSENT:
            what = "table" if item.table is not None else "query"
            raise SourceError("not_offered", f"/{what}", ABSENT.format(what), reason) from None
        if state.startswith(SQL_DENIED):
            raise _unavailable(DENIED, reason) from None
        if state == SQL_TIMEOUT or time.monotonic() >= until:
            raise _unavailable(SLOW.format(source.seconds), reason) from None
        raise _unavailable(AWAY, reason) from None


def _duckdb(
    source: DuckdbSource, item: Item, columns: Columns, reading: Reading
) -> Iterator[pa.RecordBatch]:
    """Yield batches of a DuckDB table or query."""
    import duckdb

    statement = source.statement(item)
    alone: dict[
        str, Any
    ] = {  # it reads its own file, loads nothing, and leaves no rows in clear on the disk
        "enable_external_access": "false",
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "temp_directory": "",
        "memory_limit": DUCKDB_MEMORY,
        "threads": "1",
        "lock_configuration": "true",
    }
    before = _state_of(source.file)
    try:
        with duckdb.connect(str(source.file), read_only=True, config=alone) as connection:
            names = connection.sql(f"{FROM.format('*', statement)} {ALONE}").columns
            check_names(names, columns, reading)
            chosen = ", ".join(quoted(column.name) for column in columns)
            rows = connection.sql(FROM.format(chosen, statement)).to_arrow_reader(BATCH_ROWS)
            check_types(rows.schema, columns)
            yield from rows
    except duckdb.CatalogException as error:
        what = "table" if item.table is not None else "query"
        reason = type(error).__name__
        raise SourceError("not_offered", f"/{what}", ABSENT.format(what), reason) from None
    except duckdb.PermissionException as error:
        raise _unavailable(DENIED, type(error).__name__) from None
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        raise _unavailable(AWAY, type(error).__name__) from None
    if _state_of(source.file) != before:
        raise SourceError("source_changed", "", CHANGED)


def _state_of(file: Path) -> tuple[int, int, int]:
    """Return what changes when a file is written to or replaced."""
    try:
        state = file.stat()
    except OSError as error:
        raise _unavailable(AWAY, type(error).__name__) from None
    return state.st_ino, state.st_size, state.st_mtime_ns


def _parquet(
    source: ParquetSource, item: Item, columns: Columns, limits: Limits, reading: Reading
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of every Parquet file, checked as uploads are."""
    place, limits = _place(item), replace(limits, file_bytes=FILE_BYTES)
    try:
        folder = _folder(source)
        before = _files(folder, place)
        for file in before:
            if file.size == 0:
                raise IngestError("empty_file", "/file", "a Parquet file is empty")
            with folder.open_input_file(file.path) as opened:
                yield from parquet_batches(cast(Any, opened), columns, limits, reading)
    except IngestError as error:
        if error.code == "malformed_parquet" and _files(_folder(source), place) != before:
            raise SourceError("source_changed", "", CHANGED) from None
        raise
    except (pa.ArrowException, OSError) as error:
        raise _unavailable(AWAY, type(error).__name__) from None
    if _files(folder, place) != before:
        raise SourceError("source_changed", "", CHANGED)


def _place(item: Item) -> str:
    """Return the requested path. Raises SourceError."""
    if item.path is None:
        raise SourceError("not_offered", "/path", "name a path in the source's folder, or an empty")
    return beneath(item.path)


def _delta(
    source: DeltaSource, item: Item, columns: Columns, reading: Reading
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a Delta table's last version, whose files are immutable.

    The library reads the log; rows come through a file system that has the table's folder alone, so
    that a log that names files elsewhere leads nowhere.
    """
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError, DeltaProtocolError, TableNotFoundError

    uri = _table_folder(source, item)
    try:
        lake = _folder(source.model_copy(update={"folder": uri}))
        table = DeltaTable(uri, storage_options=_delta_options(source))
        _check_links(lake, [unquote(file) for file in table.file_uris()])
        rows = table.to_pyarrow_dataset(filesystem=lake)
        check_names(rows.schema.names, columns, reading)
        check_types(rows.schema, columns)
        names = [column.name for column in columns]
        ahead = {"batch_readahead": 1, "fragment_readahead": 1, "use_threads": False}
        yield from rows.to_batches(columns=names, batch_size=BATCH_ROWS, **ahead)
    except TableNotFoundError as error:
        raise SourceError("not_offered", "/path", NO_DELTA, type(error).__name__) from None
    except DeltaProtocolError as error:
        raise _unavailable(ODD_DELTA, type(error).__name__) from None
    except FileNotFoundError as error:  # a vacuum has removed what the version had
        raise SourceError("source_changed", "", CHANGED, type(error).__name__) from None
    except (DeltaError, pa.ArrowException, OSError) as error:
        raise _unavailable(AWAY, type(error).__name__) from None


def _table_folder(source: DeltaSource | IcebergSource, item: Item) -> str:
    """Return the folder of a table. Raises SourceError where it lies outside of the source's."""
    place = _place(item)
    if source.folder.startswith("s3://"):
        return "/".join(filter(None, (source.folder.rstrip("/"), place)))
    root = Path(source.folder).resolve()
    if not (root / place).resolve().is_relative_to(root):
        raise SourceError("not_offered", "/path", LEADS_OUT)
    return str(root / place)


def _delta_options(source: DeltaSource) -> dict[str, str]:
    """Return the options of the Delta library's object store."""
    if not source.folder.startswith("s3://"):
        return {}
    options = {"timeout": f"{SILENT_SECONDS}s", "connect_timeout": f"{CONNECT_SECONDS}s"}
    options["max_retries"] = "2"
    if (keys := source.keys()) is not None:
        options["aws_access_key_id"], options["aws_secret_access_key"] = keys
    if source.endpoint is not None:
        options["aws_endpoint"] = source.endpoint.rstrip("/")
        options["allow_http"] = str(source.endpoint.startswith("http://")).lower()
    if source.region is not None:
        options["aws_region"] = source.region
    return options


def _iceberg(
    source: IcebergSource, item: Item, columns: Columns, reading: Reading
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of an Iceberg table's last version, whose files are immutable.

    All files, those of metadata too, are opened through a file system that has the table's folder
    alone, wherever they say that they are; those of data one after the other.
    """
    from pyiceberg.io.pyarrow import ArrowScan, PyArrowFile, PyArrowFileIO, schema_to_pyarrow
    from pyiceberg.serializers import FromInputFile
    from pyiceberg.table import DataScan

    class Files(PyArrowFileIO):
        """Files by their locations, below the table's; below the folder while that is unknown."""

        location = ""

        def new_input(self, location: str) -> PyArrowFile:
            """Return a file. Raises SourceError where it lies elsewhere."""
            place = location
            if self.location:
                if not location.startswith(f"{self.location}/"):
                    raise SourceError("not_offered", "/path", LEADS_OUT)
                place = location.removeprefix(f"{self.location}/")
            place = beneath(place)
            _check_links(lake, [place])
            return PyArrowFile(location=location, path=place, fs=lake)

    uri = _table_folder(source, item)
    lake, files = _folder(source.model_copy(update={"folder": uri})), Files()
    try:
        metadata = FromInputFile.table_metadata(files.new_input(_last_metadata(lake)))
        files.location = metadata.location.rstrip("/")
        schema = schema_to_pyarrow(metadata.schema(), include_field_ids=False)
        check_names(schema.names, columns, reading)
        check_types(schema, columns)
        names = tuple(column.name for column in columns)
        scan = DataScan(metadata, files, selected_fields=names)
        rows = ArrowScan(metadata, files, scan.projection(), scan.row_filter)
        for task in scan.plan_files():
            for batch in rows.to_record_batches([task]):
                for start in range(0, batch.num_rows, BATCH_ROWS):
                    yield batch.slice(start, BATCH_ROWS)
    except FileNotFoundError as error:  # files of versions that have expired are deleted
        raise SourceError("source_changed", "", CHANGED, type(error).__name__) from None
    except (pa.ArrowException, OSError) as error:
        raise _unavailable(AWAY, type(error).__name__) from None
    except (ValueError, NotImplementedError, LookupError, TypeError) as error:
        raise _unavailable(ODD_ICEBERG, type(error).__name__) from None


def _last_metadata(lake: fs.FileSystem) -> str:
    """Return the path of a table's last metadata, by its hint or by number. Raises SourceError."""
    listed = lake.get_file_info(fs.FileSelector("metadata", allow_not_found=True))
    numbers: dict[str, int] = {}
    for entry in listed:
        if number := METADATA.fullmatch(entry.base_name):
            numbers[entry.base_name] = int(number[1])
        if entry.base_name == "version-hint.text":
            with lake.open_input_stream(entry.path) as hint:
                version = hint.read(MOST_HINT).decode("ascii", "replace").strip()
            version = f"v{version}" if version.isdecimal() else version
            return f"metadata/{version.removesuffix(ENDING)}{ENDING}"
    last = [name for name, number in numbers.items() if number == max(numbers.values())]
    if not last:
        raise SourceError("not_offered", "/path", NO_ICEBERG)
    if len(last) > 1:
        raise _unavailable(TWO_ICEBERGS)
    return f"metadata/{last[0]}"


def _folder(source: ParquetSource | DeltaSource | IcebergSource) -> fs.FileSystem:
    """Return a file system restricted to the folder."""
    if not source.folder.startswith("s3://"):
        return fs.SubTreeFileSystem(source.folder, fs.LocalFileSystem())
    keys, options = source.keys(), dict[str, Any]()
    if keys is not None:
        options["access_key"], options["secret_key"] = keys
    if source.endpoint is not None:
        scheme, _, host = source.endpoint.rstrip("/").partition("://")
        options["scheme"], options["endpoint_override"] = scheme, host
    if source.region is not None:
        options["region"] = source.region
    store = fs.S3FileSystem(
        connect_timeout=CONNECT_SECONDS, request_timeout=SILENT_SECONDS, **options
    )
    return fs.SubTreeFileSystem(source.folder.removeprefix("s3://").rstrip("/"), store)


@dataclass(frozen=True, slots=True)
class _File:
    """A listed file, with what changes when it is written to."""

    path: str
    size: int
    mtime_ns: int


def _files(folder: fs.FileSystem, place: str) -> list[_File]:
    """Return the Parquet files below a path, sorted by name. Raises SourceError.

    What is hidden, as half-written files are, begins with a dot or an underscore.
    """
    try:
        at_place = folder.get_file_info(place)
        listed = [at_place]
        if at_place.type == fs.FileType.Directory:
            listed = folder.get_file_info(fs.FileSelector(place, recursive=True))
    except (pa.ArrowException, OSError) as error:
        raise _unavailable(AWAY, type(error).__name__) from None
    shown = sorted((entry for entry in listed if _is_shown(entry)), key=lambda entry: entry.path)
    files = [_File(entry.path, entry.size, entry.mtime_ns) for entry in shown]
    if not files:
        raise SourceError("not_offered", "/path", "there is no Parquet file there")
    _check_links(folder, [entry.path for entry in files])
    return files


def _check_links(folder: fs.SubTreeFileSystem, paths: Sequence[str]) -> None:
    """Raise SourceError where a symbolic link leads out of the folder."""
    if isinstance(folder.base_fs, fs.LocalFileSystem):
        root = Path(folder.base_path).resolve()
        if any(not (root / path).resolve().is_relative_to(root) for path in paths):
            raise SourceError("not_offered", "/path", LEADS_OUT)


def _is_shown(file: fs.FileInfo) -> bool:
    """Return whether a file is not hidden."""
    hidden = any(part.startswith((".", "_")) for part in file.path.split("/"))
    return file.type == fs.FileType.File and not hidden and file.path.endswith(".parquet")
