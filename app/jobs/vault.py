"""The process's secrets at work: encrypted rows, and the keyed hash of API keys."""

import hmac
from dataclasses import dataclass, field

from app.settings import Settings
from app.storage.files import DatasetFiles
from app.storage.keys import master_key
from app.storage.local_store import LocalStore
from app.storage.store import Store


@dataclass(frozen=True, slots=True)
class Vault:
    """The datasets' files, and what turns an API key into what is stored of it."""

    files: DatasetFiles
    _pepper: bytes = field(repr=False)

    def key_digest(self, token: str) -> bytes:
        """HMAC-SHA256 of an API key under a secret that is not in the database."""
        return hmac.digest(self._pepper, token.encode(), "sha256")


def open_vault(settings: Settings) -> Vault:
    """Read the master key, or make it where no file was named. Raises KeyFileError."""
    master = master_key(settings.master_key_path, create=settings.master_key_file is None)
    return Vault(DatasetFiles(_store(settings), master), master.derive("API keys"))


def _store(settings: Settings) -> Store:
    """Where the encrypted rows lie. The object store's library is loaded only where it is used."""
    if not settings.s3_bucket:
        return LocalStore(settings.datasets_dir)
    from app.storage.s3_store import Bucket, S3Store

    credentials = {
        "access_key_id": settings.s3_access_key.get_secret_value(),
        "secret_access_key": settings.s3_secret_key.get_secret_value(),
    }
    return S3Store(
        Bucket(
            settings.s3_bucket,
            settings.s3_prefix,
            settings.s3_endpoint or None,
            settings.s3_region or None,
            credentials if credentials["access_key_id"] else None,
        )
    )
