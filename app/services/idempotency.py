"""Idempotency keys: a repeated request creates its resource only once.

Jobs keep their keys in their own rows: see submit. Users, keys and datasets are kept here.
"""

import hashlib
import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from app.services.accounts.caller import Caller
from app.services.context import Services
from app.services.errors import Refusal
from app.storage.rows import IdempotencyRow, KeyRow
from app.storage.types import utc_now

SHOWN_AGAIN = timedelta(hours=24)  # that a lost answer can be asked for with its key in it


@dataclass(frozen=True, slots=True)
class Once:
    """A request with an Idempotency-Key. digest: hexadecimal hash of its body."""

    key: str
    digest: str

    def token(self, services: Services, caller: Caller) -> str:
        """Return the API key that the request creates, derived from the service's secret.

        A key is kept as a hash, so the answer could not be given again otherwise.
        """
        return services.vault.derived_token(f"{caller.id}\n{self.key}\n{self.digest}")

    def made(self, session: Session, caller: Caller) -> IdempotencyRow | None:
        """Return what it created before. Raises Refusal 422 where the body differs."""
        earlier = session.get(IdempotencyRow, (caller.id, self.key))
        if earlier is not None and earlier.body_hash != self.digest:
            raise Refusal(
                422, "idempotency_key_reused", "This Idempotency-Key was used for another request."
            )
        return earlier

    def remember(self, session: Session, caller: Caller, made: UUID) -> None:
        """Record what it creates, in the same transaction."""
        row = IdempotencyRow(user_id=caller.id, key=self.key, body_hash=self.digest, made_id=made)
        session.add(row)


def once(key: str | None, *asked: Any) -> Once | None:
    """Return a request with its key, or None without a key. asked: JSON values of its body."""
    if key is None:
        return None
    written = json.dumps(asked, sort_keys=True, default=str).encode()
    return Once(key, hashlib.sha256(written).hexdigest())


def check_shown(services: Services, row: IdempotencyRow, key: KeyRow, token: str) -> None:
    """Raise Refusal 409 where a key's secret can no longer be shown again."""
    late = utc_now() - row.created_at > SHOWN_AGAIN
    if late or services.vault.key_digest(token) != key.digest:
        raise Refusal(
            409,
            "key_not_shown_again",
            "This request has made a key before, which is not shown again. Revoke it, and make"
            " another.",
        )
