"""Users and their keys. A key is told once; what is kept is a keyed hash of it."""

from dataclasses import dataclass
from uuid import UUID, uuid4

from sqlalchemy import select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app.jobs.errors import Refusal, not_found
from app.jobs.pages import Page, by_time
from app.jobs.services import Services
from app.settings import new_key
from app.storage.rows import KeyRow, UserRow
from app.storage.types import utc_now

FIRST_ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: a user's id and role."""

    id: UUID
    role: str


def authenticate(services: Services, token: str) -> Caller | None:
    """Whose key this is; None where nobody's, or revoked."""
    digest = services.vault.key_digest(token)
    with services.sessions.read() as session:
        row = session.execute(
            select(UserRow.id, UserRow.role)
            .join(KeyRow, KeyRow.user_id == UserRow.id)
            .where(KeyRow.digest == digest, KeyRow.revoked_at.is_(None))
        ).one_or_none()
    return None if row is None else Caller(row.id, row.role)


def create(services: Services, name: str, role: str) -> tuple[UserRow, KeyRow, str]:
    """A new user with a first key. Raises Refusal 409 where the name is taken."""
    try:
        with services.sessions.write() as session:
            user = UserRow(id=uuid4(), name=name, role=role, created_at=utc_now())
            session.add(user)
            session.flush()
            key, token = _add_key(services, session, user.id)
    except IntegrityError:
        raise Refusal(409, "name_taken", "There is a user of this name.") from None
    return user, key, token


def add_key(services: Services, user_id: UUID) -> tuple[KeyRow, str]:
    """A further key of a user. Raises Refusal 404."""
    with services.sessions.write() as session:
        if session.get(UserRow, user_id) is None:
            raise not_found("user")
        return _add_key(services, session, user_id)


def _add_key(services: Services, session: Session, user_id: UUID) -> tuple[KeyRow, str]:
    token = new_key()
    row = KeyRow(
        id=uuid4(),
        user_id=user_id,
        digest=services.vault.key_digest(token),
        created_at=utc_now(),
    )
    session.add(row)
    return row, token


def revoke(services: Services, key_id: UUID) -> None:
    """Revoke a key at once. Raises Refusal 404, and 409 for the last admin's last key."""
    with services.sessions.write() as session:
        key = session.get(KeyRow, key_id)
        if key is None or key.revoked_at is not None:
            raise not_found("key")
        admins = session.scalars(
            select(KeyRow.id)
            .join(UserRow, UserRow.id == KeyRow.user_id)
            .where(UserRow.role == "admin", KeyRow.revoked_at.is_(None))
            .with_for_update()
        ).all()
        if list(admins) == [key_id]:
            raise Refusal(409, "last_admin_key", "This is the last key of any admin.")
        session.execute(update(KeyRow).where(KeyRow.id == key_id).values(revoked_at=utc_now()))


def users(
    services: Services, limit: int, cursor: str | None
) -> tuple[Page[UserRow], dict[UUID, list[KeyRow]]]:
    """All users, newest first, and their keys."""
    with services.sessions.read() as session:
        page = by_time(session, select(UserRow), UserRow.created_at, UserRow.id, limit, cursor)
        keys: dict[UUID, list[KeyRow]] = {user.id: [] for user in page.items}
        for key in session.scalars(
            select(KeyRow).where(KeyRow.user_id.in_(keys)).order_by(KeyRow.created_at)
        ):
            keys[key.user_id].append(key)
    return page, keys


def ensure_admin(services: Services, token: str) -> str | None:
    """Make the first admin where there is none; let the configured key in unless it was revoked.

    token: the configured key, or empty. Returns the key that was made for want of one.
    """
    with services.sessions.write() as session:
        admin = session.scalar(
            select(UserRow).where(UserRow.role == "admin").order_by(UserRow.created_at).limit(1)
        )
        made = None if token or admin else new_key()
        if admin is None:
            admin = UserRow(id=uuid4(), name=FIRST_ADMIN, role="admin", created_at=utc_now())
            session.add(admin)
            session.flush()
        digest = services.vault.key_digest(token or made or "")
        known = session.scalar(select(KeyRow.id).where(KeyRow.digest == digest))
        if (token or made) and known is None:
            session.add(KeyRow(id=uuid4(), user_id=admin.id, digest=digest, created_at=utc_now()))
    return made
