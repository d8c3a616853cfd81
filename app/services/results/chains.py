"""Stored draws: read as a whole or in pieces."""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import LargeBinary, Row, func, select
from sqlalchemy.orm import Session
from sqlalchemy.sql import ColumnElement

from app.storage.rows import ChainBlockRow
from app.storage.session import SessionFactory

Floats = NDArray[np.float64]
PIECE_NUMBERS = 2**18  # read at once: 2 MiB
COLUMN_NUMBERS = 2**19  # of a table's columns, which lie far from each other
Place = tuple[int, int, int]  # of a block: seq, first draw, draws


class Draws(Protocol):
    """Draws of several chains, of shape (chains, draws, parameters)."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Return (chains, draws, parameters)."""
        ...

    def pieces(self, chain: int) -> Iterator[tuple[int, Floats]]:
        """Yield (first draw number, draws (draw, parameter)) of one chain, in order."""
        ...


@dataclass(frozen=True, slots=True)
class HeldDraws:
    """Draws in memory. whole: (chain, draw, parameter)."""

    whole: Floats

    @property
    def shape(self) -> tuple[int, int, int]:
        """Return (chains, draws, parameters)."""
        chains, draws, parameters = self.whole.shape
        return chains, draws, parameters

    def pieces(self, chain: int) -> Iterator[tuple[int, Floats]]:
        """Yield all draws of one chain as one piece."""
        yield 0, self.whole[chain]


@dataclass(frozen=True, slots=True)
class StoredDraws:
    """Draws in the database, read in pieces, each in its own transaction.

    whoever fetches them slowly holds neither memory nor a connection. converted: what is made of
    draws (draw, parameter) before they are handed on.
    """

    sessions: SessionFactory
    job_id: UUID
    attempt: int
    shape: tuple[int, int, int]
    places: tuple[Place, ...]
    converted: Callable[[Floats], Floats]

    def pieces(self, chain: int) -> Iterator[tuple[int, Floats]]:
        """Yield the draws (draw, parameter) of one chain. Raises LookupError once deleted."""
        parameters = self.shape[2]
        most = max(1, PIECE_NUMBERS // parameters)
        for seq, first, draws in self.places:
            for start in range(0, draws, most):
                count = min(most, draws - start)
                begin = chain * draws + start
                payload = self._read(seq, 8 * parameters * begin, 8 * parameters * count)
                piece = np.frombuffer(payload, dtype="<f8").reshape(count, parameters)
                yield first + start, self.converted(piece)

    def _read(self, seq: int, begin: int, length: int) -> bytes:
        """Return bytes of a block."""
        of_block = (self.job_id, self.attempt, seq)
        with self.sessions.read() as session:
            return _part(session, *of_block, begin, length)


def _part(session: Session, job_id: UUID, attempt: int, seq: int, begin: int, length: int) -> bytes:
    """Return bytes of a block. Raises LookupError once deleted."""
    part = func.substr(ChainBlockRow.payload, begin + 1, length, type_=LargeBinary)
    query = select(part).where(*_of_attempt(job_id, attempt), ChainBlockRow.seq == seq)
    payload = session.scalar(query)
    if payload is None or len(payload) != length:
        raise LookupError("these draws were deleted")
    return payload


def stored_columns(
    sessions: SessionFactory, job_id: UUID, attempt: int, seq: int, rows: int
) -> Iterator[Floats]:
    """Yield a block of columns (column, row), `rows` rows at a time.

    Each part is read in a transaction of its own. Raises LookupError once the block is gone.
    """
    of_block = (job_id, attempt, seq)
    with sessions.read() as session:
        length = func.length(ChainBlockRow.payload)
        query = select(length).where(*_of_attempt(job_id, attempt), ChainBlockRow.seq == seq)
        size = session.scalar(query) or 0
    columns = size // (8 * rows)
    most = max(1, COLUMN_NUMBERS // max(columns, 1))
    for start in range(0, rows, most):
        count = min(most, rows - start)
        with sessions.read() as session:
            parts = [
                _part(session, *of_block, 8 * (column * rows + start), 8 * count)
                for column in range(columns)
            ]
        yield np.frombuffer(b"".join(parts), dtype="<f8").reshape(columns, count)


def kept_draws(
    sessions: SessionFactory,
    session: Session,
    job_id: UUID,
    attempt: int,
    parameters: int,
    converted: Callable[[Floats], Floats],
) -> StoredDraws:
    """Return the draws of one attempt, to be read in pieces."""
    of_attempt = _of_attempt(job_id, attempt)
    query = select(ChainBlockRow.seq, ChainBlockRow.first_draw, ChainBlockRow.num_draws)
    blocks = session.execute(query.where(*of_attempt).order_by(ChainBlockRow.seq))
    spans = tuple((seq, first, draws) for seq, first, draws in blocks)
    draws = sum(count for _, _, count in spans)
    size = session.scalar(
        select(func.length(ChainBlockRow.payload)).where(*of_attempt, ChainBlockRow.seq == 0)
    )
    chains = (size or 0) // (8 * parameters * spans[0][2]) if spans else 0
    return StoredDraws(sessions, job_id, attempt, (chains, draws, parameters), spans, converted)


def some_draws(
    session: Session, job_id: UUID, attempt: int, parameters: int, num_warmup: int, most: int
) -> Floats:
    """Return at most so many draws (draw, parameter) after warm-up, evenly spaced over all chains.

    Read one by one, however long the chains are. Raises LookupError once they are deleted.
    """
    of_attempt, length = _of_attempt(job_id, attempt), func.length(ChainBlockRow.payload)
    query = select(
        ChainBlockRow.seq, ChainBlockRow.first_draw, ChainBlockRow.num_draws, length
    ).where(*of_attempt)
    places = [tuple(place) for place in session.execute(query.order_by(ChainBlockRow.seq))]
    draws = sum(count for _, _, count, _ in places)
    if draws <= num_warmup:
        raise LookupError("there are no draws")
    size = 8 * parameters
    chains = places[0][3] // (size * places[0][2])
    kept, starts = draws - num_warmup, [first for _, first, _, _ in places]
    drawn = list[Floats]()
    for k in np.linspace(0, chains * kept - 1, min(most, chains * kept)).astype(int).tolist():
        chain, draw = divmod(k, kept)
        seq, first, count, _ = places[bisect_right(starts, num_warmup + draw) - 1]
        begin = size * (chain * count + num_warmup + draw - first)
        payload = _part(session, job_id, attempt, seq, begin, size)
        drawn.append(np.frombuffer(payload, dtype="<f8"))
    return np.stack(drawn)


def _of_attempt(job_id: UUID, attempt: int) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions of an attempt's blocks."""
    return ChainBlockRow.job_id == job_id, ChainBlockRow.attempt == attempt


def stored_chain(session: Session, job_id: UUID, attempt: int, parameters: int) -> Floats:
    """Return the draws (chain, draw, parameter) of one attempt, warm-up included.

    In memory once, beside a block or two on their way from the database.
    """
    of_attempt = _of_attempt(job_id, attempt)
    total = session.scalar(select(func.sum(ChainBlockRow.num_draws)).where(*of_attempt))
    chain = np.empty((0, 0, parameters))
    for first, draws, payload in _blocks(session, *of_attempt):
        block = np.frombuffer(payload, dtype="<f8").reshape(-1, draws, parameters)
        if not chain.size:
            chain = np.empty((len(block), total or 0, parameters))
        chain[:, first : first + draws] = block
    return chain


def stored_block(session: Session, job_id: UUID, attempt: int, seq: int) -> Floats:
    """Return one block (numbers,) of an attempt. Raises KeyError where there is none."""
    row = session.get(ChainBlockRow, (job_id, attempt, seq))
    if row is None:
        raise KeyError(seq)
    return np.frombuffer(row.payload, dtype="<f8").copy()


def _blocks(session: Session, *conditions: ColumnElement[bool]) -> Iterator[Row[int, int, bytes]]:
    """Yield the rows one by one, without fetching them all."""
    query = select(ChainBlockRow.first_draw, ChainBlockRow.num_draws, ChainBlockRow.payload)
    query = query.where(*conditions).order_by(ChainBlockRow.seq)
    yield from session.execute(query, execution_options={"yield_per": 1})
