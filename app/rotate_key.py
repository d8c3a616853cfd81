"""`python -m app.rotate_key`: replace the master key while every process is stopped.

Wraps every dataset's key anew, seals the fingerprints and signs the anchors anew. Killed at any
moment it may be called again and goes on: the new key is on the disk before anything depends on it,
and takes the old one's place last. What hides what users hold or what is compared later, the hash
of API keys and of uploads' values, keeps its own secret, which the new key file carries on.
"""

import argparse
import os
import secrets
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from app import logs
from app.ledger.anchors import AnchorError, AnchorFile, Signer
from app.ledger.codec import canonical
from app.services.audit.trail import note
from app.services.presence import RunningError, refuse_while_running
from app.services.upkeep import migrate
from app.services.vault import KEPT, check_seals, fingerprints_of
from app.settings import Settings, settings
from app.storage.durable import durable_file, sync_folder
from app.storage.keys import KEY_BYTES, KeyFileError, MasterKey, master_key
from app.storage.locks import UPLOADS, take
from app.storage.rows import DatasetRow, FingerprintRow
from app.storage.session import SessionFactory


def next_key(path: Path, old: MasterKey) -> MasterKey:
    """Return the new key, created on disk or left there by an interrupted call.

    Raises KeyFileError where it does not carry on what the old one has hashed.
    """
    if not path.exists():
        kept = [f"{purpose} {old.derive(purpose).hex()}" for purpose in KEPT]
        lines = "\n".join([secrets.token_hex(KEY_BYTES), *kept, ""])
        with durable_file(path, overwrite=False) as file:
            file.write(lines.encode())
    key = master_key(path, create=False)
    if any(key.derive(purpose) != old.derive(purpose) for purpose in KEPT):
        raise KeyFileError(f"the key in {path} was not made to follow the one in use: move it away")
    return key


def rotate(using: Settings, to: Path | None = None) -> Path:
    """Rotate the key, into `to` or in place. Returns the new key's path.

    Raises KeyFileError, AnchorError and RunningError.
    """
    path = using.master_key_path
    old = master_key(path, create=False)
    next_path = to or path.with_name(f"{path.name}.next")
    migrate(using)
    sessions = SessionFactory(using.database)
    try:
        refuse_while_running(sessions)
        if not next_path.exists():  # else an earlier call may have wrapped everything anew
            check_seals(old, path, sessions)
        new = next_key(next_path, old)
        with sessions.write() as session:
            take(session, UPLOADS)
            wrapped = _wrap(session, old, new)
            _seal(session, old, new)
            note(session, None, "master_key.rotate", datasets=wrapped)
    finally:
        sessions.dispose()
    _sign(using.anchor_path, old, new)
    if to is None:
        os.replace(next_path, path)
        sync_folder(path.parent)
    return to or path


def _either(first: Callable[[], bytes], second: Callable[[], bytes]) -> bytes:
    """Return what the old key decrypts or, after an interrupted call, the new one."""
    try:
        return first()
    except KeyFileError:
        return second()


def _wrap(session: Session, old: MasterKey, new: MasterKey) -> int:
    """Wrap all datasets' keys with the new key; return their number."""
    rows = session.scalars(select(DatasetRow).where(DatasetRow.wrapped_key.is_not(None))).all()
    for row in rows:
        hidden = row.wrapped_key or b""
        key = _either(partial(old.unwrap, hidden, row.id), partial(new.unwrap, hidden, row.id))
        row.wrapped_key = new.wrap(key, row.id)
    return len(rows)


def _seal(session: Session, old: MasterKey, new: MasterKey) -> None:
    """Encrypt all fingerprints with the new key."""
    before, after = fingerprints_of(old), fingerprints_of(new)
    for at in session.scalars(select(FingerprintRow.dataset_id)).all():
        its = FingerprintRow.dataset_id == at
        sealed = session.scalars(select(FingerprintRow.sealed).where(its)).one()
        try:
            content = before.open(at, sealed)
        except KeyFileError:
            content = after.open(at, sealed)
        session.execute(update(FingerprintRow).where(its).values(sealed=after.seal(at, content)))


def _sign(path: Path, old: MasterKey, new: MasterKey) -> None:
    """Sign the valid anchors with the new key."""
    signer = Signer(new.derive("anchors"))
    if not path.exists():
        return
    try:
        latest = AnchorFile(path, Signer(old.derive("anchors"))).latest()
    except AnchorError:
        AnchorFile(path, signer).latest()  # an earlier call came that far, or it is nobody's
        return
    lines = [canonical(signer.line(anchor)) + "\n" for anchor in latest.values()]
    with durable_file(path) as file:
        file.write("".join(lines).encode())


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="rotate-key", description=__doc__.splitlines()[0])
    parser.add_argument("--to", type=Path, help="file of the new key; else it replaces the old one")
    options = parser.parse_args()
    using = settings()
    logs.configure(using.log_format, using.log_level)
    try:
        path = rotate(using, options.to)
    except (KeyFileError, AnchorError, RunningError) as error:
        sys.exit(str(error))
    sys.stdout.write(f"The master key is now in {path}; start the service with it.\n")


if __name__ == "__main__":
    main()
