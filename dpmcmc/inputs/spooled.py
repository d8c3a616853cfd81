"""Rows from a one-time iterator, stored in an encrypted temporary file during a call.

Each column of each chunk is encrypted under a key that only this object has, so that a pass reads
the columns that it needs, and what is left of the file after a crash is noise. It has no name in a
folder where the system allows that.
"""

import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from dpmcmc.inputs.schema import Schema, Table
from dpmcmc.inputs.streamed import Streamed, in_blocks

CHUNK_ROWS = 2**15


@dataclass(frozen=True, slots=True)
class _Chunk:
    """The location of a column's chunk: cipher number, offset, size and type."""

    number: int
    start: int
    size: int
    dtype: np.dtype[Any]


def spooled(schema: Schema, tables: Iterable[Table]) -> Streamed:
    """Return tables of rows as Streamed rows, which can be read at every pass.

    All of the tables are taken here. Raises what they raise, OSError where there is no room for the
    file, and ValueError where they have another number of rows than the schema.
    """
    spool = _Spool()
    for table in in_blocks(iter(tables), CHUNK_ROWS):
        spool.add(table)
    if spool.rows != schema.rows:
        raise ValueError(f"the data have {spool.rows} rows, and the schema says {schema.rows}")
    return Streamed(schema, spool.tables)


class _Spool:
    """An encrypted temporary file of column chunks."""

    def __init__(self) -> None:
        self._cipher = AESGCM(AESGCM.generate_key(256))
        self._file = tempfile.TemporaryFile(prefix="dpmcmc-")  # noqa: SIM115
        weakref.finalize(self, self._file.close)
        self._chunks: list[tuple[int, dict[str, _Chunk]]] = []
        self._written = self._sealed = self.rows = 0

    def add(self, table: Table) -> None:
        """Append the columns of a table."""
        places = {}
        for name, values in table.columns.items():
            hidden = self._cipher.encrypt(self._sealed.to_bytes(12), values.tobytes(), None)
            self._file.write(hidden)
            places[name] = _Chunk(self._sealed, self._written, len(hidden), values.dtype)
            self._sealed, self._written = self._sealed + 1, self._written + len(hidden)
        self._chunks.append((table.rows, places))
        self.rows += table.rows

    def tables(self, names: Sequence[str]) -> Iterator[Table]:
        """Yield the rows in order, as tables of these columns."""
        for rows, places in self._chunks:
            columns = {}
            for name, place in places.items():
                if name in names:
                    self._file.seek(place.start)
                    hidden = self._file.read(place.size)
                    plain = self._cipher.decrypt(place.number.to_bytes(12), hidden, None)
                    columns[name] = np.frombuffer(plain, place.dtype)
            yield Table(columns, rows)
