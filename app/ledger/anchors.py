"""Anchors: signed ledger ends outside the database, which reveal a restored older one.

A file of lines, one JSON object each, only ever appended to. A line says where a ledger ended, what
was held on it then (posted and reserved), and is signed with a key derived from the master key. A
ledger whose entry of that number is missing or another one was rewound. `epoch` counts the restores
that an admin accepted: the line with the largest (epoch, seq) of a ledger is the one that counts.

The file must not be put back together with the database. What it cannot find is a rewind of both;
the log and the webhook carry the same lines to elsewhere.
"""

import fcntl
import hmac
import json
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from app.ledger.codec import canonical
from app.storage.durable import sync_folder

AUDIT = UUID(int=0)  # the audit trail's place among the ledgers
SIGNATURE = "signature"


class AnchorError(RuntimeError):
    """The anchor file cannot be read or written, or another master key signed it.

    reason: which of it, in words that hold no path.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """The end of a ledger. held: the filter's sums as stored; empty for the audit trail.

    seq 0: the ledger was lost, and an admin accepted that.
    """

    ledger: UUID
    epoch: int
    seq: int
    head: str
    held: str = ""
    status: str = "open"

    @property
    def place(self) -> tuple[int, int]:
        """Return the sort key by which the latest anchor of a ledger is found."""
        return self.epoch, self.seq


class Signer:
    """Signs ledger ends by HMAC-SHA256."""

    __slots__ = ("__key",)

    def __init__(self, key: bytes) -> None:
        self.__key = key

    def sign(self, fields: Mapping[str, Any]) -> str:
        """Return the signature (hex) of the fields' canonical JSON."""
        return hmac.digest(self.__key, canonical(dict(fields)).encode(), "sha256").hex()

    def end(self, ledger: UUID, rows: int, head: str) -> str:
        """Return the signature of a ledger's number of entries and last hash."""
        return self.sign({"ledger": str(ledger), "rows": rows, "head": head})

    def line(self, anchor: Anchor) -> dict[str, Any]:
        """Return an anchor's JSON line, with its signature."""
        fields = {**asdict(anchor), "ledger": str(anchor.ledger)}
        return {**fields, SIGNATURE: self.sign(fields)}

    def __repr__(self) -> str:
        return "<Signer>"


class AnchorFile:
    """The anchor file, shared by all processes of a data folder."""

    def __init__(self, path: Path, signer: Signer) -> None:
        self._path, self.signer = path, signer
        self._guard = threading.Lock()
        self._latest: dict[UUID, Anchor] = {}
        self._read_to, self._file = 0, (0, 0)

    def append(self, anchors: Iterable[Anchor]) -> None:
        """Append anchors durably. Raises AnchorError."""
        lines = [canonical(self.signer.line(anchor)) + "\n" for anchor in anchors]
        if not lines:
            return
        try:
            with self._opened() as handle:
                fcntl.flock(handle, fcntl.LOCK_EX)
                end = os.lseek(handle, 0, os.SEEK_END)
                torn = end > 0 and os.pread(handle, 1, end - 1) != b"\n"
                written = ("\n" if torn else "") + "".join(lines)
                if os.write(handle, written.encode()) < len(written):
                    raise AnchorError("the file of anchors cannot be written: no space left")
                os.fdatasync(handle)
        except OSError as error:
            raise AnchorError(f"the file of anchors cannot be written: {error.strerror}") from None

    @contextmanager
    def _opened(self) -> Iterator[int]:
        """Yield the descriptor of the locked file."""
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        new = not self._path.exists()
        handle = os.open(self._path, flags, 0o600)
        try:
            if new:
                sync_folder(self._path.parent)
            yield handle
        finally:
            os.close(handle)

    def latest(self) -> dict[UUID, Anchor]:
        """Return the latest anchor of every ledger, reading only what was appended."""
        with self._guard:
            try:
                self._catch_up()
            except FileNotFoundError:
                self._latest, self._read_to = {}, 0
            except OSError as error:
                raise AnchorError(f"the file of anchors cannot be read: {error.strerror}") from None
            return dict(self._latest)

    def _catch_up(self) -> None:
        """Read the lines appended since the last time."""
        status = os.stat(self._path)
        same = self._file == (status.st_dev, status.st_ino)
        if not same or status.st_size < self._read_to:
            self._latest, self._read_to = {}, 0
            self._file = status.st_dev, status.st_ino
        if status.st_size == self._read_to:
            return
        with self._path.open("rb") as file:
            file.seek(self._read_to)
            for line in file:
                if not line.endswith(b"\n"):
                    break  # somebody is writing it, or was when the power went
                self._take(line)
                self._read_to += len(line)

    def _take(self, line: bytes) -> None:
        """Take one line, after checking its signature. Raises AnchorError."""
        try:
            fields = json.loads(line)
        except ValueError:
            return  # torn by a crash: its writer opened no rows
        signature = fields.pop(SIGNATURE, "")
        if not hmac.compare_digest(signature, self.signer.sign(fields)):
            raise AnchorError("a line of the file of anchors is not signed by this master key")
        anchor = Anchor(**{**fields, "ledger": UUID(fields["ledger"])})
        before = self._latest.get(anchor.ledger)
        if before is None or anchor.place >= before.place:
            self._latest[anchor.ledger] = anchor
