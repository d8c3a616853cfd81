"""A chain in the format that was asked for. Heavy libraries are loaded when first needed."""

import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from dpmcmc.datatree import columns, data_tree
from dpmcmc.names import DRAW_COLUMNS
from dpmcmc_service.jobs.fetch import Chain

ROWS_AT_ONCE, GROUP_ROWS = 2000, 50_000
PIECE_BYTES = 2**20
JSON, CSV = "application/json", "text/csv"
PARQUET, NETCDF = "application/vnd.apache.parquet", "application/x-netcdf"


def as_json(chain: Chain) -> Iterator[bytes]:
    """ChainOut, a piece at a time."""
    chains, draws, _ = chain.draws.shape
    head = {
        "job": str(chain.job_id),
        "parameters": list(chain.parameters),
        "num_chains": chains,
        "num_draws": draws,
        "num_warmup": chain.num_warmup,
        **_verdict(chain),
    }
    yield json.dumps(head)[:-1].encode() + b', "draws": ['
    for index in range(chains):
        yield b", [" if index else b"["
        for start in range(0, draws, ROWS_AT_ONCE):
            rows = chain.draws[index, start : start + ROWS_AT_ONCE].tolist()
            yield (b", " if start else b"") + json.dumps(rows, allow_nan=False)[1:-1].encode()
        yield b"]"
    yield b"]}"


def as_csv(chain: Chain) -> Iterator[bytes]:
    """One line a draw: chain, draw, warmup (0 or 1), then the parameters."""
    import csv

    chains, draws, _ = chain.draws.shape
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    writer.writerow([*DRAW_COLUMNS, *columns(chain.parameters)])
    for index in range(chains):
        for start in range(0, draws, ROWS_AT_ONCE):
            rows = chain.draws[index, start : start + ROWS_AT_ONCE].tolist()
            for draw, row in enumerate(rows, start):
                writer.writerow([index, draw, int(draw < chain.num_warmup), *row])
            yield out.getvalue().encode()
            out.seek(0)
            out.truncate()


def as_parquet(chain: Chain) -> Iterator[bytes]:
    """The table of `as_csv` as Parquet, a row group at a time."""
    import pyarrow
    from pyarrow import parquet

    numbers = [(name, pyarrow.float64()) for name in columns(chain.parameters)]
    kinds = zip(DRAW_COLUMNS, (pyarrow.int64(), pyarrow.int64(), pyarrow.bool_()), strict=True)
    schema = pyarrow.schema([*kinds, *numbers], metadata=_verdict(chain))
    out = _Pieces()
    with parquet.ParquetWriter(out, schema) as writer:
        for group in _groups(chain):
            arrays = [pyarrow.array(values) for values in group]
            writer.write_table(pyarrow.Table.from_arrays(arrays, schema=schema))
            yield out.take()
    yield out.take()


def _groups(chain: Chain) -> Iterator[list[Any]]:
    """The columns of the table, GROUP_ROWS draws of one chain at a time."""
    chains, draws, _ = chain.draws.shape
    for index in range(chains):
        for start in range(0, draws, GROUP_ROWS):
            rows = chain.draws[index, start : start + GROUP_ROWS]
            number = np.arange(start, start + len(rows))
            yield [np.full(len(rows), index), number, number < chain.num_warmup, *rows.T]


class _Pieces(io.RawIOBase):
    """A file that hands on what was written to it and keeps nothing."""

    def __init__(self) -> None:
        super().__init__()
        self._written = bytearray()

    def writable(self) -> bool:
        """Yes."""
        return True

    def write(self, data: Any, /) -> int:
        """Take bytes in."""
        self._written += data
        return len(data)

    def take(self) -> bytes:
        """What was written since the last time."""
        taken, self._written = bytes(self._written), bytearray()
        return taken


def _verdict(chain: Chain) -> dict[str, str]:
    """What a file says of the result that it holds."""
    if chain.verdict is None:
        return {}
    return dict(zip(("verdict", "verdict_sentence"), chain.verdict, strict=True))


def as_netcdf(chain: Chain) -> Iterator[bytes]:
    """The chain as one ArviZ DataTree, which `arviz.from_netcdf` reads: see dpmcmc.datatree."""
    import tempfile

    told = {**chain.attributes, **_verdict(chain)}
    tree = data_tree(chain.draws, chain.parameters, chain.num_warmup, told)
    with tempfile.NamedTemporaryFile(suffix=".nc") as file:
        tree.to_netcdf(file.name, engine="h5netcdf")
        while piece := file.read(PIECE_BYTES):
            yield piece


BINARY = {"schema": {"type": "string", "format": "binary"}}
FORMATS: dict[str, Callable[[Chain], Iterator[bytes]]] = {
    JSON: as_json,
    CSV: as_csv,
    PARQUET: as_parquet,
    NETCDF: as_netcdf,
}


def as_files(answer: Any) -> dict[int | str, dict[str, Any]]:
    """The OpenAPI of an answer that comes as JSON of this model, or as a file of draws."""
    others = {kind: BINARY for kind in FORMATS if kind != JSON}
    return {200: {"model": answer, "content": others}}


def table_as_csv(columns: Mapping[str, Any]) -> Iterator[bytes]:
    """A table of columns of equal length, ROWS_AT_ONCE lines at a time."""
    import csv

    out = io.StringIO(newline="")
    writer = csv.writer(out)
    writer.writerow(columns)
    count = len(next(iter(columns.values())))
    for start in range(0, count, ROWS_AT_ONCE):
        parts = [values[start : start + ROWS_AT_ONCE].tolist() for values in columns.values()]
        writer.writerows(zip(*parts, strict=True))
        yield out.getvalue().encode()
        out.seek(0)
        out.truncate()


def table_as_parquet(columns: Mapping[str, Any]) -> Iterator[bytes]:
    """The same table as Parquet."""
    import pyarrow
    from pyarrow import parquet

    out = _Pieces()
    made = pyarrow.table({name: pyarrow.array(values) for name, values in columns.items()})
    parquet.write_table(made, out, row_group_size=GROUP_ROWS)
    yield out.take()


def negotiate(accept: str, kinds: Iterable[str] = tuple(FORMATS)) -> str | None:
    """The format that an Accept header likes best; None where it likes none of these."""
    best: tuple[float, int, str] | None = None
    ranges = [_range(part) for part in (accept or "*/*").split(",") if part.strip()]
    for order, kind in enumerate(kinds):
        fitting = [(level, q) for level, q in (_fits(r, kind) for r in ranges) if level]
        if not fitting:
            continue
        quality = max(fitting)[1]  # the most specific range decides
        if quality > 0 and (best is None or (quality, -order) > best[:2]):
            best = (quality, -order, kind)
    return best[2] if best else None


def _range(part: str) -> tuple[str, float]:
    kind, *parameters = (piece.strip() for piece in part.split(";"))
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
    """How specifically a range names a type (0: not at all), and its quality."""
    name, quality = wanted
    if name == kind:
        return 3, quality
    if name == kind.split("/")[0] + "/*":
        return 2, quality
    return (1, quality) if name == "*/*" else (0, quality)
