"""Chains and tables in the requested format. Large libraries are loaded on demand."""

import io
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.services.results.fetch import Chain
from dpmcmc.base.names import DRAW_COLUMNS, DRY_RUN
from dpmcmc.posterior.datatree import columns

NUMBERS_AT_ONCE = 2**11  # made into text: a millisecond or two in which no other thread goes on
GROUP_NUMBERS, FILE_NUMBERS = 2**18, 2**16  # made into a row group, or written to a file, at once
PIECE_BYTES = 2**17  # about as many are handed on together: each piece costs a change of threads
JSON, CSV = "application/json", "text/csv"
PARQUET, NETCDF = "application/vnd.apache.parquet", "application/x-netcdf"
Rows = tuple[int, NDArray[np.float64]]  # the number of the first draw, and draws (draw, parameter)


def _rows(chain: Chain, index: int, numbers: int) -> Iterator[Rows]:
    """Yield the draws of one chain in parts of at most `numbers` numbers."""
    most = max(1, numbers // chain.draws.shape[2])
    for first, piece in chain.draws.pieces(index):
        for start in range(0, len(piece), most):
            yield first + start, piece[start : start + most]


def _together(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the same bytes in fewer, larger pieces."""
    held = bytearray()
    for part in parts:
        held += part
        if len(held) >= PIECE_BYTES:
            yield bytes(held)
            held.clear()
    yield bytes(held)


def as_json(chain: Chain) -> Iterator[bytes]:
    """Yield ChainOut as JSON, in pieces."""
    return _together(_json_parts(chain))


def _json_parts(chain: Chain) -> Iterator[bytes]:
    """Yield the parts of the JSON."""
    chains, draws, _ = chain.draws.shape
    head = {
        "job": str(chain.job_id),
        "parameters": list(chain.parameters),
        "num_chains": chains,
        "num_draws": draws,
        "num_warmup": chain.num_warmup,
        **_verdict(chain),
        **({"dry_run": True} if _dry(chain) else {}),
    }
    yield json.dumps(head)[:-1].encode() + b', "draws": ['
    for index in range(chains):
        yield b", [" if index else b"["
        for first, rows in _rows(chain, index, NUMBERS_AT_ONCE):
            written = json.dumps(rows.tolist(), allow_nan=False)[1:-1]
            yield (b", " if first else b"") + written.encode()
        yield b"]"
    yield b"]}"


def as_csv(chain: Chain) -> Iterator[bytes]:
    """Yield CSV lines: chain, draw, warmup (0 or 1), parameters, and dry_run where it is.

    Arrow writes the lines, in a sixth of the time of Python's writer, and other threads go on
    meanwhile. It writes the shortest digits that are read as the same number, as 1 for 1.0.
    """
    import csv

    import pyarrow
    from pyarrow.csv import WriteOptions, write_csv

    head = io.StringIO(newline="")
    dry = [DRY_RUN] if _dry(chain) else []
    csv.writer(head).writerow([*DRAW_COLUMNS, *columns(chain.parameters), *dry])
    yield head.getvalue().encode()
    options = WriteOptions(include_header=False)
    for index in range(chain.draws.shape[0]):
        for first, rows in _rows(chain, index, FILE_NUMBERS):
            number = np.arange(first, first + len(rows))
            early = (number < chain.num_warmup).astype(int)
            group = [np.full(len(rows), index), number, early, *rows.T]
            group += [np.ones(len(rows), int)] * len(dry)
            arrays = [pyarrow.array(values) for values in group]
            lines = pyarrow.BufferOutputStream()
            names = list(map(str, range(len(arrays))))
            write_csv(pyarrow.Table.from_arrays(arrays, names), lines, options)
            yield lines.getvalue().to_pybytes().replace(b"\n", b"\r\n")


def as_parquet(chain: Chain) -> Iterator[bytes]:
    """Yield the table of `as_csv` as Parquet, one row group at a time."""
    import pyarrow
    from pyarrow import parquet

    numbers = [(name, pyarrow.float64()) for name in columns(chain.parameters)]
    kinds = zip(DRAW_COLUMNS, (pyarrow.int64(), pyarrow.int64(), pyarrow.bool_()), strict=True)
    dry = [(DRY_RUN, pyarrow.bool_())] if _dry(chain) else []
    schema = pyarrow.schema([*kinds, *numbers, *dry], metadata=_verdict(chain))
    out = _Pieces()
    with parquet.ParquetWriter(out, schema) as writer:
        for index in range(chain.draws.shape[0]):
            for first, rows in _rows(chain, index, GROUP_NUMBERS):
                number = np.arange(first, first + len(rows))
                group = [np.full(len(rows), index), number, number < chain.num_warmup, *rows.T]
                group += [np.ones(len(rows), bool)] * len(dry)
                arrays = [pyarrow.array(values) for values in group]
                writer.write_table(pyarrow.Table.from_arrays(arrays, schema=schema))
                yield out.take()
    yield out.take()


class _Pieces(io.RawIOBase):
    """A writable file that passes its data on without storing it."""

    def __init__(self) -> None:
        super().__init__()
        self._written = bytearray()

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Any, /) -> int:
        """Store data until `take`."""
        self._written += data
        return len(data)

    def take(self) -> bytes:
        """Return and drop the data written since the last call."""
        taken, self._written = bytes(self._written), bytearray()
        return taken


def _dry(chain: Chain) -> bool:
    """Return whether a chain is of a dry run."""
    return DRY_RUN in chain.attributes


def _verdict(chain: Chain) -> dict[str, str]:
    """Return the verdict as metadata of a file."""
    if chain.verdict is None:
        return {}
    return dict(zip(("verdict", "verdict_sentence"), chain.verdict, strict=True))


def as_netcdf(chain: Chain) -> Iterator[bytes]:
    """Yield the chain as netCDF, which `arviz.from_netcdf` reads (posterior.datatree)."""
    import tempfile

    with tempfile.NamedTemporaryFile(suffix=".nc", delete=False) as file:
        for _ in _netcdf_written(file.name, chain):
            yield b""  # others get their turn
        while piece := file.read(PIECE_BYTES):
            yield piece


@contextmanager
def _unnamed(path: str) -> Iterator[Any]:
    """Yield a new netCDF file that is deleted from the folder at once, so no crash leaves it."""
    import h5netcdf

    try:
        file = h5netcdf.File(path, "w")
    finally:
        os.unlink(path)
    with file:
        yield file


def _netcdf_written(path: str, chain: Chain) -> Iterator[None]:
    """Write the DataTree of `posterior.datatree` from draws in memory, one piece per step."""
    attributes = {**chain.attributes, **_verdict(chain)}
    names = columns(chain.parameters)
    chains, draws, _ = chain.draws.shape
    warmup = min(chain.num_warmup, draws)
    with _unnamed(path) as file:
        file.attrs.update(attributes)
        parts = [
            (_group(file, prefix, names, chains, end - begin, attributes), begin, end)
            for prefix, begin, end in (("", warmup, draws), ("warmup_", 0, warmup))
            if end > begin
        ]
        for index in range(chains):
            before = None
            for first, rows in _rows(chain, index, FILE_NUMBERS):
                moved = np.ones(len(rows), np.int8)
                earlier = rows[:1] if before is None else before
                moved[before is None :] = (
                    np.diff(rows, axis=0, prepend=earlier)[before is None :] != 0.0
                ).any(axis=1)
                before = rows[-1:]
                for (values, accepted), begin, end in parts:
                    kept = slice(max(begin - first, 0), max(min(end - first, len(rows)), 0))
                    count = kept.stop - kept.start
                    if count > 0:
                        at = first + kept.start - begin
                        for name, column in zip(names, rows[kept].T, strict=True):
                            values[name][index, at : at + count] = column
                        accepted["accepted"][index, at : at + count] = moved[kept]
                yield


def _group(
    file: Any,
    prefix: str,
    names: Sequence[str],
    chains: int,
    draws: int,
    attributes: Mapping[str, Any],
) -> tuple[Any, Any]:
    """Return the empty groups of one part of the draws and of its statistics."""
    made = []
    for name, variables, kind in (
        ("posterior", names, np.dtype("f8")),
        ("sample_stats", ["accepted"], np.dtype("i1")),
    ):
        group = file.create_group(prefix + name)
        group.dimensions = {"chain": chains, "draw": draws}
        group.create_variable("chain", ("chain",), data=np.arange(chains))
        group.create_variable("draw", ("draw",), data=np.arange(draws))
        for variable in variables:
            group.create_variable(variable, ("chain", "draw"), kind)
        made.append(group)
    made[0].attrs.update(attributes)
    return made[0], made[1]


BINARY = {"schema": {"type": "string", "format": "binary"}}
FORMATS: dict[str, Callable[[Chain], Iterator[bytes]]] = {
    JSON: as_json,
    CSV: as_csv,
    PARQUET: as_parquet,
    NETCDF: as_netcdf,
}


def as_files(answer: Any) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI of an answer that is JSON of this model, or a file of draws."""
    others = {kind: BINARY for kind in FORMATS if kind != JSON}
    return {200: {"model": answer, "content": others}}


def table_as_csv(parts: Iterable[Mapping[str, Any]]) -> Iterator[bytes]:
    """Yield a table as CSV, from parts of its columns."""
    return _together(_table_lines(parts))


def _table_lines(parts: Iterable[Mapping[str, Any]]) -> Iterator[bytes]:
    """Yield the lines of a table as CSV."""
    import csv

    out = io.StringIO(newline="")
    writer = csv.writer(out)
    for number, part in enumerate(parts):
        if not number:
            writer.writerow(part)
        count, lines = _length(part), max(1, NUMBERS_AT_ONCE // len(part))
        for start in range(0, count, lines):
            columns = [_cells(values[start : start + lines]) for values in part.values()]
            writer.writerows(zip(*columns, strict=True))
            yield out.getvalue().encode()
            out.seek(0)
            out.truncate()


def _cells(values: Any) -> list[Any]:
    """Return values as CSV fields, empty where missing."""
    cells: list[Any] = values.tolist()
    if values.dtype.kind == "M":
        return [None if cell is None else str(cell) for cell in cells]
    return [None if cell != cell else cell for cell in cells] if values.dtype.kind == "f" else cells


def _length(part: Mapping[str, Any]) -> int:
    """Return the number of rows of a part."""
    return len(next(iter(part.values())))


def table_as_json(head: Mapping[str, Any], columns: Mapping[str, Any]) -> Iterator[bytes]:
    """Yield a JSON object of `head` and `data` with columns of values, in pieces."""
    return _together(_column_parts(head, columns))


def _column_parts(head: Mapping[str, Any], columns: Mapping[str, Any]) -> Iterator[bytes]:
    """Yield the parts of the JSON."""
    yield json.dumps(head)[:-1].encode() + b', "data": {'
    for number, (name, values) in enumerate(columns.items()):
        yield f"{', ' if number else ''}{json.dumps(name)}: [".encode()
        for start in range(0, len(values), NUMBERS_AT_ONCE):
            text = json.dumps(_cells(values[start : start + NUMBERS_AT_ONCE]))[1:-1]
            yield f"{', ' if start else ''}{text}".encode()
        yield b"]"
    yield b"}}"


def table_as_parquet(parts: Iterable[Mapping[str, Any]]) -> Iterator[bytes]:
    """Yield the table as Parquet, one row group per part."""
    import pyarrow
    from pyarrow import parquet

    out, writer = _Pieces(), None
    for part in parts:
        made = pyarrow.table(
            {
                name: pyarrow.array(
                    values, pyarrow.string() if values.dtype == object else None, from_pandas=True
                )
                for name, values in part.items()
            }
        )
        if writer is None:
            writer = parquet.ParquetWriter(out, made.schema)
        writer.write_table(made)
        yield out.take()
    if writer is not None:
        writer.close()
    yield out.take()


MOST_RANGES = 100  # of an Accept header that are read


def negotiate(accept: str, kinds: Iterable[str] = tuple(FORMATS)) -> str | None:
    """Return the format preferred by an Accept header; None if it accepts none of these."""
    best: tuple[float, int, str] | None = None
    parts = islice((accept or "*/*").split(","), MOST_RANGES)
    ranges = [_range(part) for part in parts if part.strip()]
    for order, kind in enumerate(kinds):
        fitting = [(level, q) for level, q in (_fits(r, kind) for r in ranges) if level]
        if not fitting:
            continue
        quality = max(fitting)[1]  # the most specific range decides
        if quality > 0 and (best is None or (quality, -order) > best[:2]):
            best = (quality, -order, kind)
    return best[2] if best else None


def _range(part: str) -> tuple[str, float]:
    """Return media range and quality of one element of an Accept header."""
    kind, *parameters = (piece.strip() for piece in part.split(";", 20)[:20])
    quality = 1.0
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "q":
            try:
                quality = min(1.0, max(0.0, float(value)))
            except ValueError:
                quality = 0.0
    return kind.lower(), quality


def _fits(wanted: tuple[str, float], kind: str) -> tuple[int, float]:
    """Return how specifically a media range matches a type (0: not), and its quality."""
    name, quality = wanted
    if name == kind:
        return 3, quality
    if name == kind.split("/")[0] + "/*":
        return 2, quality
    return (1, quality) if name == "*/*" else (0, quality)
