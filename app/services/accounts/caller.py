"""The authenticated caller of a request."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Caller:
    """A user's id and role, with the key and the address that the request came from.

    key_id: None where the request came with a token of an identity provider, good until ends_at.
    """

    id: UUID
    role: str
    key_id: UUID | None = None
    address: str | None = None
    ends_at: datetime | None = None
