"""As many made rows as a schema has, and the permit that opens them alone."""

import pytest

from dpmcmc import CategoryColumn, NumberColumn, Schema
from dpmcmc.base.private import PermitError, Private
from dpmcmc.fit.local import dummy_rows
from dpmcmc.inputs.schema import PrivacyUnit
from dpmcmc.privacy.events import Gaussian

COLUMNS = (
    NumberColumn(name="x", lower=1.0, upper=2.0, missing=(-9.0,)),
    CategoryColumn(name="g", categories=("a", "b")),
)


@pytest.mark.parametrize("unit", [None, PrivacyUnit(column="person", max_rows=3)])
def test_made_rows_are_as_many_as_the_schema_has(unit):
    own = {} if unit is None else {"privacy_unit": unit}
    schema = Schema(columns=COLUMNS, rows=900, **own)
    rows, permit = dummy_rows(schema, Gaussian(1.0))
    with pytest.raises(PermitError):
        Private("secret", subject="a dataset").open(permit)
    table = rows.open(permit)
    assert table.rows == schema.rows == len(table.columns["x"])
    x = table.columns["x"]
    assert set(table.columns["g"].tolist()) == {0, 1}
    assert ((x == -9.0) | ((x >= 1.0) & (x <= 2.0))).all()
    if unit is not None:
        assert table.present.sum() == pytest.approx(schema.units * 2)
