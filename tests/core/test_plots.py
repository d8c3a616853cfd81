"""Figures of a fit: every kind, what stands on them, and what is refused."""

import sys
from typing import get_args

import numpy as np
import pytest
from scipy import stats

import dpmcmc
from dpmcmc.inputs.options import DpPenaltyOptions
from dpmcmc.posterior.plots import PlotData, PlotKind, _prior_density, _smoothed, drawn
from tests.sources import Seeded

ROWS, SHORT = 2000, DpPenaltyOptions(num_steps=300, num_chains=2, num_warmup=50)


@pytest.fixture(scope="module")
def fits():
    rng = np.random.default_rng(1)
    x = rng.uniform(0, 10, ROWS)
    y = np.where(rng.random(ROWS) < 1 / (1 + np.exp(2 - 0.4 * x)), "yes", "no")
    rows = {"x": x, "y": y}
    schema = dpmcmc.Schema.from_frame(rows, bounds={"x": (0, 10), "y": ("no", "yes")})
    given = {"epsilon": 8, "random": Seeded(1)}
    samplers = {"noisy_quadratic": "noisy_quadratic", "dp_penalty": SHORT}
    return {
        name: dpmcmc.sample(
            "y ~ x", rows, schema, sampler=sampler, **given, accept_low_quality=True
        )
        for name, sampler in samplers.items()
    }


def words(figure):
    texts = [text.get_text() for text in figure.findobj(lambda one: hasattr(one, "get_text"))]
    return " | ".join(texts)


@pytest.mark.parametrize("kind", get_args(PlotKind))
def test_every_kind_is_drawn_with_its_parameters(fits, kind, tmp_path):
    figure = fits["noisy_quadratic"].plot(kind)
    figure.savefig(tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes()[1:4] == b"PNG"
    assert ("mean of y" if kind == "curve" else "Intercept") in words(figure)
    assert "unreliable" not in words(figure)
    one = fits["noisy_quadratic"].plot(kind, parameters=["x"])
    assert "Intercept" not in words(one)


def test_a_forest_has_the_quantiles_of_the_draws(fits):
    fit = fits["noisy_quadratic"]
    (axes,) = fit.plot("forest", parameters=["x"]).axes
    thin, thick, *_ = (line.get_xdata() for line in axes.lines)
    row = fit.summary()[1]
    assert thin == pytest.approx((row.q05, row.q95))
    assert thick == pytest.approx((row.q25, row.q75))


def test_a_forest_of_other_magnitudes_has_an_axis_for_each():
    rng = np.random.default_rng(1)
    draws = np.stack([rng.normal(463, 12, (2, 500)), rng.normal(-2, 0.02, (2, 500))], axis=2)
    shown = PlotData(draws, ("Intercept", "x"), 0, "", {})
    apart = drawn("forest", shown).axes
    assert len(apart) == 2
    for k, axes in enumerate(apart):
        low, high = axes.get_xlim()
        assert np.ptp(axes.lines[0].get_xdata()) > 0.5 * (high - low)
        assert low < np.median(draws[..., k]) < high
    alike = PlotData(rng.normal(0, 1, (2, 500, 2)), ("a", "b"), 0, "", {})
    assert len(drawn("forest", alike).axes) == 1


def test_a_far_warm_up_does_not_flatten_a_trace():
    draws = np.random.default_rng(1).normal(0, 1, (2, 500, 1))
    draws[:, :20] += 1e4
    (axes,) = drawn("trace", PlotData(draws, ("x",), 100, "", {})).axes
    assert axes.get_ylim()[1] < 30
    assert axes.get_ylim()[0] < draws[:, 100:].min() < draws[:, 100:].max() < axes.get_ylim()[1]


def test_long_names_leave_room_for_their_neighbours():
    draws = np.random.default_rng(1).normal(0, 1, (2, 50, 2))
    names = ("workclass[Self-emp-not-inc]", "age")
    told = words(drawn("pair", PlotData(draws, names, 0, "", {})))
    assert "workclas…ot-inc]" in told


def test_what_is_unreliable_says_so_on_every_figure(fits):
    chain = fits["dp_penalty"]
    assert chain.verdict.status == "unreliable"
    for kind in ("forest", "trace", "rank", "density", "pair"):
        assert "unreliable" in words(chain.plot(kind))


def test_warm_up_is_shaded_in_traces_and_left_out_elsewhere(fits):
    chain = fits["dp_penalty"]
    (axes,) = chain.plot("trace", parameters=["x"]).axes
    (shade,) = axes.patches
    assert shade.get_width() == chain.plan.num_warmup
    assert len(axes.lines[0].get_xdata()) == chain.plan.num_steps


def test_densities_integrate_to_one_and_are_those_of_the_draws():
    draws = np.random.default_rng(1).normal(3.0, 2.0, 20_000)
    grid, height = _smoothed(draws)
    assert np.trapezoid(height, grid) == pytest.approx(1.0, abs=0.01)
    assert height == pytest.approx(stats.norm.pdf(grid, 3.0, 2.0), abs=0.01)


@pytest.mark.parametrize("kind", ["normal", "laplace", "student_t", "cauchy", "uniform"])
def test_a_priors_density_integrates_to_one_within_its_bounds(kind):
    scale, df = (None if kind == "uniform" else 2.0), (3.0 if kind == "student_t" else None)
    law = dpmcmc.CoefficientPrior(kind=kind, scale=scale, df=df, lower=0.0, upper=5.0)
    grid = np.linspace(-1.0, 6.0, 70_001)
    height = _prior_density(law, grid)
    assert np.trapezoid(height, grid) == pytest.approx(1.0, abs=1e-3)
    assert not height[grid < 0.0].any()


def test_what_cannot_be_drawn_is_told(fits, monkeypatch):
    fit = fits["noisy_quadratic"]
    with pytest.raises(dpmcmc.SpecError, match="one of forest"):
        fit.plot("pie")
    with pytest.raises(dpmcmc.SpecError, match="none of Intercept, x"):
        fit.plot(parameters=["z"])
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"dpmcmc\[plots\]"):
        fit.plot()


def test_a_bar_tells_how_far_a_run_is(fits, capsys):
    fit = fits["dp_penalty"]
    schema = fit.design.schema
    rows = {"x": np.zeros(ROWS), "y": ["no"] * ROWS}
    given = {"epsilon": 2, "sampler": SHORT, "random": Seeded(1)}
    dpmcmc.sample("y ~ x", rows, schema, progress=True, **given, accept_low_quality=True)
    told = capsys.readouterr().err
    assert told.rstrip().endswith("[##############################] 100%     0 s left")
    dpmcmc.sample("y ~ x", rows, schema, **given, accept_low_quality=True)
    assert capsys.readouterr().err == ""
