"""What of a file is sent to be looked at, before it is uploaded."""

from pathlib import Path

BYTES = 2**20  # bytes of a text file that show how it is written
WHOLE = (b"PK\x03\x04", b"PAR1")  # what is read from its end


def beginning(file: Path) -> bytes:
    """What of a file has to be looked at before it is uploaded."""
    with file.open("rb") as content:
        begun = content.read(BYTES)
        return begun + content.read() if begun.startswith(WHOLE) else begun
