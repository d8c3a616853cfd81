"""Dates are no type of column: refused by name, and never taken for categories or numbers."""

import datetime as dt

import numpy as np
import pandas
import pyarrow as pa
import pytest

from dpmcmc import BinaryColumn, Budget, CategoryColumn, NumberColumn, Schema, sample

ROWS = 100
DAYS = pandas.Series(pandas.date_range("2023-01-01", periods=ROWS))
Y = np.linspace(0, 2, ROWS)
FRAME = pandas.DataFrame({"visit": DAYS, "y": Y})
BOUNDS = {
    "words": ("2023-01-01", "2024-12-31"),
    "words with a time": ("2023-01-01T00:00:00Z", "2024-12-31 12:00"),
    "words of Germany": ("1.1.2023", "31.12.2024"),
    "words of America": ("01/01/2023", "12/31/2024"),
    "words without signs": ("20230101", "20241231T1200"),
    "weeks": ("2023-W01", "2024W52-7"),
    "quarters": ("2023Q1", "2024-Q4"),
    "quarters before their years": ("Q1 2023", "Q4/2024"),
    "times of half a day": ("12:00 AM", "11:59pm"),
    "days of a month": ("01 Jan", "31. Dezember"),
    "words of Japan": ("2023年01月01日", "2024年12月"),
    "months of Germany": ("März 2023", "Okt. 2024"),
    "times of day": ("9:00", "23:59:59.5"),
    "months": ("2023-01", "2024-12"),
    "names of months": ("Jan 1, 2023", "31 December 2024"),
    "a list": ["2023-01-01", "2024-12-31"],
    "an array of words": np.array(["2023-01-01", "2024-12-31"]),
    "one date": ("2023-01-01", 5),
    "date": (dt.date(2023, 1, 1), dt.date(2024, 12, 31)),
    "datetime": (dt.datetime(2023, 1, 1), dt.datetime(2024, 12, 31)),
    "Timestamp": (pandas.Timestamp("2023-01-01"), pandas.Timestamp("2024-12-31")),
    "datetime64": (np.datetime64("2023-01-01"), np.datetime64("2024-12-31")),
    "datetime64 of nanoseconds": np.array(["2023-01-01", "2024-12-31"], "datetime64[ns]"),
    "a Series": DAYS[:2],
    "an index": pandas.DatetimeIndex(DAYS[:2]),
    "periods": (pandas.Period("2023-01"), pandas.Period("2024-12")),
    "durations": (dt.timedelta(1), dt.timedelta(2)),
    "timedelta64": (np.timedelta64(1, "D"), np.timedelta64(30, "D")),
    "three dates": (dt.date(2023, 1, 1), dt.date(2024, 1, 1), dt.date(2025, 1, 1)),
}


@pytest.mark.parametrize("bounds", BOUNDS.values(), ids=BOUNDS)
def test_dates_as_bounds_are_refused_by_name(bounds):
    with pytest.raises(ValueError, match=r"'visit' are dates.*such as days since a date"):
        Schema.from_frame(FRAME, bounds={"visit": bounds, "y": (0, 2)})


@pytest.mark.parametrize(
    "lower", ["2023-01-01", dt.date(2023, 1, 1), np.datetime64("2023-01-01"), np.timedelta64(1)]
)
def test_a_number_column_with_dates_as_bounds_is_refused_by_name(lower):
    with pytest.raises(ValueError, match=r"'visit' are dates"):
        NumberColumn(name="visit", lower=lower, upper=5)


COLUMNS = {
    "datetime64": DAYS,
    "an array": DAYS.to_numpy(),
    "words": DAYS.astype(str),
    "date": DAYS.dt.date,
    "a list of dates": list(DAYS.dt.date),
    "time": DAYS.dt.time,
    "periods": DAYS.dt.to_period("D"),
    "with a zone": DAYS.dt.tz_localize("UTC"),
    "durations": DAYS - DAYS[0],
    "some missing": DAYS.where(DAYS.index > 3),
    "date32 of Arrow": pa.array(DAYS.dt.date),
    "date32 of pandas": DAYS.astype(pandas.ArrowDtype(pa.date32())),
}


@pytest.mark.parametrize("values", COLUMNS.values(), ids=COLUMNS)
def test_a_column_of_dates_is_refused_by_name_before_the_budget(values):
    days = {"visit": np.arange(100.0), "y": Y}
    schema = Schema.from_frame(days, bounds={"visit": (0, 700), "y": (0, 2)})
    budget = Budget(epsilon=1, delta=1e-6)
    with pytest.raises(ValueError, match=r"'visit' has dates or times.*such as days since a date"):
        sample("y ~ visit", {"visit": values, "y": Y}, schema, epsilon=1, budget=budget)
    assert budget.remaining == pytest.approx(1)


def test_a_schema_of_a_column_of_dates_is_refused_by_name():
    with pytest.raises(ValueError, match=r"'visit' has dates or times"):
        Schema.from_frame(FRAME, bounds={"visit": (0, 700), "y": (0, 2)})


def test_categories_that_are_written_as_dates_can_be_declared():
    waves = ("2023-01-01", "2024-01-01", "2025-01-01")
    frame = {"wave": list(waves)}
    assert Schema.from_frame(frame, bounds={"wave": waves}).columns == (
        CategoryColumn(name="wave", categories=waves),
    )
    assert BinaryColumn(name="wave", categories=waves[:2]).categories == waves[:2]
    with pytest.raises(ValueError, match=r"'wave' are dates or times: write them as words"):
        CategoryColumn(name="wave", categories=tuple(map(np.datetime64, waves)))


@pytest.mark.parametrize(
    "words",
    [("2023", "2024"), ("2019-20", "2020-21"), ("18-24", "25-64"), ("May", "June"), ("Q1", "Q2")],
)
def test_words_that_are_no_dates_are_two_categories(words):
    frame = {"g": list(words)}
    assert Schema.from_frame(frame, bounds={"g": words}).columns == (
        BinaryColumn(name="g", categories=words),
    )


@pytest.mark.parametrize(
    "words", [("3 decades", "4 decades"), ("12 Marks", "20 Marks"), ("Q1", "Q2")]
)
def test_words_that_only_begin_like_a_date_are_categories(words):
    schema = Schema.from_frame({"v": list(words) * 5}, bounds={"v": words})
    assert schema.columns == (BinaryColumn(name="v", categories=words),)
