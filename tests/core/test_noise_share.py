"""Verdicts on statistics and summaries: from released values and public facts alone."""

import numpy as np
import pytest

from dpmcmc import (
    Counts,
    Mean,
    PrivacySpec,
    Quantiles,
    Schema,
    describe,
    release_in_two_stages,
    release_statistic,
)
from dpmcmc.base.private import Permit, Private
from dpmcmc.fit.local import table_of
from dpmcmc.privacy.event_json import digest
from dpmcmc.queries.statistics.populations import NormalMean
from dpmcmc.queries.tasks import (
    StatisticTask,
    SummariesTask,
    TaskSpec,
    plan_task,
    run_task,
    verdict_of,
)
from tests.sources import Seeded

STATISTICS = {
    "gaussian": {"column": "x"},
    "laplace": {"column": "x", "noise": "laplace"},
    "sequential": {"column": "x", "form": "sequential"},
    "responses": {"column": "y", "form": "sequential", "noise": "randomised_response"},
    "median": {"column": "x", "form": "median", "noise": "smooth_laplace"},
    "maximum": {"column": "x", "form": "maximum", "noise": "smooth_laplace"},
}
SUMMARIES = {
    "mean": Mean("x"),
    "quantiles": Quantiles("x"),
    "counts": Counts(("y",)),
    "table": Counts(("y", "x"), bins={"x": 20}),
}


def people(rows):
    rng = np.random.default_rng(1)
    data = {"x": rng.uniform(0, 10, rows), "y": np.where(rng.random(rows) < 0.3, "no", "yes")}
    return data, Schema.from_frame(data, {"x": (0, 10), "y": ("no", "yes")})


def statistic(name, rows, epsilon):
    data, schema = people(rows)
    given = {"schema": schema, "epsilon": epsilon, "random": Seeded(1)}
    return release_statistic(data, **STATISTICS[name], **given).verdict


def summary(name, rows, epsilon):
    data, schema = people(rows)
    given = {"schema": schema, "epsilon": epsilon, "random": Seeded(1)}
    return describe(data, [SUMMARIES[name]], **given).verdict


CASES = [(statistic, name) for name in STATISTICS] + [(summary, name) for name in SUMMARIES]


@pytest.mark.parametrize(("call", "name"), CASES)
def test_what_noise_hides_is_unreliable_and_the_named_epsilon_mends_it(call, name):
    hidden = call(name, 60, 0.2)
    assert hidden.status == "unreliable"
    assert len(hidden.reasons) == 1
    enough = float(hidden.reasons[0].partition("at epsilon ")[2].partition(" ")[0])
    if name not in ("mean", "quantiles", "table"):  # of which it depends on what is found then
        assert call(name, 60, enough).status == "reliable"
        assert call(name, 60, enough / 1.05).status == "unreliable"
    assert call(name, 20_000, 4.0).status == "reliable"


def test_a_table_of_which_no_cell_stands_out_is_unreliable():
    data, schema = people(1000)
    many = Counts(("x", "y"), bins={"x": 400})
    found = describe(data, [many], schema=schema, epsilon=1.0, random=Seeded(1)).verdict
    assert found.status == "unreliable"
    assert "all shares of x and y, together" in found.sentence


def test_quantiles_of_few_bins_are_said_to_need_more_of_them():
    data, schema = people(20_000)
    found = describe(data, [Quantiles("x", bins=3)], schema=schema, epsilon=4.0).verdict
    assert found.reasons == ("the bins of quantile 0.25 of x are too coarse for it: ask for more",)


def test_a_median_far_beyond_the_bounds_is_unreliable():
    """Two heaps of rows: a few more of one move the median from one end to the other."""
    data = {"x": np.repeat([0.0, 10.0], [1000, 1000])}
    schema = Schema.from_frame(data, {"x": (0, 10)})
    asked = {"column": "x", "form": "median", "noise": "smooth_laplace", "schema": schema}
    found = [
        release_statistic(data, epsilon=0.7, **asked, random=Seeded(seed)) for seed in range(12)
    ]
    far = [one for one in found if max(-one.values[0], one.values[0] - 10.0) > 1.25]
    assert far
    assert all(one.verdict.status == "unreliable" for one in far)
    assert "far beyond the declared bounds" in far[0].verdict.sentence


def test_one_row_is_told_that_more_of_them_are_needed():
    data, schema = people(1)
    found = describe(data, [Mean("x")], schema=schema, epsilon=1.0).verdict
    assert "more rows do" in found.sentence


@pytest.mark.parametrize(("rows", "status"), [(60, "unreliable"), (20_000, "reliable")])
def test_stages_have_the_verdict_of_the_second(rows, status):
    data, schema = people(rows)
    told = {"schema": schema, "first_rows": rows // 2, "thetas": (4.0, 5.0), "powers": (1.0, 2.0)}
    found = release_in_two_stages(data, "x", NormalMean(sd=3.0), epsilon=0.2, **told)
    assert found.verdict.status == status


def test_many_reasons_are_counted():
    data, schema = people(60)
    found = describe(data, list(SUMMARIES.values()), schema=schema, epsilon=0.2).verdict
    assert len(found.reasons) == 4
    assert found.reasons[-1] == "and so of 1 more"


@pytest.mark.parametrize("rows", [60, 20_000])
@pytest.mark.parametrize(
    "task", [StatisticTask(column="x"), SummariesTask(statistics=(Mean("x"), Counts(("y",))))]
)
def test_a_task_has_the_verdict_of_the_call(task, rows):
    data, schema = people(rows)
    spec = TaskSpec(task=task, privacy=PrivacySpec(epsilon=0.2, delta=1e-6))
    permit = Permit(subject="s", event_digest=digest(plan_task(schema, spec).event))
    table = Private(table_of(schema, data), subject="s")
    (block,) = run_task(schema, spec, table, permit, Seeded(1))
    of_task = verdict_of(schema, spec, block.value[0, 0])
    given = {"schema": schema, "epsilon": 0.2, "delta": 1e-6, "random": Seeded(1)}
    if isinstance(task, StatisticTask):
        assert of_task == release_statistic(data, "x", **given).verdict
    else:
        assert of_task == describe(data, task.statistics, **given).verdict
