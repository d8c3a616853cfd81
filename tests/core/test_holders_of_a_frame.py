"""Data holders declared beside a data frame: by their numbers of rows, or by a column."""

import numpy as np
import pandas
import pyarrow
import pytest

from dpmcmc.inputs.schema import Schema

ROWS = {"x": [0.0, 0.1, 0.2, 0.3, 0.4], "where": ["n", "n", "n", "s", "s"]}
FRAMES = {"dict": dict, "pandas": pandas.DataFrame}
FRAMES["arrow"] = pyarrow.table
BOUNDS = {"x": (0, 1)}


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("holders", ["where", (3, 2), [3, 2], np.array([3, 2], np.int32)])
def test_holders_are_counted_or_given(kind, holders):
    made = Schema.from_frame(FRAMES[kind](ROWS), BOUNDS, holders=holders)
    assert made.holders == (3, 2)
    assert [type(rows) for rows in made.holders] == [int, int]
    assert [column.name for column in made.columns] == ["x"]


def test_without_holders_there_are_none():
    assert Schema.from_frame(ROWS, BOUNDS).holders == ()


@pytest.mark.parametrize(
    ("holders", "message"),
    [
        ("wher", "no column 'wher'"),
        ((3, 3), "holders"),
        (5, "holders"),
        (None, "holders"),
        ([3.0, 2.0], "whole numbers"),
        ([4, True], "whole numbers"),
        (["3", "2"], "whole numbers"),
        ([3, None], "whole numbers"),
        (np.array([3.0, 2.0]), "whole numbers"),
        (np.array([[3, 2]]), "whole numbers"),
        ([5, 0], "a row each"),
        ({"n": 3, "s": 2}, "holders"),
        ("x_", "no column"),
    ],
)
def test_what_are_no_holders_is_refused(holders, message):
    with pytest.raises(ValueError, match=message):
        Schema.from_frame(ROWS, BOUNDS, holders=holders)


def test_rows_of_a_holder_lie_together():
    with pytest.raises(ValueError, match="sort them by 'where'"):
        Schema.from_frame(ROWS | {"where": list("nsnss")}, BOUNDS, holders="where")


@pytest.mark.parametrize("nobody", [None, float("nan"), pandas.NA])
@pytest.mark.parametrize("at", [0, 1, 4])
def test_a_row_of_no_holder_is_told(nobody, at):
    where = [nobody if row == at else word for row, word in enumerate(ROWS["where"])]
    with pytest.raises(ValueError, match="'where' has rows of no holder"):
        Schema.from_frame(ROWS | {"where": where}, BOUNDS, holders="where")
