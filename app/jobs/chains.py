"""Stored draws, put together again."""

from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import select
from sqlalchemy.orm import Session

from app.storage.rows import ChainBlockRow


def stored_chain(
    session: Session, job_id: UUID, attempt: int, parameters: int
) -> NDArray[np.float64]:
    """The draws (chain, draw, parameter) of one attempt, warm-up included."""
    blocks = session.execute(
        select(ChainBlockRow.num_draws, ChainBlockRow.payload)
        .where(ChainBlockRow.job_id == job_id, ChainBlockRow.attempt == attempt)
        .order_by(ChainBlockRow.seq)
    )
    parts = [
        np.frombuffer(payload, dtype="<f8").reshape(-1, draws, parameters)
        for draws, payload in blocks
    ]
    return np.concatenate(parts, axis=1) if parts else np.empty((0, 0, parameters))
