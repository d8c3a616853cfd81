import numpy as np
import pytest
from arviz_stats.base import array_stats

from dpmcmc.base.private import Released
from dpmcmc.posterior.diagnostics import summarise


@pytest.fixture
def draws():
    return np.random.default_rng(1).normal(3.0, 2.0, (2, 2000, 2))


def test_summaries_describe_the_draws(draws):
    first, second = summarise(Released(draws), ["a", "b"])
    assert (first.name, second.name) == ("a", "b")
    assert first.mean == pytest.approx(3.0, abs=0.15)
    assert first.sd == pytest.approx(2.0, rel=0.05)
    assert first.q05 < first.q25 < first.q50 < first.q75 < first.q95
    assert first.q95 == pytest.approx(3 + 1.645 * 2, abs=0.3)
    assert first.r_hat == pytest.approx(1.0, abs=0.01)
    assert first.ess_bulk == pytest.approx(4000, rel=0.15)
    assert first.ess_tail == pytest.approx(4000, rel=0.25)


def test_chains_that_disagree_have_a_large_r_hat(draws):
    draws[1] += 10
    assert summarise(Released(draws), ["a", "b"])[0].r_hat > 1.5


def test_one_chain_is_enough(draws):
    assert summarise(Released(draws[:1]), ["a", "b"])[0].r_hat == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("count", [1, 2, 7])
def test_few_draws_have_no_diagnostics(draws, count):
    summary = summarise(Released(draws[:, :count]), ["a", "b"])[0]
    assert (summary.r_hat, summary.ess_bulk, summary.ess_tail) == (None, None, None)
    assert np.isfinite(summary.sd)


def test_a_chain_that_never_moved_has_no_diagnostics():
    summary = summarise(Released(np.zeros((2, 50, 1))), ["a"])[0]
    assert (summary.sd, summary.r_hat, summary.ess_bulk) == (0.0, None, None)


def test_chains_stuck_in_two_places_are_summarised():
    draws = np.zeros((2, 50, 1))
    draws[1] = 1.0
    assert summarise(Released(draws), ["a"])[0].mean == 0.5
    draws[1, 25:] = 2.0
    assert summarise(Released(draws), ["a"])[0].mean == 0.75


@pytest.mark.parametrize("shape", [(10, 2), (2, 0, 2), (2, 10, 3)])
def test_other_shapes_are_refused(shape):
    with pytest.raises(ValueError, match="draws must be"):
        summarise(Released(np.zeros(shape)), ["a", "b"])


@pytest.mark.parametrize("shape", [(4, 1000), (1, 1000), (1, 1001), (2, 999), (8, 17), (3, 8)])
@pytest.mark.parametrize("kind", ["smooth", "ties", "walk", "stuck"])
def test_diagnostics_are_those_of_arviz(shape, kind):
    draws = np.random.default_rng(3).normal(size=shape)
    if kind == "ties":
        draws = draws.round(1)
    elif kind == "walk":
        draws = draws.cumsum(axis=1)
    elif kind == "stuck":
        draws[0, : shape[1] // 3] = draws[0, 0]
    (summary,) = summarise(Released(draws[:, :, None]), ["a"])
    axes = {"chain_axis": 0, "draw_axis": 1}
    half = shape[1] // 2
    chains = draws[:, -2 * half :].reshape(2, half) if shape[0] == 1 else draws
    assert summary.r_hat == pytest.approx(float(array_stats.rhat(chains, **axes)), rel=1e-12)
    bulk = float(array_stats.ess(draws, method="bulk", **axes))
    assert summary.ess_bulk == pytest.approx(bulk, rel=1e-12)
    tail = float(array_stats.ess(draws, method="tail", prob=(0.05, 0.95), **axes))
    assert summary.ess_tail == pytest.approx(tail, rel=1e-12)


def test_other_units_have_the_same_diagnostics_but_where_parameters_are_mixed(draws):
    first = summarise(Released(draws), ["a", "b"])
    mixed = np.stack((1e-3 * draws[..., 0], draws[..., 1] - draws[..., 0]), axis=2)
    second = summarise(Released(mixed), ["a", "b"], rescaled=(draws, first))
    alone = summarise(Released(mixed), ["a", "b"])
    assert second[1] == alone[1] != first[1]
    for name in ("r_hat", "ess_bulk", "ess_tail"):
        assert getattr(second[0], name) == pytest.approx(getattr(alone[0], name), rel=1e-9)
    assert second[0].mean == alone[0].mean
    negative = summarise(Released(-draws), ["a", "b"], rescaled=(draws, first))
    assert negative[0] == summarise(Released(-draws), ["a", "b"])[0]
