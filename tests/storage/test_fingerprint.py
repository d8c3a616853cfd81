"""Fingerprints of uploads: what is noticed, what is not, and that nothing shows without the key."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from uuid import uuid4

import numpy as np
import pytest

from app.storage.fingerprint import (
    BEFORE,
    HEAD,
    KEPT,
    Fingerprint,
    Fingerprints,
    Sketch,
    likeness,
)
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
    found = likeness(made(table), copy)
    assert found is not None
    assert (found.kind, found.share) == ("same_rows", 1.0)
    assert found.sure == (rows >= 200)


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
    found = likeness(made(table), made([v[::-1] for v in table]))
    assert found is not None
    assert (found.kind, found.share, found.sure) == ("same_rows", 1.0, True)
    fewer = likeness(made(table), made([v[1:] for v in table]))
    assert fewer is None, "as the module says: nobody can tell"


ROUND = [0, 1]  # the columns of numbers
Change = Callable[[list[np.ndarray]], tuple[list[np.ndarray], Sequence[Column]]]


def each(rows: Callable[[np.ndarray], np.ndarray]) -> Change:
    """The same change of every column."""
    return lambda table: ([rows(values) for values in table], COLUMNS)


def numbers(change: Callable[[np.ndarray], np.ndarray]) -> Change:
    """A change of the columns of numbers."""
    return lambda t: ([change(v) if v.dtype.kind == "f" else v for v in t], COLUMNS)


def only(*kept: int) -> Change:
    return lambda t: ([t[at] for at in kept], [COLUMNS[at] for at in kept])


def mixed(table: list[np.ndarray], fresh: int) -> list[np.ndarray]:
    """A table with rows of other people in place of its last ones."""
    others = people(fresh, 99)
    return [np.concatenate([t[fresh:], o]) for t, o in zip(table, others, strict=True)]


def noisy(values: np.ndarray) -> np.ndarray:
    return values * (1 + 1e-6 * np.random.default_rng(5).standard_normal(len(values)))


def one_changed(table: list[np.ndarray]) -> tuple[list[np.ndarray], Sequence[Column]]:
    """Another age in every tenth row."""
    age = table[0].copy()
    age[::10] += 1
    return [age, *table[1:]], COLUMNS


def added(table: list[np.ndarray]) -> tuple[list[np.ndarray], Sequence[Column]]:
    """A column of serial numbers beside the others."""
    serial = NumberColumn(name="n", lower=0, upper=1e6)
    return [*table, np.arange(len(table[0]), dtype=float)], [*COLUMNS, serial]


def with_most_rows_again(table: list[np.ndarray]) -> tuple[list[np.ndarray], Sequence[Column]]:
    """Every row twice, but for every twentieth."""
    twice = np.ones(len(table[0]), int) * 2
    twice[::20] = 1
    return [np.repeat(v, twice) for v in table], COLUMNS


def doubled_without_pay(table: list[np.ndarray]) -> tuple[list[np.ndarray], Sequence[Column]]:
    return [np.tile(table[at], 2) for at in (0, 2, 3)], [COLUMNS[at] for at in (0, 2, 3)]


def kept(rows: slice) -> Change:
    return each(lambda v: v[rows])


SURE, WARNED, UNNOTICED = "shares the ledger", "a warning", "not noticed"
FORMS: dict[str, tuple[Change, str]] = {
    "as it was": (each(lambda v: v), SURE),
    "in another order": (each(lambda v: v[::-1]), SURE),
    "columns in another order": (only(3, 1, 0, 2), SURE),
    "every row twice": (each(lambda v: np.repeat(v, 2)), SURE),
    "two copies, one after the other": (each(lambda v: np.tile(v, 2)), SURE),
    "seven copies": (each(lambda v: np.tile(v, 7)), SURE),
    "most rows twice": (with_most_rows_again, SURE),
    "twice, a column dropped": (doubled_without_pay, SURE),
    "one row dropped": (kept(slice(1, None)), SURE),
    "the first half": (kept(slice(0, 1500)), SURE),
    "every second row": (kept(slice(None, None, 2)), SURE),
    "a tenth of the rows": (kept(slice(0, 300)), SURE),
    "a hundredth of the rows": (kept(slice(0, 30)), WARNED),
    "one row in ten changed": (lambda t: (mixed(t, 300), COLUMNS), SURE),
    "six rows in ten changed": (lambda t: (mixed(t, 1800), COLUMNS), WARNED),
    "as many other people added": (
        lambda t: (
            [np.concatenate([a, b]) for a, b in zip(t, people(3000, 7), strict=True)],
            COLUMNS,
        ),
        SURE,
    ),
    "one value changed in every tenth row": (one_changed, SURE),
    "a column dropped": (only(0, 2, 3), SURE),
    "all but two columns dropped": (only(0, 1), SURE),
    "a column of serial numbers added": (added, SURE),
    "a column rescaled": (lambda t: ([t[0], t[1] / 1000, *t[2:]], COLUMNS), SURE),
    "a column rounded to hundreds": (lambda t: ([t[0], np.round(t[1], -2), *t[2:]], COLUMNS), SURE),
    "in single precision": (numbers(lambda v: v.astype(np.float32).astype(float)), SURE),
    "written with six digits": (
        numbers(lambda v: np.array([float(f"{x:.6g}") for x in v])),
        SURE,
    ),
    "rounded to whole numbers": (numbers(np.rint), SURE),
    "every number moved by a millionth": (numbers(noisy), SURE),
    "only its yes or no": (only(3), UNNOTICED),
    "all numbers rounded to tens and hundreds": (
        lambda t: ([np.round(t[0], -1), np.round(t[1], -2), *t[2:]], COLUMNS),
        UNNOTICED,
    ),
    "all numbers rescaled": (numbers(lambda v: v * 1.7), UNNOTICED),
    "two columns of a third of the rows": (
        lambda t: ([v[:1000] for v in t[2:]], COLUMNS[2:]),
        UNNOTICED,
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_forms_in_which_the_same_rows_come_back(form: str) -> None:
    """Of 3000 rows; either one may have come first."""
    table = people(3000, 1)
    change, wanted = FORMS[form]
    copy = made(*change(table))
    for one, other in ((made(table), copy), (copy, made(table))):
        found = likeness(one, other)
        seen = UNNOTICED if found is None else SURE if found.sure else WARNED
        assert seen == wanted, found


@pytest.mark.parametrize("rows", [4, 20, 200, 1000, 5000])
def test_tables_of_few_different_rows_are_never_surely_the_same(rows: int) -> None:
    columns = [BinaryColumn(name=name, categories=("no", "yes")) for name in ("a", "b")]
    draw = np.random.default_rng(rows)
    tables = [
        made([draw.integers(0, 2, rows).astype(np.int32) for _ in columns], columns)
        for _ in range(40)
    ]
    for one, other in zip(tables, [*tables[1:], tables[0]], strict=True):
        found = likeness(one, other)
        assert found is None or not found.sure
    again = likeness(tables[0], tables[0])
    assert again is not None
    assert not again.sure, "somebody else's table may well have these counts"


@pytest.mark.parametrize("rows", [40, 500, 5000])
def test_independent_tables_are_never_surely_the_same(rows: int) -> None:
    """Heaped ages, designs without repetition, serial numbers with a rare event, trials."""
    number = NumberColumn(name="x", lower=0, upper=1e6)
    event = BinaryColumn(name="e", categories=("no", "yes"))

    def design(draw: np.random.Generator) -> tuple[list[np.ndarray], list[Column]]:
        dose, day = np.divmod(np.arange(rows, dtype=float), 20)
        return [dose, day, draw.integers(0, 2, rows).astype(np.int32)], [number, number, event]

    def serial(draw: np.random.Generator) -> tuple[list[np.ndarray], list[Column]]:
        return [np.arange(rows, dtype=float)], [number]

    def grid(draw: np.random.Generator) -> tuple[list[np.ndarray], list[Column]]:
        return [np.arange(rows) / 100, np.arange(rows)[::-1] / 2.0], [number, number]

    def trial(draw: np.random.Generator) -> tuple[list[np.ndarray], list[Column]]:
        arm = np.arange(rows) % 2
        happened = (draw.random(rows) < 0.3).astype(np.int32)
        return [arm.astype(np.int32), happened, draw.integers(40, 60, rows).astype(float)], [
            BinaryColumn(name="arm", categories=("a", "b")),
            event,
            number,
        ]

    def heaped(draw: np.random.Generator) -> tuple[list[np.ndarray], list[Column]]:
        return [np.round(draw.normal(50, 10, rows), -1), draw.poisson(2.0, rows).astype(float)], [
            number,
            number,
        ]

    for make in (design, serial, grid, trial, heaped):
        for seed in range(15):
            one, other = (made(*make(np.random.default_rng(2 * seed + i))) for i in range(2))
            found = likeness(one, other)
            assert found is None or not found.sure, (make, found)


def test_a_fingerprint_of_the_version_before_is_still_compared() -> None:
    table = people(3000, 1)
    new = made(table)
    stored = new.exact.to_bytes()
    count = len(COLUMNS)
    old = BEFORE + stored[len(BEFORE) : HEAD.size + 8 * (2 * KEPT + count)]
    for form in ("as it was", "every row twice", "one row dropped", "a column rescaled"):
        copy = made(*FORMS[form][0](table))
        before = Fingerprint.from_bytes(old)
        for one in (before, Fingerprint.from_bytes(before.to_bytes())):
            found = likeness(one, copy)
            assert found is not None
            assert found.sure, form


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
    found = likeness(before, after)
    assert found is not None
    assert found.kind == "same_rows"
    for one, other in ((before.exact, after.exact), (before.coarse, after.coarse)):
        assert one is not None
        assert other is not None
        np.testing.assert_equal(asdict(one), asdict(other))
    assert before.exact.sample[:1].tobytes() not in sealed
    with pytest.raises(KeyFileError):
        fingerprints.open(uuid4(), sealed)
    with pytest.raises(KeyFileError):
        Fingerprints(KEY, KEY).open(dataset, sealed)
