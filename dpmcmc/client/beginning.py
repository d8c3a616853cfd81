"""Files that a client sends: where they are, and what of one is looked at before its upload."""

from os import PathLike
from pathlib import Path

FilePath = str | PathLike[str]

BYTES = 2**20  # bytes of a text file that show how it is written
WHOLE = (b"PK\x03\x04", b"PAR1")  # what is read from its end


def path_of(file: object) -> Path:
    """Where a file is. Raises TypeError on anything that names none, as an open file or a frame."""
    if not isinstance(file, str | PathLike):
        kind = type(file).__name__
        raise TypeError(
            f"the path of a CSV, Parquet or zip file is needed, not a {kind}: write a frame to a "
            'file first, as in frame.to_parquet("rows.parquet")'
        )
    return Path(file)


def beginning(file: Path) -> bytes:
    """What of a file has to be looked at before it is uploaded."""
    with file.open("rb") as content:
        begun = content.read(BYTES)
        return begun + content.read() if begun.startswith(WHOLE) else begun
