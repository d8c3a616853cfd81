"""The master key, and the keys derived from it or wrapped by it."""

import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from app.storage.durable import durable_file

KEY_BYTES = 32
NONCE_BYTES = 12


class KeyFileError(RuntimeError):
    """The master key file is invalid, or another master key wrapped a key."""


class MasterKey:
    """A secret of 256 bits that is never shown; derives one key for each purpose.

    kept: derived keys of an earlier master key that a rotation carried on, by purpose.
    """

    __slots__ = ("__kept", "__secret")

    def __init__(self, secret: bytes, kept: Mapping[str, bytes] | None = None) -> None:
        kept = dict(kept or {})
        if any(len(key) != KEY_BYTES for key in (secret, *kept.values())):
            raise KeyFileError("a master key has 256 bits")
        self.__secret, self.__kept = secret, kept

    def derive(self, purpose: str) -> bytes:
        """Return a derived 256-bit key for one purpose (HKDF-SHA256)."""
        if purpose in self.__kept:
            return self.__kept[purpose]
        return HKDF(SHA256(), KEY_BYTES, salt=None, info=f"dpmcmc {purpose}".encode()).derive(
            self.__secret
        )

    def wrap(self, key: bytes, dataset_id: UUID) -> bytes:
        """Return a dataset's key, encrypted and bound to the dataset (AES-256-GCM)."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        return nonce + self._wrapper().encrypt(nonce, key, dataset_id.bytes)

    def unwrap(self, wrapped: bytes, dataset_id: UUID) -> bytes:
        """Return an unwrapped key. Raises KeyFileError for another master key or dataset."""
        nonce, hidden = wrapped[:NONCE_BYTES], wrapped[NONCE_BYTES:]
        try:
            return self._wrapper().decrypt(nonce, hidden, dataset_id.bytes)
        except InvalidTag:
            raise KeyFileError("the dataset's key was not wrapped by this master key") from None

    def _wrapper(self) -> AESGCM:
        """Return the cipher that wraps keys."""
        return AESGCM(self.derive("dataset keys"))

    def __repr__(self) -> str:
        return "<MasterKey>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a master key is not serialised")


def master_key(path: Path, *, create: bool) -> MasterKey:
    """Return the master key of a file. create: create the file (0600) if missing.

    64 hexadecimal digits; after a rotation also a line for each derived key that was carried on.

    Several processes may start at once: the first file stays. Raises KeyFileError.
    """
    if create and not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            with durable_file(path, overwrite=False) as file:
                file.write(secrets.token_hex(KEY_BYTES).encode() + b"\n")
        except FileExistsError:
            pass
    try:
        first, *others = path.read_text("ascii").strip().splitlines()
        kept = dict(line.rsplit(" ", 1) for line in others)
        return MasterKey(
            bytes.fromhex(first), {name: bytes.fromhex(key) for name, key in kept.items()}
        )
    except (OSError, ValueError):
        raise KeyFileError(f"no master key in {os.fspath(path)}") from None
