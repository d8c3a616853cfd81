"""What must hold at the end, read from the database itself."""

from collections import Counter
from collections.abc import Collection
from typing import Any
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from app import ledger
from app.storage.rows import FINAL_STATUSES, ChainBlockRow, JobRow, LedgerRow


def unfinished(session: Session) -> list[Any]:
    """The jobs that have not ended, and how far each is."""
    far = select(JobRow.id, JobRow.status, JobRow.attempt, JobRow.progress_step)
    return list(
        session.execute(far.where(JobRow.status.not_in(FINAL_STATUSES)).order_by(JobRow.id))
    )


def audit(session: Session, dataset: UUID, accepted: Collection[str]) -> tuple[list[str], Counter]:
    """What is wrong, in words, and how many jobs ended how."""
    jobs = session.scalars(select(JobRow)).all()
    known = {str(job.id) for job in jobs}
    wrong = [f"job {job} was accepted and is gone" for job in accepted if job not in known]
    for job in jobs:
        wrong += [f"job {job.id} ({job.status}): {what}" for what in _wrong_with(session, job)]
    checked = ledger.verify(session, dataset)
    if not checked.ok:
        wrong.append(f"the ledger does not verify: {checked.problem}")
    balance = ledger.balance(session, dataset)
    posted = session.scalars(select(LedgerRow.job_id).where(LedgerRow.kind == "post")).all()
    if balance.jobs != len(posted) or len(set(posted)) != len(posted):
        wrong.append(f"{len(posted)} debits of {len(set(posted))} jobs, counted as {balance.jobs}")
    if balance.reserved_epsilon:
        wrong.append("something is still reserved")
    return wrong, Counter(_outcome(job) for job in jobs)


def _outcome(job: JobRow) -> str:
    return f"{job.status} ({job.error_code})" if job.error_code else job.status


def _wrong_with(session: Session, job: JobRow) -> list[str]:
    if job.status not in FINAL_STATUSES:
        return ["it has not ended"]
    entries = select(LedgerRow.kind).where(LedgerRow.job_id == job.id).order_by(LedgerRow.seq)
    kinds = session.scalars(entries).all()
    wrong = []
    paid = ["reserve", "post"]
    if kinds != paid and (job.attempt or kinds != ["reserve", "void"]):
        wrong.append(f"its entries are {kinds} after {job.attempt} attempts")
    blocks = session.execute(
        select(ChainBlockRow.attempt, ChainBlockRow.first_draw, ChainBlockRow.num_draws)
        .where(ChainBlockRow.job_id == job.id)
        .order_by(ChainBlockRow.attempt, ChainBlockRow.seq)
    ).all()
    if job.status != "succeeded":
        return [*wrong, "it left draws behind"] if blocks else wrong
    if {attempt for attempt, _, _ in blocks} != {job.released_attempt}:
        wrong.append("its draws are not those of one attempt")
    at = 0
    for _, first, draws in blocks:
        if first != at:
            wrong.append("its draws have a gap")
        at = first + draws
    if at != job.progress_of:
        wrong.append(f"it has {at} draws of {job.progress_of}")
    return wrong
