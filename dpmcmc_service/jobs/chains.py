"""Stored draws, put together again."""

from collections.abc import Iterator
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Row, func, select
from sqlalchemy.orm import Session
from sqlalchemy.sql import ColumnElement

from dpmcmc_service.storage.rows import ChainBlockRow


def stored_chain(
    session: Session, job_id: UUID, attempt: int, parameters: int
) -> NDArray[np.float64]:
    """The draws (chain, draw, parameter) of one attempt, warm-up included.

    In memory once, beside a block or two on their way from the database.
    """
    of_attempt = (ChainBlockRow.job_id == job_id, ChainBlockRow.attempt == attempt)
    total = session.scalar(select(func.sum(ChainBlockRow.num_draws)).where(*of_attempt))
    whole = np.empty((0, 0, parameters))
    for first, draws, payload in _blocks(session, *of_attempt):
        block = np.frombuffer(payload, dtype="<f8").reshape(-1, draws, parameters)
        if not whole.size:
            whole = np.empty((len(block), total or 0, parameters))
        whole[:, first : first + draws] = block
    return whole


def stored_block(session: Session, job_id: UUID, attempt: int, seq: int) -> NDArray[np.float64]:
    """The numbers of one block of an attempt, (numbers,). Raises KeyError where there is none."""
    row = session.get(ChainBlockRow, (job_id, attempt, seq))
    if row is None:
        raise KeyError(seq)
    return np.frombuffer(row.payload, dtype="<f8").copy()


def _blocks(session: Session, *conditions: ColumnElement[bool]) -> Iterator[Row[int, int, bytes]]:
    """The rows one by one: the driver does not fetch them all at once."""
    query = select(ChainBlockRow.first_draw, ChainBlockRow.num_draws, ChainBlockRow.payload)
    query = query.where(*conditions).order_by(ChainBlockRow.seq)
    yield from session.execute(query, execution_options={"yield_per": 1})
