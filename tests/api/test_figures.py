"""What the dashboard's figures show is what the draws say."""

from types import SimpleNamespace

import numpy as np
import pytest

from dpmcmc_service.api.formats import as_parquet
from dpmcmc_service.web import figures


def chain(chains: int = 3, draws: int = 50, parameters: int = 5) -> SimpleNamespace:
    numbers = np.random.default_rng(4).normal(size=(chains, draws, parameters))
    names = tuple(f"b{k}" for k in range(parameters))
    return SimpleNamespace(draws=numbers, parameters=names, num_warmup=10, verdict=None)


def test_a_chain_is_read_as_it_was_written() -> None:
    one = chain()
    names, draws = figures.read(b"".join(as_parquet(one)))  # type: ignore[arg-type]
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
