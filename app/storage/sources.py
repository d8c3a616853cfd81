"""Sources: tables of other systems that the operator's configuration file permits.

The file holds addresses and what may be read of them; credentials are in the environment or in
files of their own, and are read anew for each snapshot.
"""

import os
import re
import tomllib
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from app.storage.errors import SourceError

NAME = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$"
MOST_SECONDS = 24 * 3600
Name = Annotated[str, Field(pattern=NAME)]
Part = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f]+$")]
Seconds = Annotated[int, Field(ge=1, le=MOST_SECONDS)]
NOT_BOTH = "{0}_env or {0}_file, not both"


class SourcesFileError(ValueError):
    """The file of sources is invalid. The message contains none of its values."""


class _Source(BaseModel):
    """Fields of all kinds. package: that reads it, if any. seconds: time limit of a snapshot."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    package: ClassVar[str] = ""
    seconds: Seconds = 3600

    @model_validator(mode="after")
    def _is_installed(self) -> Self:
        """Check that the package is installed that reads sources of this kind."""
        if self.package and find_spec(self.package) is None:
            kind = getattr(self, "kind", "")
            raise ValueError(f"a source of kind {kind} needs the package {self.package}")
        return self


class _Database(_Source):
    """tables: readable ones, "schema.*" for all of a schema. queries: permitted, by name.

    Admins name a table or a query of these and never write one.
    """

    tables: tuple[Part, ...] = ()
    queries: Mapping[Name, str] = {}

    def statement(self, item: "Item") -> str:
        """Return the SELECT of a table or query. Raises SourceError where not permitted."""
        if item.query is not None:
            if item.query not in self.queries:
                raise SourceError("not_offered", "/query", "the source offers no such query")
            return self.queries[item.query].strip().rstrip(";")
        if item.table is None:
            raise SourceError("not_offered", "/table", "name a table or a query of this source")
        schema, _, table = item.table.rpartition(".")
        offered = item.table in self.tables or (bool(schema) and f"{schema}.*" in self.tables)
        if not offered or not table:
            raise SourceError("not_offered", "/table", "the source offers no such table")
        parts = [schema, table] if schema else [table]
        return f"SELECT * FROM {'.'.join(map(quoted, parts))}"  # noqa: S608 - quoted names


class PostgresqlSource(_Database):
    """A PostgreSQL database. url_env, url_file: where its URL with password is stored."""

    kind: Literal["postgresql"]
    url_env: str | None = None
    url_file: Path | None = None

    @model_validator(mode="after")
    def _has_address(self) -> "PostgresqlSource":
        """Check that exactly one of url_env and url_file is set."""
        if (self.url_env is None) == (self.url_file is None):
            raise ValueError(NOT_BOTH.format("url"))
        return self

    def url(self) -> str:
        """Return the URL with its password. Raises SourceError."""
        return _secret(self.url_env, self.url_file)


class DuckdbSource(_Database):
    """A DuckDB file on this machine."""

    package: ClassVar[str] = "duckdb"
    kind: Literal["duckdb"]
    file: Path


class _Folder(_Source):
    """A folder on this machine, or s3://bucket/folder.

    endpoint, region: of a store that speaks S3. The two keys are given both or neither: then the
    AWS client's own ways to find them count.
    """

    folder: Annotated[str, Field(pattern=r"^(/|s3://[^/?#@]+(/|$))[^?#@]*$")]
    endpoint: Annotated[str, Field(pattern=r"^https?://[^@/?#]+/?$")] | None = None
    region: str | None = None
    access_key_env: str | None = None
    access_key_file: Path | None = None
    secret_key_env: str | None = None
    secret_key_file: Path | None = None

    @model_validator(mode="after")
    def _whole_key(self) -> "_Folder":
        """Check that the access key has both id and secret, or neither."""
        declared = []
        for name in ("access_key", "secret_key"):
            places = [getattr(self, f"{name}_{where}") for where in ("env", "file")]
            if None not in places:
                raise ValueError(NOT_BOTH.format(name))
            declared.append(places != [None, None])
        if declared[0] != declared[1]:
            raise ValueError("of access_key and secret_key only one is given")
        return self

    def keys(self) -> tuple[str, str] | None:
        """Return id and secret of the access key, or None. Raises SourceError."""
        if self.access_key_env is None and self.access_key_file is None:
            return None
        return (
            _secret(self.access_key_env, self.access_key_file),
            _secret(self.secret_key_env, self.secret_key_file),
        )


class ParquetSource(_Folder):
    """A folder of Parquet files."""

    kind: Literal["parquet"]


class DeltaSource(_Folder):
    """A folder of Delta Lake tables."""

    package: ClassVar[str] = "deltalake"
    kind: Literal["delta"]


class IcebergSource(_Folder):
    """A folder of Iceberg tables."""

    package: ClassVar[str] = "pyiceberg"
    kind: Literal["iceberg"]


Source = PostgresqlSource | DuckdbSource | ParquetSource | DeltaSource | IcebergSource


class Item(BaseModel):
    """What to read: a table or named query of a database, or a path in a folder.

    path: of a file, of a folder with all Parquet files in it (empty for all), or of a Delta or
    Iceberg table.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    table: str | None = None
    query: str | None = None
    path: str | None = None


class _File(BaseModel):
    """The content of the file of sources."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    sources: Mapping[Name, Annotated[Source, Field(discriminator="kind")]]


def sources_in(file: Path | None) -> Mapping[str, Source]:
    """Return the configured sources by name. Raises SourcesFileError."""
    if file is None:
        return {}
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise SourcesFileError("the file of DPMCMC_SOURCES cannot be read as TOML") from None
    try:
        return _File.model_validate(content).sources
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        message = first["msg"].removeprefix("Value error, ")
        raise SourcesFileError(f"DPMCMC_SOURCES: {place}: {message}") from None


def quoted(name: str) -> str:
    """Return a name quoted for SQL."""
    return '"' + name.replace('"', '""') + '"'


def beneath(path: str) -> str:
    """Return a relative path without parent references. Raises SourceError."""
    parts = [part for part in path.split("/") if part]
    odd = path.startswith("/") or re.search(r"[\\\x00-\x1f]|://", path) or "~" in parts
    if odd or any(part in (".", "..") for part in parts):
        raise SourceError("not_offered", "/path", "a path within the source's folder, without ..")
    return "/".join(parts)


def _secret(variable: str | None, file: Path | None) -> str:
    """Return a secret from a variable or a file. Raises SourceError, which names neither."""
    try:
        secret = file.read_text(encoding="utf-8") if file else os.environ.get(variable or "", "")
    except (OSError, ValueError):
        secret = ""
    if not secret.strip():
        raise SourceError("source_unavailable", "", "its credentials are not configured")
    return secret.strip()
