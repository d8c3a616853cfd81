"""API keys: authentication by key, and how keys are created, used and revoked."""

import threading
import time
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import BindParameter, bindparam, func, or_, select, update
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.orm import Session
from sqlalchemy.sql import ColumnElement

from app import logs
from app.services.accounts.caller import Caller
from app.services.audit.trail import note
from app.services.context import Services
from app.services.errors import Refusal, invalid, not_found
from app.services.idempotency import Once, check_shown
from app.services.jobs.cancel import stop_all
from app.settings import new_key
from app.storage.rows import JobRow, KeyRow, UserRow
from app.storage.types import utc_now

USED_SECONDS = 60.0  # how exact a key's last use is: it is a write


class _Uses:
    """When this process last recorded the use of each key."""

    def __init__(self) -> None:
        self._guard, self._at = threading.Lock(), dict[UUID, float]()

    def due(self, key_id: UUID) -> bool:
        """Return whether the use of a key is due to be recorded; True once per interval."""
        now = time.monotonic()
        with self._guard:
            before = self._at.get(key_id)
            if before is not None and now - before < USED_SECONDS:
                return False
            self._at[key_id] = now
            return True


_USES = _Uses()


def works(now: datetime | BindParameter[Any]) -> ColumnElement[bool]:
    """Return the SQL condition that a key, joined with its user, is valid now."""
    return (
        KeyRow.revoked_at.is_(None)
        & or_(KeyRow.expires_at.is_(None), KeyRow.expires_at > now)
        & UserRow.disabled_at.is_(None)
    )


def living(session: Session, callers: Collection[Caller]) -> set[Caller]:
    """Return the callers whose key or token is still valid."""
    now = utc_now()
    with_key = {caller.key_id for caller in callers}
    query = select(KeyRow.id).join(UserRow, UserRow.id == KeyRow.user_id)
    keys = set(session.scalars(query.where(KeyRow.id.in_(with_key), works(now))))
    with_token = {caller.id for caller in callers if caller.key_id is None}
    enabled = select(UserRow.id).where(UserRow.id.in_(with_token), UserRow.disabled_at.is_(None))
    users = set(session.scalars(enabled)) if with_token else set()
    return {
        caller
        for caller in callers
        if caller.key_id in keys
        or (caller.key_id is None and caller.id in users and _lasts(caller, now))
    }


def _lasts(caller: Caller, now: datetime) -> bool:
    """Return whether the token that a caller came with has not expired."""
    return caller.ends_at is not None and caller.ends_at > now


# made once: every request runs it
_WHOSE = (
    select(UserRow.id, UserRow.role, KeyRow.id.label("key_id"))
    .join(KeyRow, KeyRow.user_id == UserRow.id)
    .where(KeyRow.digest == bindparam("digest"), works(bindparam("now")))
)


def authenticate(services: Services, token: str, address: str | None = None) -> Caller | None:
    """Return the caller of an API key; None if unknown, revoked, expired, or the user disabled.

    address: where the request came from.
    """
    digest = services.vault.key_digest(token)
    with services.sessions.read() as session:
        row = session.execute(_WHOSE, {"digest": digest, "now": utc_now()}).one_or_none()
    if row is None:
        return None
    if _USES.due(row.key_id):
        _used(services, row.key_id)
    return Caller(row.id, row.role, row.key_id, address)


def _used(services: Services, key_id: UUID) -> None:
    """Record the use of a key. A failing database write is ignored."""
    now = utc_now()
    late = or_(
        KeyRow.last_used_at.is_(None),
        KeyRow.last_used_at < now - timedelta(seconds=USED_SECONDS),
    )
    try:
        with services.sessions.write() as session:
            session.execute(
                update(KeyRow).where(KeyRow.id == key_id, late).values(last_used_at=now)
            )
    except (OperationalError, InterfaceError, PoolTimeoutError) as error:
        logs.logger().warning("key_use_unwritten", exception=type(error).__name__)


def add(
    services: Services,
    caller: Caller,
    user_id: UUID,
    label: str | None = None,
    expires_at: datetime | None = None,
    once: Once | None = None,
) -> tuple[KeyRow, str]:
    """Create a further key of a user. Raises Refusal 404, 409 or 422.

    Made by the user with a key that ends, it ends no later: its end was somebody's limit. once: the
    request, where it is not to make another key when it is sent again.
    """
    with services.sessions.write() as session:
        user = session.scalar(select(UserRow).where(UserRow.id == user_id).with_for_update())
        if user is None:
            raise not_found("user")
        if once is not None and (record := once.made(session, caller)) is not None:
            key, token = session.get_one(KeyRow, record.made_id), once.token(services, caller)
            check_shown(services, record, key, token)
            return key, token
        _check_number(session, user_id, services.settings.max_keys_of_user)
        if user_id == caller.id:
            expires_at = _no_later(session, caller, expires_at)
        key, token = make(services, session, caller, user_id, once)
        key.label = label
        end_at(key, expires_at)
        if once is not None:
            once.remember(session, caller, key.id)
        details = {"label": label, "expires_at": expires_at.isoformat() if expires_at else None}
        note(session, caller, "key.create", key.id, user_id=user_id, **details)
    return key, token


def _check_number(session: Session, user_id: UUID, most: int) -> None:
    """Refuse another key for a user with the maximum number. Raises Refusal 409."""
    living = select(func.count()).select_from(KeyRow).where(KeyRow.user_id == user_id, lasts())
    if (session.scalar(living) or 0) >= most:
        message = f"{most} keys of this user work, as many as may: revoke some that are not needed."
        raise Refusal(409, "too_many_keys", message)


def lasts() -> ColumnElement[bool]:
    """Return the SQL condition that a key has neither expired nor been revoked."""
    lasting = or_(KeyRow.expires_at.is_(None), KeyRow.expires_at > utc_now())
    return KeyRow.revoked_at.is_(None) & lasting


def key(services: Services, caller: Caller, key_id: UUID) -> KeyRow:
    """Return a key without its secret, an admin's any, else an own one. Raises Refusal 404."""
    with services.sessions.read() as session:
        return _theirs(session, caller, key_id)


def _theirs(session: Session, caller: Caller, key_id: UUID) -> KeyRow:
    """Return the key if the caller may see it. Raises Refusal 404."""
    key = session.get(KeyRow, key_id)
    if key is None or not (caller.role == "admin" or key.user_id == caller.id):
        raise not_found("key")
    return key


def _no_later(session: Session, caller: Caller, expires_at: datetime | None) -> datetime | None:
    """Return a new key's expiry. Raises Refusal 422 where it is after the caller's own key's."""
    end = caller.ends_at or session.scalar(
        select(KeyRow.expires_at).where(KeyRow.id == caller.key_id)
    )
    if end is not None and expires_at is not None and expires_at > end:
        raise invalid(
            "/expires_at", "A key that you make for yourself ends no later than the one you use."
        )
    return expires_at or end


def make(
    services: Services, session: Session, caller: Caller, user_id: UUID, once: Once | None = None
) -> tuple[KeyRow, str]:
    """Return a new key's row and token. A repeated idempotent request gets the same token."""
    token = new_key() if once is None else once.token(services, caller)
    row = KeyRow(
        id=uuid4(),
        user_id=user_id,
        digest=services.vault.key_digest(token),
        created_at=utc_now(),
        created_by=caller.id,
    )
    session.add(row)
    return row, token


def end_at(key: KeyRow, moment: datetime | None) -> None:
    """Set the expiry of a key; None: never. Raises Refusal 422 for a past moment."""
    if moment is not None and moment <= utc_now():
        raise invalid("/expires_at", "This moment has passed.")
    key.expires_at = moment


def revoke(services: Services, caller: Caller, key_id: UUID) -> None:
    """Revoke a key immediately: an admin any, others their own. Idempotent.

    The jobs that were submitted with it are stopped.

    Raises Refusal 404, and 409 for the last admin's last key.
    """
    with services.sessions.write() as session:
        key = _theirs(session, caller, key_id)
        if key.revoked_at is None:
            _revoke(session, caller, [key])


def revoke_all(services: Services, caller: Caller, user_id: UUID) -> None:
    """Revoke every key of a user but the one in use. Idempotent.

    Raises Refusal 404, and 409 where no admin could come in any more.
    """
    with services.sessions.write() as session:
        if session.get(UserRow, user_id) is None:
            raise not_found("user")
        of_user = select(KeyRow).where(KeyRow.user_id == user_id, KeyRow.revoked_at.is_(None))
        others = of_user.where(KeyRow.id != caller.key_id) if caller.key_id else of_user
        keys = session.scalars(others.order_by(KeyRow.id)).all()
        if keys:
            _revoke(session, caller, keys)


def _revoke(session: Session, caller: Caller, keys: Sequence[KeyRow]) -> None:
    """Revoke keys, with an entry in the audit trail for each."""
    ids = [key.id for key in keys]
    if not admins_left(session, KeyRow.id.not_in(ids)):
        raise Refusal(409, "last_admin_key", "This is the last key of any admin.")
    session.execute(update(KeyRow).where(KeyRow.id.in_(ids)).values(revoked_at=utc_now()))
    stopped = {key.id: stop_all(session, "key_revoked", JobRow.key_id == key.id) for key in keys}
    for key in keys:
        details = {"jobs_stopped": stopped[key.id]} if stopped[key.id] else {}
        note(session, caller, "key.revoke", key.id, user_id=key.user_id, **details)


def admins_left(session: Session, without: ColumnElement[bool]) -> bool:
    """Return whether an admin with a valid, non-expiring key would remain. Locks those keys.

    without: what stays.
    """
    admins = (
        select(KeyRow.id)
        .join(UserRow, UserRow.id == KeyRow.user_id)
        .where(UserRow.role == "admin", works(utc_now()), KeyRow.expires_at.is_(None))
        .order_by(KeyRow.id)
    )
    before = session.scalars(admins.with_for_update()).all()
    return not before or session.scalars(admins.where(without).limit(1)).first() is not None
