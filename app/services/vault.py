"""Cryptography with the process's secrets: encrypted rows, and keyed hashes of API keys."""

import hmac
import secrets
from base64 import urlsafe_b64encode
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from sqlalchemy import inspect, select
from sqlalchemy.exc import InterfaceError, OperationalError

from app.ledger.anchors import AnchorFile, Signer
from app.settings import Settings
from app.storage.files import DatasetFiles
from app.storage.fingerprint import Fingerprints
from app.storage.keys import NONCE_BYTES, KeyFileError, MasterKey, master_key
from app.storage.rows import DatasetRow, FingerprintRow
from app.storage.session import SessionFactory
from app.storage.stores import store_of

API_KEYS, FINGERPRINTS = "API keys", "fingerprints"
KEPT = (API_KEYS, FINGERPRINTS)  # a rotation cannot make anew what they have hashed
_KEYS = select(DatasetRow.id, DatasetRow.wrapped_key).where(DatasetRow.wrapped_key.is_not(None))
_OF_DESTROYED = select(FingerprintRow.dataset_id, FingerprintRow.sealed).where(
    FingerprintRow.dataset_id.in_(select(DatasetRow.id).where(DatasetRow.wrapped_key.is_(None)))
)
_SEALS = (
    (DatasetRow.__tablename__, _KEYS, False),
    (FingerprintRow.__tablename__, _OF_DESTROYED, True),
)


@dataclass(frozen=True, slots=True)
class Vault:
    """Dataset files, fingerprints, ledger anchors, and the hash of API keys.

    Texts that belong to signing in at a provider it seals, for a browser or for the database.
    """

    files: DatasetFiles
    fingerprints: Fingerprints
    anchors: AnchorFile
    _pepper: bytes = field(repr=False)
    _tokens: bytes = field(repr=False)
    _sign_ins: bytes = field(repr=False)

    def key_digest(self, token: str) -> bytes:
        """Return the HMAC-SHA256 of an API key, under a secret outside the database."""
        return hmac.digest(self._pepper, token.encode(), "sha256")

    def derived_token(self, request: str) -> str:
        """Return an API key of 256 bits, derived from a request and a secret."""
        digest = urlsafe_b64encode(hmac.digest(self._tokens, request.encode(), "sha256"))
        return f"dpm_{digest.rstrip(b'=').decode()}"

    def seal(self, secret: bytes, purpose: bytes) -> bytes:
        """Encrypt by AES-256-GCM, bound to a purpose that decryption must name."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        return nonce + AESGCM(self._sign_ins).encrypt(nonce, secret, purpose)

    def unseal(self, sealed: bytes, purpose: bytes) -> bytes | None:
        """Return what `seal` encrypted; None if it was not this, or under another master key."""
        try:
            nonce, hidden = sealed[:NONCE_BYTES], sealed[NONCE_BYTES:]
            return AESGCM(self._sign_ins).decrypt(nonce, hidden, purpose)
        except (InvalidTag, ValueError):
            return None


def open_vault(settings: Settings, sessions: SessionFactory) -> Vault:
    """Return the vault with the master key, created where no dataset has one yet.

    Raises KeyFileError, with a line that says what to do.
    """
    path = settings.master_key_path
    if not path.exists() and _sealed(sessions):
        raise KeyFileError(
            f"there is no master key in {path}, and the database has datasets that one has sealed:"
            " put the file back, or restore it from its backup"
        )
    master = master_key(path, create=settings.master_key_file is None)
    check_seals(master, path, sessions)
    files = DatasetFiles(store_of(settings), master)
    anchors = AnchorFile(settings.anchor_path, Signer(master.derive("anchors")))
    purposes = API_KEYS, "keys of idempotent requests", "sign-ins"
    return Vault(files, fingerprints_of(master), anchors, *map(master.derive, purposes))


def check_seals(master: MasterKey, path: Path, sessions: SessionFactory) -> None:
    """Raise KeyFileError where a dataset is encrypted under another master key."""
    sealed, fingerprints = _sealed(sessions), fingerprints_of(master)
    wrong = 0
    for seal in sealed:
        try:
            if seal.destroyed:
                fingerprints.open(seal.dataset_id, seal.hidden)
            else:
                master.unwrap(seal.hidden, seal.dataset_id)
        except KeyFileError:
            wrong += 1
    if wrong:
        raise KeyFileError(
            f"the master key in {path} is not the one that sealed {wrong} of {len(sealed)}"
            " datasets in this database: put the right file back, or call rotate-key again where"
            " it was interrupted"
        )


@dataclass(frozen=True, slots=True)
class _Seal:
    """A dataset's ciphertext that shows its master key: wrapped key, or fingerprint."""

    dataset_id: UUID
    hidden: bytes = field(repr=False)
    destroyed: bool


def _sealed(sessions: SessionFactory) -> list[_Seal]:
    """Return a ciphertext of every dataset; none where the database has no tables.

    A database that is away holds nobody up: a job is not paid for before its dataset's key opens.
    """
    try:
        tables = inspect(sessions.engine).get_table_names()
        with sessions.read() as session:
            return [
                _Seal(dataset_id, hidden or b"", destroyed)
                for table, query, destroyed in _SEALS
                if table in tables
                for dataset_id, hidden in session.execute(query)
            ]
    except (OperationalError, InterfaceError):
        return []


def fingerprints_of(master: MasterKey) -> Fingerprints:
    """Return the fingerprinting object of a master key."""
    return Fingerprints(master.derive(FINGERPRINTS), master.derive("sealed fingerprints"))
