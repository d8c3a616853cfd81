"""Downloads are made piece by piece, in turn with those of others, and leave nothing behind."""

import asyncio
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path
from uuid import UUID, uuid4

import numpy as np
import pytest

from app.api.formats import FORMATS, NETCDF
from app.api.pieces import MAKERS, Turns
from app.services.results.chains import HeldDraws
from app.services.results.fetch import Chain

ADA, BOB = uuid4(), uuid4()


class Made:
    """Counts the pieces that are made at once."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self.now, self.most = 0, 0

    def pieces(self, number: int) -> Iterator[bytes]:
        for _ in range(number):
            with self._guard:
                self.now += 1
                self.most = max(self.most, self.now)
            time.sleep(0.005)
            with self._guard:
                self.now -= 1
            yield b"x"


async def taken(turns: Turns, user: UUID, made: Iterator[bytes]) -> bytes:
    return b"".join([piece async for piece in turns.pieces(user, made)])


def test_one_callers_pieces_are_made_one_at_a_time() -> None:
    made = Made()

    async def all_taken() -> list[bytes]:
        turns = Turns()
        return await asyncio.gather(*(taken(turns, ADA, made.pieces(5)) for _ in range(6)))

    assert asyncio.run(all_taken()) == [b"xxxxx"] * 6
    assert made.most == 1


def test_few_pieces_are_made_at_once_of_all_callers() -> None:
    made = Made()

    async def all_taken() -> list[bytes]:
        turns = Turns()
        return await asyncio.gather(*(taken(turns, uuid4(), made.pieces(5)) for _ in range(6)))

    assert asyncio.run(all_taken()) == [b"xxxxx"] * 6
    assert made.most == MAKERS


def test_one_download_is_not_behind_the_many_of_another_caller() -> None:
    made = Made()

    async def first_to_end() -> tuple[bool, int]:
        turns = Turns()
        many = [asyncio.create_task(taken(turns, ADA, made.pieces(20))) for _ in range(8)]
        await asyncio.sleep(0.02)
        await taken(turns, BOB, made.pieces(20))
        early = sum(one.done() for one in many)
        await asyncio.gather(*many)
        return early == 0, len(turns._callers)

    assert asyncio.run(first_to_end()) == (True, 0)


def test_who_has_several_open_leaves_half_of_the_time_to_others() -> None:
    async def seconds(number: int) -> float:
        turns, began = Turns(), time.monotonic()
        made = [Made().pieces(40 // number) for _ in range(number)]
        await asyncio.gather(*(taken(turns, ADA, one) for one in made))
        return time.monotonic() - began

    assert asyncio.run(seconds(2)) > 2 * 40 * 0.005


def test_who_leaves_or_fails_gives_the_turn_back() -> None:
    def broken() -> Iterator[bytes]:
        yield b"x"
        raise LookupError

    async def after() -> bytes:
        turns = Turns()
        async with aclosing(turns.pieces(ADA, Made().pieces(5))) as left:
            await anext(left)
        with pytest.raises(LookupError):
            await taken(turns, ADA, broken())
        assert not turns._callers
        return await taken(turns, ADA, iter([b"a", b"", b"b"]))

    assert asyncio.run(after()) == b"ab"


def test_a_file_has_no_name_while_it_is_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What a killed process leaves would otherwise stay for ever."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("app.api.formats.FILE_NUMBERS", 100)
    draws = np.random.default_rng(1).normal(size=(2, 1000, 3))
    chain = Chain(uuid4(), ("a", "b", "c"), 100, HeldDraws(draws), None, {"epsilon": 1.0})
    pieces = 0
    for _ in FORMATS[NETCDF](chain):
        pieces += 1
        assert list(tmp_path.iterdir()) == []
    assert pieces > 20
