"""Fingerprints of uploads: what is noticed, what is not, and that nothing shows without the key."""

from collections.abc import Sequence
from uuid import uuid4

import numpy as np
import pytest

from app.storage.fingerprint import KEPT, Fingerprint, Fingerprints, Likeness, Sketch, likeness
from app.storage.keys import KeyFileError
from dpmcmc.inputs.schema import BinaryColumn, CategoryColumn, Column, NumberColumn

KEY, OTHER = b"k" * 32, b"o" * 32
COLUMNS: tuple[Column, ...] = (
    NumberColumn(name="age", lower=0, upper=100),
    NumberColumn(name="pay", lower=0, upper=1e6),
    CategoryColumn(name="town", categories=("A", "B", "C")),
    BinaryColumn(name="ill", categories=("no", "yes")),
)


def people(rows: int, seed: int) -> list[np.ndarray]:
    draw = np.random.default_rng(seed)
    return [
        draw.integers(18, 90, rows).astype(float),
        np.round(draw.lognormal(10, 1, rows), 2),
        draw.integers(0, 3, rows).astype(np.int32),
        draw.integers(0, 2, rows).astype(np.int32),
    ]


def coarse(rows: int, seed: int) -> list[np.ndarray]:
    """A table most of whose rows are there more than once."""
    draw = np.random.default_rng(seed)
    return [
        draw.integers(20, 80, rows).astype(float),
        np.zeros(rows),
        draw.integers(0, 3, rows).astype(np.int32),
        draw.integers(0, 2, rows).astype(np.int32),
    ]


def made(
    table: Sequence[np.ndarray],
    columns: Sequence[Column] = COLUMNS,
    key: bytes = KEY,
    block: int = 1000,
) -> Fingerprint:
    sketch = Sketch(key, columns)
    for start in range(0, len(table[0]), block):
        sketch.add([values[start : start + block] for values in table])
    return sketch.fingerprint()


@pytest.mark.parametrize("rows", [1, 7, 200, 5000])
def test_the_same_rows_in_another_order_under_other_names_are_the_same(rows: int) -> None:
    table = people(rows, 1)
    order = np.random.default_rng(0).permutation(rows)
    renamed = (
        BinaryColumn(name="x", categories=("no", "yes")),
        NumberColumn(name="y", lower=30, upper=40),  # bounds: values are taken as they came
        CategoryColumn(name="z", categories=("C", "A", "B")),
        NumberColumn(name="w", lower=-1, upper=1),
    )
    recoded = np.array([1, 2, 0], np.int32)[table[2]]
    shuffled = [values[order] for values in (table[3], table[1], recoded, table[0])]
    copy = made(shuffled, renamed, block=333)
    assert likeness(made(table), copy) == Likeness("same_rows", 1.0)


@pytest.mark.parametrize("rows", [200, 5000, 40_000])
@pytest.mark.parametrize("changed", [0.01, 0.2, 0.6])
def test_a_copy_with_some_rows_changed_is_noticed(rows: int, changed: float) -> None:
    table, fresh = people(rows, 1), people(rows, 2)
    cut = int(rows * changed)
    copy = [np.concatenate([f[:cut], t[cut:]]) for f, t in zip(fresh, table, strict=True)]
    found = likeness(made(table), made(copy))
    assert found is not None
    assert found.kind == "rows"
    assert found.share == pytest.approx(1 - changed, abs=0.06)


@pytest.mark.parametrize("rows", [200, 5000, 40_000])
@pytest.mark.parametrize("left", [0.05, 0.5, 0.99])
def test_a_part_of_the_rows_is_noticed_either_way_around(rows: int, left: float) -> None:
    table = people(rows, 1)
    part = [values[: int(rows * left)] for values in table]
    for one, other in ((table, part), (part, table)):
        found = likeness(made(one), made(other))
        assert found is not None
        assert found.share > 0.95


@pytest.mark.parametrize(
    "change",
    [
        lambda t: ([t[0], t[1] / 1000, *t[2:]], COLUMNS),
        lambda t: (t[:2], COLUMNS[:2]),
        lambda t: (
            [*t, np.arange(len(t[0])) / 7],
            (*COLUMNS, NumberColumn(name="n", lower=0, upper=1)),
        ),
    ],
    ids=["rescaled", "dropped", "added"],
)
def test_a_copy_with_other_columns_is_noticed_by_those_that_stayed(change) -> None:
    table = people(3000, 1)
    found = likeness(made(table), made(*change(table)))
    assert found is not None
    assert found.kind == "columns"


@pytest.mark.parametrize("rows", [20, 200, 5000])
@pytest.mark.parametrize("source", [people, coarse])
def test_other_people_of_one_population_are_not_taken_for_the_same(source, rows: int) -> None:
    for seed in range(30):
        assert likeness(made(source(rows, 2 * seed)), made(source(rows, 2 * seed + 1))) is None


def test_the_very_same_coarse_table_is_noticed_though_its_rows_repeat() -> None:
    table = coarse(5000, 1)
    assert likeness(made(table), made([v[::-1] for v in table])) == Likeness("same_rows", 1.0)
    fewer = likeness(made(table), made([v[1:] for v in table]))
    assert fewer is None, "as the module says: nobody can tell"


def test_what_is_documented_as_unnoticed() -> None:
    table = people(3000, 1)
    rounded = [np.round(table[0], -1), np.round(table[1], -2), *table[2:]]
    assert likeness(made(table), made(rounded)) is None


def test_how_a_number_is_written_makes_no_difference() -> None:
    columns = (NumberColumn(name="x", lower=-1, upper=1),)
    as_text = (CategoryColumn(name="x", categories=("0.0", "1.50")),)
    numbers = made([np.array([-0.0, 1.5, 1.5])], columns)
    assert likeness(numbers, made([np.array([0, 1, 1], np.int32)], as_text))


def test_another_key_makes_another_fingerprint() -> None:
    table = people(500, 1)
    assert likeness(made(table), made(table, key=OTHER)) is None


@pytest.mark.parametrize("rows", [1, 500, 5000])
def test_what_is_stored_has_one_length_and_comes_back(rows: int) -> None:
    fingerprints, dataset = Fingerprints(KEY, OTHER), uuid4()
    before = made(people(rows, 3))
    sealed = fingerprints.seal(dataset, before)
    assert len(sealed) == len(fingerprints.seal(dataset, made(coarse(KEPT, 1))))
    after = fingerprints.open(dataset, sealed)
    assert likeness(before, after) == Likeness("same_rows", 1.0)
    np.testing.assert_array_equal(before.sample, after.sample)
    np.testing.assert_array_equal(before.counts, after.counts)
    assert before.sample[:1].tobytes() not in sealed
    with pytest.raises(KeyFileError):
        fingerprints.open(uuid4(), sealed)
    with pytest.raises(KeyFileError):
        Fingerprints(KEY, KEY).open(dataset, sealed)
