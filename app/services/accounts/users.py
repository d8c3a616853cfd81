"""Users: creation with a first key, disabling, and a user's own view."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError

from app import ledger
from app.ledger.audit import AuditEntry
from app.services.accounts import keys
from app.services.accounts.caller import Caller
from app.services.audit.trail import note
from app.services.context import Services
from app.services.cursors import Page, by_time
from app.services.errors import Refusal, not_found
from app.services.idempotency import Once, check_shown
from app.services.jobs.cancel import stop_all
from app.settings import new_key
from app.storage.rows import JobRow, KeyRow, UserRow
from app.storage.types import utc_now

FIRST_ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Person:
    """A user with its keys, and other users' acts on them."""

    row: UserRow
    keys: Sequence[KeyRow]
    acts: Sequence[AuditEntry]


def create(
    services: Services,
    caller: Caller,
    name: str,
    role: str,
    once: Once | None = None,
    expires_at: datetime | None = None,
) -> tuple[UserRow, KeyRow, str]:
    """Create a user with a first key. Raises Refusal 409 where the name is taken, and 422.

    once: the request, where it is not to make another user when it is sent again. expires_at: when
    the key ends.
    """
    if once is not None and (earlier := _made_before(services, caller, once)) is not None:
        return earlier
    try:
        with services.sessions.write() as session:
            user = UserRow(id=uuid4(), name=name, role=role, created_at=utc_now())
            session.add(user)
            session.flush()
            key, token = keys.make(services, session, caller, user.id, once)
            keys.end_at(key, expires_at)
            if once is not None:
                once.remember(session, caller, key.id)
            named = {"name": name, "role": role, "key": str(key.id)}
            if expires_at is not None:
                named["expires_at"] = expires_at.isoformat()
            note(session, caller, "user.create", user.id, user_id=user.id, **named)
    except IntegrityError:
        if once is not None and (earlier := _made_before(services, caller, once)) is not None:
            return earlier  # by the same request, sent twice at once
        raise Refusal(409, "name_taken", "There is a user of this name.") from None
    return user, key, token


def _made_before(
    services: Services, caller: Caller, once: Once
) -> tuple[UserRow, KeyRow, str] | None:
    """Return the user that an idempotent request created before. Raises Refusal 409 or 422."""
    with services.sessions.read() as session:
        record = once.made(session, caller)
        if record is None:
            return None
        key, token = session.get_one(KeyRow, record.made_id), once.token(services, caller)
        check_shown(services, record, key, token)
        return session.get_one(UserRow, key.user_id), key, token


def user(services: Services, user_id: UUID) -> tuple[UserRow, Sequence[KeyRow]]:
    """Return a user and its keys. Raises Refusal 404."""
    with services.sessions.read() as session:
        row = session.get(UserRow, user_id)
        if row is None:
            raise not_found("user")
        query = select(KeyRow).where(KeyRow.user_id == user_id).order_by(KeyRow.created_at)
        return row, session.scalars(query).all()


def me(services: Services, caller: Caller) -> Person:
    """Return the caller's own record, keys made by others and their acts included."""
    with services.sessions.read() as session:
        query = select(KeyRow).where(KeyRow.user_id == caller.id).order_by(KeyRow.created_at)
        return Person(
            session.get_one(UserRow, caller.id),
            session.scalars(query).all(),
            ledger.audit.concerning(session, caller.id),
        )


def give_email(services: Services, caller: Caller, email: str | None) -> Person:
    """Set the caller's address for mails about access requests; None: no mails."""
    with services.sessions.write() as session:
        user = session.scalar(select(UserRow).where(UserRow.id == caller.id).with_for_update())
        if user is not None and user.email != email:
            user.email = email
            note(
                session, caller, "user.email", caller.id, user_id=caller.id, given=email is not None
            )
    return me(services, caller)


def disable(
    services: Services, caller: Caller, user_id: UUID, disabled: bool, reason: str | None = None
) -> UserRow:
    """Disable a user and stop its jobs, or enable it again. Idempotent.

    What waits is cancelled and given back, what runs stops and stays paid. Raises Refusal 404, and
    409 for the last admin who can come in.
    """
    with services.sessions.write() as session:
        user = session.scalar(select(UserRow).where(UserRow.id == user_id).with_for_update())
        if user is None:
            raise not_found("user")
        if disabled == (user.disabled_at is not None):
            return user
        if disabled and not keys.admins_left(session, KeyRow.user_id != user_id):
            raise Refusal(409, "last_admin", "This is the last admin who can come in.")
        user.disabled_at = utc_now() if disabled else None
        stopped = stop_all(session, None, JobRow.user_id == user_id) if disabled else 0
        act = "user.disable" if disabled else "user.enable"
        why: dict[str, Any] = {"reason": reason} if reason else {}
        note(session, caller, act, user_id, user_id=user_id, jobs_stopped=stopped, **why)
    return user


def users(
    services: Services, limit: int, cursor: str | None
) -> tuple[Page[UserRow], dict[UUID, list[KeyRow]]]:
    """Return a page of users, newest first, and their keys."""
    with services.sessions.read() as session:
        page = by_time(session, select(UserRow), UserRow.created_at, UserRow.id, limit, cursor)
        keys: dict[UUID, list[KeyRow]] = {user.id: [] for user in page.items}
        for key in session.scalars(
            select(KeyRow).where(KeyRow.user_id.in_(keys)).order_by(KeyRow.created_at)
        ):
            keys[key.user_id].append(key)
    return page, keys


def ensure_admin(services: Services, token: str) -> str | None:
    """Create the first admin if there is none; enable the configured key unless revoked.

    token: the configured key, or empty. Returns the key that was made for want of one.
    """
    with services.sessions.write() as session:
        admin = session.scalar(
            select(UserRow)
            .where(UserRow.role == "admin", UserRow.disabled_at.is_(None))
            .order_by(UserRow.created_at)
            .limit(1)
        )
        fresh = None if token or admin else new_key()
        if admin is None:
            admin = UserRow(id=uuid4(), name=FIRST_ADMIN, role="admin", created_at=utc_now())
            session.add(admin)
            session.flush()
        digest = services.vault.key_digest(token or fresh or "")
        known = session.scalar(select(KeyRow.id).where(KeyRow.digest == digest))
        if (token or fresh) and known is None:
            key = KeyRow(id=uuid4(), user_id=admin.id, digest=digest, created_at=utc_now())
            session.add(key)
            note(session, None, "key.create", key.id, user_id=admin.id, setting="DPMCMC_ADMIN_KEY")
    return fresh
