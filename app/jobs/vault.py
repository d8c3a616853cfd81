"""The process's secrets at work: encrypted rows, and the keyed hash of API keys."""

import hmac
from dataclasses import dataclass, field

from app.settings import Settings
from app.storage.files import DatasetFiles
from app.storage.keys import master_key


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
    return Vault(DatasetFiles(settings.datasets_dir, master), master.derive("API keys"))
