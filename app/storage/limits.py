"""Size limits of uploads."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """file_bytes: of the upload. decoded_bytes, chunk_bytes: of Parquet when decoded, in all and of
    one column in one row group; text_bytes: of one that is text, whose texts are few and short
    where they are declared categories, and are kept once. rows: of the table. line_bytes: of one
    line of CSV. unit_bytes: that a table may take in memory whose rows are grouped by person."""

    file_bytes: int = 4 * 2**30
    decoded_bytes: int = 16 * 2**30
    chunk_bytes: int = 2**29
    text_bytes: int = 2**26
    rows: int = 50_000_000
    line_bytes: int = 2**20
    unit_bytes: int = 2**30
