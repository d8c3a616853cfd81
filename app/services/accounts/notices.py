"""Mails about access requests: new ones to admins, decisions to analysts.

A message is written with what it tells of, in one transaction, and sent afterwards by the recovery
process, again and again until it is taken or has failed for a day. It holds no word of anybody's,
only what happened and where to read it.
"""

import json
from datetime import timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from app import logs
from app.services.context import Services
from app.services.outward import OutsideError, exchange, send_mail
from app.settings import Settings
from app.storage.rows import AccessRequestRow, NoticeRow, UserRow
from app.storage.types import utc_now

SECONDS = 10.0  # of one exchange with a mail server or the webhook
PAUSE = timedelta(minutes=1)  # before the second attempt, and twice as long before each further one
MOST_ATTEMPTS = 11  # over 17 hours
SENTENCES = {
    "open": "An access request waits for an answer.",
    "granted": "Your access request was granted.",
    "refused": "Your access request was refused.",
}


def write(settings: Settings, session: Session, request: AccessRequestRow) -> None:
    """Queue the mails about a request's new status, to users who want them."""
    if request.status not in SENTENCES:
        return
    if settings.notice_webhook:
        session.add(NoticeRow(request_id=request.id, status=request.status))
    if not settings.smtp_host:
        return
    to_whom = UserRow.role == "admin" if request.status == "open" else UserRow.id == request.user_id
    wanted = UserRow.disabled_at.is_(None) & UserRow.email.is_not(None) & to_whom
    for user in session.scalars(select(UserRow.id).where(wanted)):
        session.add(NoticeRow(request_id=request.id, status=request.status, user_id=user))


def send(services: Services) -> None:
    """Send all mails that are due. A failed one is retried later."""
    while (notice := _taken(services)) is not None:
        failure = ""
        try:
            _deliver(services, notice)
        except OutsideError as error:
            failure = error.reason
            channel = "mail" if notice.user_id else "webhook"
            logs.logger().warning("notice_failed", channel=channel, exception=failure)
        if not failure or notice.attempts >= MOST_ATTEMPTS:
            with services.sessions.write() as session:
                row = session.get(NoticeRow, notice.id)
                if row is not None:
                    session.delete(row)


def _taken(services: Services) -> NoticeRow | None:
    """Return a due mail, reserved for this process for a while, or None."""
    now = utc_now()
    due = select(NoticeRow).where(NoticeRow.due_at <= now).order_by(NoticeRow.due_at).limit(1)
    with services.sessions.read() as session:  # which is not kept waiting by those who write
        if session.scalar(due) is None:
            return None
    with services.sessions.write() as session:
        notice = session.scalar(due.with_for_update(skip_locked=True))
        if notice is not None:
            notice.due_at = now + PAUSE * 2**notice.attempts
            notice.attempts += 1
        return notice


def _deliver(services: Services, notice: NoticeRow) -> None:
    """Send a mail, unless its recipient no longer wants any. Raises OutsideError."""
    settings, sentence = services.settings, SENTENCES[notice.status]
    link = f"{settings.public_url.rstrip('/')}/requests/{notice.request_id}"
    if not settings.public_url:
        link = ""
    if notice.user_id is not None:
        with services.sessions.read() as session:
            user = session.get_one(UserRow, notice.user_id)
        if settings.smtp_host and user.email and user.disabled_at is None:
            text = f"{sentence}\n\n{link or notice.request_id}\n"
            send_mail(settings, user.email, f"dpmcmc: {sentence}", text, SECONDS)
    elif settings.notice_webhook:
        body = {
            "event": f"access_request.{notice.status}",
            "request": str(notice.request_id),
            "text": f"dpmcmc: {sentence} {link}".rstrip(),
        }
        kind = {"Content-Type": "application/json"}
        content = json.dumps(body).encode()
        exchange("POST", settings.notice_webhook, SECONDS, content=content, headers=kind)
