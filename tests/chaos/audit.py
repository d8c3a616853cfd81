"""What must hold at the end, read from the database itself."""

from collections import Counter
from collections.abc import Collection, Iterator
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from app import ledger
from app.storage.rows import FINAL_STATUSES, ChainBlockRow, DatasetRow, JobRow, LedgerRow


def unfinished(session: Session) -> list[Any]:
    """The jobs that have not ended, and how far each is."""
    far = select(JobRow.id, JobRow.status, JobRow.attempt, JobRow.progress_step)
    return list(
        session.execute(far.where(JobRow.status.not_in(FINAL_STATUSES)).order_by(JobRow.id))
    )


def audit(session: Session, accepted: Collection[str]) -> tuple[list[str], Counter[str]]:
    """What is wrong, in words, and how many jobs ended how."""
    jobs = session.scalars(select(JobRow)).all()
    known = {str(job.id) for job in jobs}
    wrong = [f"job {job} was accepted and is gone" for job in accepted if job not in known]
    for job in jobs:
        wrong += [f"job {job.id} ({job.status}): {what}" for what in _wrong_with(session, job)]
    for dataset in session.scalars(select(DatasetRow.id)):
        wrong += _wrong_in_books(session, dataset)
    return wrong, Counter(_outcome(job) for job in jobs)


def _wrong_in_books(session: Session, dataset: UUID) -> Iterator[str]:
    checked = ledger.verify(session, dataset)
    if not checked.ok:
        yield f"the ledger does not verify: {checked.problem}"
    balance = ledger.balance(session, dataset)
    of_dataset = LedgerRow.dataset_id == dataset
    posted = session.scalars(select(LedgerRow.job_id).where(of_dataset, LedgerRow.kind == "post"))
    paid = Counter(posted)
    if balance.jobs != paid.total() or len(paid) != paid.total():
        yield f"{paid.total()} debits of {len(paid)} jobs, counted as {balance.jobs}"
    if balance.reserved_epsilon:
        yield "something is still reserved"


def _outcome(job: JobRow) -> str:
    return f"{job.status} ({job.error_code})" if job.error_code else job.status


def _end_of(job: JobRow) -> datetime:
    return job.finished_at or job.created_at


def _wrong_with(session: Session, job: JobRow) -> list[str]:
    if job.status not in FINAL_STATUSES:
        return ["it has not ended"]
    entries = select(LedgerRow.kind).where(LedgerRow.job_id == job.id).order_by(LedgerRow.seq)
    kinds = session.scalars(entries).all()
    wrong = []
    if job.started_at is not None and not job.created_at <= job.started_at <= _end_of(job):
        wrong.append(f"created {job.created_at}, started {job.started_at}, {job.finished_at}")
    paid = ["reserve", "post"]
    if job.released_attempt == 1 and job.reserved_epsilon is not None:
        paid.append("return")
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
