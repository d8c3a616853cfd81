"""What the dashboard's figures show is what the draws say."""

from types import SimpleNamespace

import numpy as np
import pytest

from app.api.formats import as_parquet
from app.services.results.chains import HeldDraws
from app.web import figures


def chain(chains: int = 3, draws: int = 50, parameters: int = 5) -> SimpleNamespace:
    numbers = np.random.default_rng(4).normal(size=(chains, draws, parameters))
    names = tuple(f"b{k}" for k in range(parameters))
    told = {"num_warmup": 10, "verdict": None, "attributes": {}}
    return SimpleNamespace(draws=numbers, parameters=names, **told)


@pytest.mark.parametrize("attributes", [{}, {"dry_run": "made rows"}])
def test_a_chain_is_read_as_it_was_written(attributes: dict[str, str]) -> None:
    one = chain()
    held = {"draws": HeldDraws(one.draws), "attributes": attributes}
    written = SimpleNamespace(**vars(one) | held)
    names, draws = figures.read(b"".join(as_parquet(written)))  # type: ignore[arg-type]
    assert tuple(names) == one.parameters
    np.testing.assert_array_equal(draws, one.draws)


def test_pairs_are_of_the_first_few_parameters_without_warm_up() -> None:
    one = chain()
    one.draws[:, :10] = 1e6
    one.draws[..., 1] = -2 * one.draws[..., 0]
    one.draws[..., 2] = 7.0
    drawn = figures.of(list(one.parameters), one.draws, 10)
    pairs = drawn["pairs"]
    assert [(pair["x"], pair["y"]) for pair in pairs] == [
        ("b0", "b1"), ("b0", "b2"), ("b0", "b3"), ("b1", "b2"), ("b1", "b3"), ("b2", "b3"),
    ]  # fmt: skip
    assert pairs[0]["correlation"] == pytest.approx(-1)
    assert pairs[1]["correlation"] is None
    points = pairs[0]["points"]
    assert points["x"] == sorted(points["x"])
    assert max(points["x"]) < 100
    assert drawn["figures"]["b0"]["trace"]["warmup"] == 10


def test_a_forest_has_coefficients_and_a_scale() -> None:
    def told(name: str, mean: float) -> dict[str, object]:
        ends = {"q05": mean - 1, "q25": mean - 0.5, "q75": mean + 0.5, "q95": mean + 1}
        return {"name": name, "mean": mean, **ends}

    named = ["Intercept", "a", "medium:Intercept", "b", "log_sigma"]
    found = figures.forest([told(name, k - 1.0) for k, name in enumerate(named)])
    assert [row["name"] for row in found["rows"]] == ["a", "b"]
    assert found["apart"] == 3
    values = [tick["value"] for tick in found["ticks"]]
    assert values == [-1, 0, 1, 2, 3]
    assert [tick["at"] for tick in found["ticks"]][1] == found["rows"][0]["zero"]
    only = figures.forest([told("Intercept", 0.0)])
    assert [row["name"] for row in only["rows"]] == ["Intercept"]


def told(mean: float, sd: float) -> dict[str, object]:
    return {"mean": mean, "q05": mean - 2 * sd, "q95": mean + 2 * sd}


def test_jobs_are_compared_on_a_scale_of_each_parameter() -> None:
    first = {"Intercept": told(200.0, 1.0), "age": told(0.5, 0.2)}
    second = {"Intercept": told(203.0, 0.5), "dose": told(7.0, 0.0)}
    intercept, age, dose = figures.compared(["Intercept", "age", "dose"], [first, second])
    one, other = intercept["bars"]
    assert (one["job"], one["from"], other["job"], other["to"]) == (0, 6.0, 1, 94.0)
    assert one["from"] < one["at"] < other["from"] < other["at"] < other["to"]
    assert intercept["zero"] is None  # 200 units away
    assert [bar["job"] for bar in age["bars"]] == [0]
    assert age["zero"] == 6.0
    assert [bar["job"] for bar in dose["bars"]] == [1]
    assert dose["bars"][0]["from"] == dose["bars"][0]["to"]


@pytest.mark.parametrize(
    ("mean", "sd"), [(14.2, 2.1), (102.0, 1.2), (-3.6e-9, 1e-9), (1e6 + 0.3, 0.02), (0.0, 0.0)]
)
def test_ticks_of_a_comparison_are_two_at_least_and_can_be_told_apart(
    mean: float, sd: float
) -> None:
    (row,) = figures.compared(["b"], [{"b": told(mean, sd)}])
    values, count = [tick["value"] for tick in row["ticks"]], row["digits"]
    assert 2 <= len(values) <= 5
    assert all(0 < tick["at"] < 100 for tick in row["ticks"])
    written = [float(f"{value:.{count}g}") for value in values]
    np.testing.assert_allclose(np.diff(written), values[1] - values[0], rtol=1e-4)


def test_a_curve_is_its_mean_with_intervals_of_each_point() -> None:
    def spread(mean: float) -> dict[str, float]:
        return {"mean": mean, "q05": mean - 2, "q25": mean - 1, "q75": mean + 1, "q95": mean + 2}

    asked = {"covariate": "seen", "given": {"dose": 2.50001, "sex": "f"}, "at": [0.0, 31.0]}
    two = [spread(3.0), spread(4.0)]
    (one,) = figures.curves(asked | {"expected": two, "probabilities": None}, "y", "1970-02-01")
    assert one["words"] == (
        "Expected y along seen: mean, and at each point the 50 % and 90 % interval;"
        " at dose 2.5, sex f"
    )
    band = one["band"]
    assert (band["at"], band["days"]) == ([31.0, 62.0], True)  # days since 1970
    assert (band["mean"], band["q05"], band["q95"]) == ([3.0, 4.0], [1.0, 2.0], [5.0, 6.0])
    several = {"expected": [], "probabilities": {"low": two, "high": two}}
    drawn = figures.curves(asked | several, "y", 0.0)
    assert [found["words"].split(" along")[0] for found in drawn] == ["y = low", "y = high"]
    assert (drawn[0]["band"]["at"], drawn[0]["band"]["days"]) == ([0.0, 31.0], False)
