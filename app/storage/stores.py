"""The configured store."""

from app.settings import Settings
from app.storage.local_store import LocalStore
from app.storage.store import Store


def store_of(settings: Settings) -> Store:
    """Return the configured store. The S3 library is loaded only if used."""
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
