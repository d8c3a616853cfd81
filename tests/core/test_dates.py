"""Columns of dates, and dates elsewhere: refused by name, never taken for words or numbers."""

import datetime as dt

import numpy as np
import pandas
import pyarrow as pa
import pytest

from dpmcmc import (
    BinaryColumn,
    Budget,
    CategoryColumn,
    Counts,
    DateColumn,
    Mean,
    NumberColumn,
    Quantiles,
    Schema,
    describe,
    load,
    sample,
    synthesise,
)
from dpmcmc.fit.local import table_of
from dpmcmc.inputs.frames import columns_of
from dpmcmc.mechanisms.axes import axes

ROWS = 100
DAYS = pandas.Series(pandas.date_range("2023-01-01", periods=ROWS))
Y = np.linspace(0, 2, ROWS)
FRAME = pandas.DataFrame({"visit": DAYS, "y": Y})
BOUNDS = {
    "words of America": ("01/01/2023", "12/31/2024"),
    "no day of a calendar": ("2023-02-30", "2024-12-31"),
    "weeks": ("2023-W01", "2024W52-7"),
    "quarters": ("2023Q1", "2024-Q4"),
    "quarters before their years": ("Q1 2023", "Q4/2024"),
    "times of half a day": ("12:00 AM", "11:59pm"),
    "days of a month": ("01 Jan", "31. Dezember"),
    "words of Japan": ("2023年01月01日", "2024年12月"),
    "months of Germany": ("März 2023", "Okt. 2024"),
    "times of day": ("9:00", "23:59:59.5"),
    "months": ("2023-01", "2024-12"),
    "names of months": ("Jan 1, 23", "31 Dezember 2024"),
    "one date": ("2023-01-01", 5),
    "periods": (pandas.Period("2023-01"), pandas.Period("2024-12")),
    "durations": (dt.timedelta(1), dt.timedelta(2)),
    "timedelta64": (np.timedelta64(1, "D"), np.timedelta64(30, "D")),
    "three dates": (dt.date(2023, 1, 1), dt.date(2024, 1, 1), dt.date(2025, 1, 1)),
}


DECLARED = {
    "words": ("2023-01-01", "2024-12-31"),
    "words with a time": ("2023-01-01T00:00:00Z", "2024-12-31 12:00"),
    "words of Germany": ("1.1.2023", "31.12.2024"),
    "words without signs": ("20230101", "20241231T1200"),
    "months in English": ("Jan 1, 2023", "31 December 2024"),
    "years first": ("2023/1/1", "2024/12/31 1:30 PM"),
    "a list": ["2023-01-01", "2024-12-31"],
    "an array of words": np.array(["2023-01-01", "2024-12-31"]),
    "date": (dt.date(2023, 1, 1), dt.date(2024, 12, 31)),
    "datetime": (dt.datetime(2023, 1, 1), dt.datetime(2024, 12, 31, 23, 59)),
    "Timestamp": (pandas.Timestamp("2023-01-01"), pandas.Timestamp("2024-12-31")),
    "Timestamp of a zone": (pandas.Timestamp("2023-01-01", tz="Asia/Tokyo"), "2024-12-31"),
    "datetime64": (np.datetime64("2023-01-01"), np.datetime64("2024-12-31")),
    "datetime64 of nanoseconds": np.array(["2023-01-01", "2024-12-31"], "datetime64[ns]"),
    "a Series": pandas.Series(pandas.to_datetime(["2023-01-01", "2024-12-31"])),
    "an index": pandas.DatetimeIndex(["2023-01-01", "2024-12-31"]),
}
VISIT = DateColumn(name="visit", lower="2023-01-01", upper="2024-12-31")


@pytest.mark.parametrize("bounds", DECLARED.values(), ids=DECLARED)
def test_two_dates_declare_a_column_of_dates(bounds):
    schema = Schema.from_frame(FRAME, bounds={"visit": bounds, "y": (0, 2)})
    assert schema.columns[0] == VISIT
    assert (VISIT.lower, VISIT.upper, VISIT.origin) == (0.0, 730.0, "2023-01-01")


@pytest.mark.parametrize(
    ("lower", "upper"), [("2024-01-01", "2023-01-01"), ("2023-01-01", "2023-01-01")]
)
def test_the_later_date_is_the_upper_bound(lower, upper):
    with pytest.raises(ValueError, match="'visit' needs finite bounds with lower below upper"):
        DateColumn(name="visit", lower=lower, upper=upper)


def test_numbers_are_no_bounds_of_dates():
    with pytest.raises(ValueError, match="'visit' needs dates as its bounds"):
        DateColumn(name="visit", lower=0, upper=5)


@pytest.mark.parametrize("none", [pandas.NaT, np.datetime64("NaT"), None, "NaT"])
@pytest.mark.parametrize("field", ["lower", "upper", "missing", "spikes"])
def test_what_is_no_time_is_no_date(field, none):
    given = {"lower": "2023-01-01", "upper": "2024-12-31"}
    given[field] = none if field in given else [none]
    with pytest.raises(ValueError, match=r"'visit' (is no date|needs dates as its bounds)"):
        DateColumn(name="visit", **given)


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


@pytest.mark.parametrize("words", [("2023", "2024"), ("Jan", "Feb", "Mar"), ("early", "late")])
def test_dates_are_no_categories_whatever_their_bounds_look_like(words):
    given = DAYS, DAYS.dt.tz_localize("Asia/Tokyo"), DAYS.to_numpy(), DAYS - DAYS[0]
    for days in given:
        with pytest.raises(ValueError, match=r"'visit' has dates or times.* such as 2020-01-31"):
            Schema.from_frame({"visit": days, "y": Y}, bounds={"visit": words, "y": (0, 2)})
    years = {"visit": DAYS.dt.year.astype(str), "y": Y}
    assert Schema.from_frame(years, bounds={"visit": words, "y": (0, 2)}).columns[0].name == "visit"


@pytest.mark.parametrize(
    "words", [("3 decades", "4 decades"), ("12 Marks", "20 Marks"), ("Q1", "Q2")]
)
def test_words_that_only_begin_like_a_date_are_categories(words):
    schema = Schema.from_frame({"v": list(words) * 5}, bounds={"v": words})
    assert schema.columns == (BinaryColumn(name="v", categories=words),)


NONE = [3, 7]  # rows without a date
HOLED = DAYS.where(~DAYS.index.isin(NONE))
OF_DATES = {
    "datetime64": DAYS,
    "an array": DAYS.to_numpy(),
    "an array of days": DAYS.to_numpy().astype("datetime64[D]"),
    "words": DAYS.astype(str),
    "words with times": DAYS.dt.strftime("%Y-%m-%dT23:59:59.5+02:00"),
    "words of Germany": DAYS.dt.strftime("%d.%m.%Y"),
    "words without signs": DAYS.dt.strftime("%Y%m%d"),
    "date": DAYS.dt.date,
    "a list of dates": list(DAYS.dt.date),
    "a list of timestamps": list(DAYS),
    "a time of each day": DAYS + pandas.Timedelta(hours=23, minutes=59),
    "with a zone": DAYS.dt.tz_localize("America/New_York") + pandas.Timedelta(hours=22),
    "date32 of Arrow": pa.array(DAYS.dt.date),
    "timestamps of Arrow": pa.array(DAYS, pa.timestamp("ms")),
    "a zone of Arrow": pa.array(DAYS.dt.tz_localize("Asia/Tokyo")),
    "date32 of pandas": DAYS.astype(pandas.ArrowDtype(pa.date32())),
}


@pytest.mark.parametrize("values", OF_DATES.values(), ids=OF_DATES)
def test_dates_of_any_frame_are_days_since_the_lower_bound(values):
    data = {"visit": values, "y": Y}
    schema = Schema.from_frame(data, {"visit": ("2023-01-11", "2023-03-12"), "y": (0, 2)})
    days = table_of(schema, columns_of(data)).columns["visit"]
    np.testing.assert_array_equal(days, np.clip(np.arange(100.0) - 10, 0, 60))


OF_HOLES = {
    "datetime64": HOLED,
    "date": HOLED.dt.date.where(HOLED.notna(), None),
    "words": [str(day.date()) if day == day else "" for day in HOLED],
    "Arrow": pa.array([day.date() if day == day else None for day in HOLED]),
    "pandas of Arrow": HOLED.astype(pandas.ArrowDtype(pa.timestamp("s"))),
}


@pytest.mark.parametrize("values", OF_HOLES.values(), ids=OF_HOLES)
def test_missing_dates_are_declared_and_the_day_before_the_bounds_is_none(values):
    data, bounds = {"visit": values, "y": Y}, {"visit": ("2023-01-02", "2024-12-31"), "y": (0, 2)}
    plain = Schema.from_frame(data, bounds)
    with pytest.raises(ValueError, match=r"'visit' has missing values, 2 in all: .*'visit': True"):
        table_of(plain, columns_of(data))
    schema = Schema.from_frame(data, bounds, missing={"visit": True})
    table = table_of(schema, columns_of(data))
    missing = schema.columns[0].is_missing(table.columns["visit"])
    assert np.flatnonzero(missing).tolist() == NONE
    assert table.columns["visit"][0] == 0.0


@pytest.mark.parametrize("code", ["9999-12-31", dt.date(1900, 1, 1), "31.12.9999"])
def test_dates_may_stand_for_no_value(code):
    values = DAYS.astype(object).where(~DAYS.index.isin(NONE), str(code))
    data = {"visit": list(values), "y": Y}
    bounds = {"visit": ("2023-01-01", "2024-12-31"), "y": (0, 2)}
    schema = Schema.from_frame(data, bounds, missing={"visit": [code]})
    days = table_of(schema, columns_of(data)).columns["visit"]
    assert np.flatnonzero(schema.columns[0].is_missing(days)).tolist() == NONE


@pytest.mark.parametrize(
    "wrong", ["2023-02-30", "02/03/2023", "soon", 20230101, 3.5, "2023-01", dt.time(1), True]
)
def test_what_is_no_date_is_counted_and_never_named(wrong):
    data = {"visit": ["2023-05-17", wrong, wrong], "y": [0, 1, 2]}
    schema = Schema.from_frame(data, {"visit": ("2023-01-01", "2024-12-31"), "y": (0, 2)})
    budget = Budget(epsilon=1, delta=1e-6)
    with pytest.raises(ValueError, match="'visit' has values that are no dates, 2 in all") as told:
        describe(data, [Mean("visit")], schema=schema, epsilon=0.5, budget=budget)
    assert str(wrong) not in str(told.value).replace("2020-01-31, 31.1.2020", "")
    assert budget.remaining == pytest.approx(1)


def dated(rows=4000):
    days = np.datetime64("2023-01-01") + np.random.default_rng(2).integers(0, 500, rows)
    since = (days - np.datetime64("2023-01-01")).astype(float)
    y = np.clip(0.2 + since / 1000 + np.random.default_rng(3).normal(0, 0.05, rows), 0, 2)
    data = pandas.DataFrame({"visit": days, "y": y})
    return data, Schema.from_frame(data, {"visit": ("2023-01-01", "2024-12-31"), "y": (0, 2)})


def test_a_model_has_a_slope_per_day_and_predicts_at_dates(tmp_path):
    data, schema = dated()
    fit = sample("y ~ visit", data, schema, epsilon=8, delta=1e-6)
    slope = fit.summary()[1]
    assert abs(slope.mean - 1e-3) < 4 * slope.sd + 2e-5
    at = [
        {"visit": day} for day in ("2023-01-01", dt.date(2024, 5, 15), np.datetime64("2024-05-15"))
    ]
    first, *later = (one.expected.mean for one in fit.predict(at))
    assert abs(first - 0.2) < 0.03
    np.testing.assert_allclose(later, 0.7, atol=0.03)
    with pytest.raises(ValueError, match=r"a date between .* 2023-01-01 and 2024-12-31"):
        fit.predict([{"visit": "2025-01-01"}])
    with pytest.raises(ValueError, match=r"a date between .* 2023-01-01 and 2024-12-31"):
        fit.predict([{"visit": 40}])
    fit.save(tmp_path / "fit.zip")
    assert load(tmp_path / "fit.zip").design.schema == schema


def test_a_date_as_response_is_a_linear_model_of_days():
    data, schema = dated()
    fit = sample("visit ~ y", data, schema, epsilon=8, delta=1e-6, accept_low_quality=True)
    assert fit.plan.spec.model.family == "linear"


def test_summaries_and_synthetic_tables_give_dates_back():
    data, schema = dated()
    asked = [Mean("visit"), Quantiles("visit", at=(0.5,)), Counts(("visit",), bins={"visit": 2})]
    summaries = describe(data, asked, schema=schema, epsilon=8)
    mean, sd, median, first, last = summaries.estimates()
    for one in (mean, median):
        assert one.dates is not None
        assert "2023-08-28" < one.dates[0] < "2023-09-17"
        assert one.dates[1] <= one.dates[0] <= one.dates[2]
        assert one.dates[0] in str(summaries)
    assert sd.dates is None
    assert first.name == "share of visit 2023-01-01 to 2024-01-01"
    assert last.name == "share of visit 2024-01-02 to 2024-12-31"
    made = synthesise(data, schema=schema, epsilon=8, tables=2, accept_low_quality=True).table(1)
    assert made["visit"].dtype == np.dtype("datetime64[D]")
    assert made["visit"].min() >= np.datetime64("2023-01-01")
    assert (
        abs(
            (made["visit"].astype(float)).mean()
            - data.visit.astype("datetime64[s]").astype("int64").mean() / 86400
        )
        < 30
    )


def test_bins_of_dates_are_cut_at_dates():
    schema = Schema(columns=(VISIT,), rows=5)
    (axis,) = axes(schema, ["visit"], {"visit": ["2023-07-01", dt.date(2024, 2, 29)]})
    assert axis.labels == (
        "2023-01-01 to 2023-06-30",
        "2023-07-01 to 2024-02-28",
        "2024-02-29 to 2024-12-31",
    )


def test_spikes_of_dates_have_a_level_each():
    column = DateColumn(
        name="visit", lower="2023-01-01", upper="2024-12-31", spikes=("2023-06-01",), missing=True
    )
    (axis,) = axes(Schema(columns=(column,), rows=5), ["visit"], {"visit": 2})
    assert axis.labels[-2:] == ("2023-06-01", "missing")
