"""Statistics are released with all the noise that is charged for, and none reads more rows."""

import itertools
import math
from dataclasses import asdict

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import chi2, chisquare, gamma, kstest, laplace, norm, spearmanr

from dpmcmc.base.errors import SpecError
from dpmcmc.base.private import Neighbouring, Permit, PermitError, Private
from dpmcmc.fit.budget import Budget, BudgetExhaustedError
from dpmcmc.fit.local import table_of
from dpmcmc.inputs.schema import BinaryColumn, CategoryColumn, NumberColumn, Schema
from dpmcmc.privacy import accountant
from dpmcmc.privacy.discrete_laplace import (
    cells,
    discrete_laplace,
    flip_share,
    laplace_noise,
    log2_scale,
)
from dpmcmc.privacy.event_json import digest
from dpmcmc.privacy.events import Gaussian, Laplace, PureEpsilon, SmoothLaplace
from dpmcmc.privacy.noise import SystemRandom
from dpmcmc.privacy.sites import LEAST_MULTIPLIER, MOST_MULTIPLIER, STATISTIC_LAPLACE
from dpmcmc.queries import noise_share
from dpmcmc.queries.statistics.call import release_statistic
from dpmcmc.queries.statistics.mechanisms import SmoothLaplaceNoise, beta_of, smooth_sensitivity
from dpmcmc.queries.statistics.plans import StatisticRequest, planned
from dpmcmc.queries.statistics.release import in_cells, of_parts, release, summed
from tests.sources import Seeded

COLUMNS = (
    NumberColumn(name="x", lower=-2.0, upper=3.0),
    BinaryColumn(name="b", categories=("no", "yes")),
    CategoryColumn(name="c", categories=("a", "b", "d")),
    NumberColumn(name="m", lower=0.0, upper=1.0, missing=(-9.0,)),
)


@pytest.fixture(autouse=True, scope="module")
def no_search():
    """No search for the epsilon that would suffice: it takes most of the time of a release."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(noise_share, "_least", lambda *_: None)
        yield


def schema_of(rows):
    return Schema(columns=COLUMNS, rows=rows)


def data_of(numbers, said=None):
    n = len(numbers)
    said = said or ["yes"] * n
    return {"x": list(numbers), "b": said, "c": ["a"] * n, "m": [0.5] * n}


def times(asked, numbers, count, epsilon=1.0, delta=0.0, said=None):
    """The same release of the same rows, many times: (count, values)."""
    plan = planned(schema_of(len(numbers)), asked, epsilon, delta)
    rows = Private(table_of(plan.schema, data_of(numbers, said)), subject="d")
    random = Seeded(7)

    def permit():
        return Permit(subject="d", event_digest=digest(plan.paid.event))

    return plan, np.array([release(plan, rows, permit(), random).values for _ in range(count)])


# --- integer noise


@pytest.mark.parametrize("scale", [1, 3, 8])
def test_noise_is_the_discrete_laplace(scale):
    drawn = discrete_laplace(SystemRandom(), scale, (200_000,))
    values = np.arange(-5 * scale, 5 * scale + 1)
    p = math.exp(-1.0 / scale)
    shares = (1.0 - p) / (1.0 + p) * p ** np.abs(values)
    counts = np.array([(drawn == value).sum() for value in values])
    observed = np.append(counts, len(drawn) - counts.sum())
    expected = np.append(shares, 1.0 - shares.sum()) * len(drawn)
    assert chisquare(observed, expected).pvalue > 1e-5


@pytest.mark.parametrize("factor", [1.0, 0.9])
def test_large_scales_are_laplace_and_not_a_tenth_smaller(factor):
    drawn = discrete_laplace(Seeded(1), 3 * 2**40, (40_000,)) / (factor * 3 * 2**40)
    assert suits(drawn, "laplace") == (factor == 1.0)
    assert np.abs(drawn).max() > 9.0


@pytest.mark.parametrize("scale", [0, -1, 2**51 + 1])
def test_scales_that_would_not_fit_are_refused(scale):
    with pytest.raises(ValueError, match="scale must"):
        discrete_laplace(SystemRandom(), scale, (1,))


@pytest.mark.parametrize("z", [*np.geomspace(LEAST_MULTIPLIER, MOST_MULTIPLIER, 9), 1.0, 0.2])
def test_the_grid_leaves_laplace_noise_its_full_size(z):
    """Sensitivity in cells, and 2 for what the integers lose, times z is at most the scale."""
    moved = (cells(z) + 2) * z
    assert 1.0 - 3e-6 < moved / 2 ** log2_scale(z) <= 1.0
    assert 2**19 < cells(z) <= 2**31


@pytest.mark.parametrize("z", [0.0, math.nan, 0.9 * LEAST_MULTIPLIER, 1.1 * MOST_MULTIPLIER])
def test_laplace_noise_that_no_proof_covers_is_refused(z):
    with pytest.raises(ValueError, match="no proof covers"):
        laplace_noise(SystemRandom(), STATISTIC_LAPLACE, z, 8, (1,))


@pytest.mark.parametrize(("scale", "moved"), [(4, 3), (16, 10), (40, 200)])
def test_discrete_laplace_costs_more_than_its_pure_epsilon_and_less_than_two_cells_more(
    scale, moved
):
    """The exact profile lies between those of continuous noise at m / t and (m + 2) / t."""
    k = np.arange(-60 * scale, 60 * scale + moved + 1)
    p = np.exp(-np.abs(k) / scale)
    q = np.exp(-np.abs(k - moved) / scale)
    norming = math.tanh(0.5 / scale)
    for at in np.linspace(0.0, moved / scale, 57):
        exact = norming * np.maximum(p - math.exp(at) * q, 0.0).sum()
        low, high = (1.0 - math.exp((at - m / scale) / 2.0) for m in (moved, moved + 2))
        assert low - 1e-12 <= exact <= high + 1e-12


@pytest.mark.parametrize("epsilon", [2.0**-20, 0.1, 1.0, 5.0, 32.0])
def test_an_answer_is_flipped_often_enough(epsilon):
    share = flip_share(epsilon)
    assert 1.0 / (1.0 + math.exp(epsilon)) <= share <= 0.5
    assert math.log((1.0 - share) / share) <= epsilon


# --- sensitivity


@pytest.mark.parametrize(
    ("kind", "a", "width"),
    [
        ("power", 1.0, 5.0),
        ("power", 2.0, 9.0),
        ("power", 3.0, 35.0),
        ("absolute_power", 0.5, math.sqrt(3.0)),
        ("absolute_power", 3.0, 27.0),
    ],
)
@pytest.mark.parametrize("form", ["batch", "sequential"])
def test_replacing_a_row_moves_what_gets_noise_by_the_sensitivity_at_most(kind, a, width, form):
    asked = StatisticRequest(column="x", kind=kind, a=a, form=form, noise="laplace")
    plan = planned(schema_of(3), asked, 1.0, 0.0)
    most = cells(plan.paid.noise_multiplier)
    last = [-1e300, -2.0, -0.3, 0.0, 1.7, 3.0, 1e300, math.nan, math.inf]
    found = [summed(plan, [np.array([0.2, 2.0, x])], most) for x in last]
    far = max(np.abs(u - v).sum() for u, v in itertools.combinations(found, 2))
    assert far == most
    assert plan.statistic.sensitivity == pytest.approx(width, rel=1e-15)


@pytest.mark.parametrize("form", ["batch", "sequential"])
def test_rows_beyond_their_bounds_count_as_rows_at_them(form):
    """Also where s is no power that keeps the order: (-9)^2 lies beyond 3^2 and is that of -2."""
    plan = planned(
        schema_of(3), StatisticRequest(column="x", a=2.0, form=form, noise="laplace"), 1.0, 0.0
    )
    most = cells(plan.paid.noise_multiplier)
    for beyond, at in ((-9.0, -2.0), (-1e200, -2.0), (50.0, 3.0), (math.inf, 3.0)):
        found, wanted = (in_cells(plan, np.array([0.2, 2.0, x]), most) for x in (beyond, at))
        assert (found == wanted).all()


def test_noise_is_in_the_unit_of_the_sensitivity():
    asked = StatisticRequest(column="x", kind="power", a=3.0, noise="laplace")
    plan, _ = times(asked, [0.0] * 4, 1, epsilon=0.5)
    found = release_statistic(
        data_of([0.0] * 4), "x", schema=plan.schema, epsilon=0.5, a=3.0, noise="laplace"
    )
    assert 70.0 <= found.noise.scale < 70.0 * (1.0 + 1e-6)


# --- laws of what is released


@pytest.mark.longer
@pytest.mark.parametrize("form", ["batch", "sequential"])
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_released_numbers_have_the_claimed_noise_and_not_a_tenth_less(form, noise):
    rows = [1.5, 1.5, 1.5] if form == "sequential" else [1.0, -0.5, 2.5]
    asked = StatisticRequest(column="x", kind="power", a=2.0, form=form, noise=noise)
    plan, found = times(asked, rows, 4000, delta=1e-6 if noise == "gaussian" else 0.0)
    squares = np.array(rows) ** 2
    away = found - (squares if form == "sequential" else squares.sum())
    scaled = away.ravel() / (plan.paid.noise_multiplier * 9.0)
    assert suits(scaled, noise)
    assert not suits(scaled / 0.9, noise)


def suits(scaled, noise):
    """Whether numbers are of this law with scale 1: its shape, and its size to 3.7 sds."""
    if noise == "laplace":
        size, shape = gamma(len(scaled)).cdf(np.abs(scaled).sum()), laplace.cdf
    else:
        size, shape = chi2(len(scaled)).cdf((scaled**2).sum()), norm.cdf
    return 1e-4 < size < 1.0 - 1e-4 and kstest(scaled, shape).pvalue > 1e-4


@pytest.mark.parametrize("form", ["batch", "sequential"])
def test_each_number_has_noise_of_its_own(form):
    asked = StatisticRequest(column="x", form=form, noise="laplace")
    _, found = times(asked, [1.0] * 40, 50)
    assert len(np.unique(found)) == found.size


@pytest.mark.longer
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_laws_on_two_neighbours_are_as_far_apart_as_is_charged(noise):
    """The best test at a threshold: its advantage is the paid one, and not more by 5 sds."""
    asked = StatisticRequest(column="x", noise=noise)
    count = 8_000
    plan, one = times(asked, [1.0, -2.0], count, delta=1e-6 if noise == "gaussian" else 0.0)
    _, other = times(asked, [1.0, 3.0], count, delta=1e-6 if noise == "gaussian" else 0.0)
    z = plan.paid.noise_multiplier
    advantage = np.mean(one < 1.5) - np.mean(other < 1.5)
    claimed = 2 * norm.cdf(0.5 / z) - 1 if noise == "gaussian" else 1 - math.exp(-0.5 / z)
    sd = math.sqrt(0.5 / count)
    assert abs(advantage - claimed) < 5 * sd
    assert claimed > 10 * sd


def test_responses_are_flipped_as_often_as_is_charged():
    """Ones and zeros alike, to 5 standard deviations; a tenth fewer flips would be seen."""
    asked, count = (
        StatisticRequest(column="b", form="sequential", noise="randomised_response"),
        20_000,
    )
    share = 1.0 / (1.0 + math.e)
    sd = math.sqrt(share * (1.0 - share) / count)
    for word, true in (("yes", 1.0), ("no", 0.0)):
        _, found = times(asked, [0.0] * count, 1, epsilon=1.0, said=[word] * count)
        assert abs(np.mean(found != true) - share) < 5 * sd
    assert 0.1 * share > 5 * sd


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_rows_are_told_in_an_order_that_says_nothing_of_them(noise):
    """A sorted file: noise of a thousandth of the range would show its order."""
    asked = StatisticRequest(column="x", form="sequential", noise=noise)
    delta = 1e-6 if noise == "gaussian" else 0.0
    _, found = times(asked, np.linspace(-2.0, 3.0, 400).tolist(), 1, epsilon=60.0, delta=delta)
    assert abs(spearmanr(found[0], np.arange(400)).statistic) < 5 / math.sqrt(400)
    assert np.abs(np.sort(found[0]) - np.linspace(-2.0, 3.0, 400)).mean() < 0.5


# --- smooth sensitivity

VALUES = (0.0, 1.0, 2.0, 4.0)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("beta", [0.1, 0.5, 2.0])
def test_the_smooth_sensitivity_is_that_of_a_search_over_all_data_sets(rank, beta):
    def value(rows):
        return sorted(rows)[rank - 1]

    everywhere = list(itertools.product(VALUES, repeat=3))
    local = {
        y: max(abs(value(y) - value((*y[:i], v, *y[i + 1 :]))) for i in range(3) for v in VALUES)
        for y in everywhere
    }
    for x in everywhere:
        wanted = max(
            local[y] * math.exp(-beta * sum(a != b for a, b in zip(x, y, strict=True)))
            for y in everywhere
        )
        found = smooth_sensitivity(np.sort(x), rank, beta, 0.0, 4.0)
        assert found == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("beta", [0.02, 0.7, 5.0])
def test_the_smooth_sensitivity_changes_slowly(beta):
    """Between neighbours by no more than e^beta, also where replaced rows are cut off."""
    random = np.random.default_rng(3)
    for spread in (1e-9, 1e-3, 1.0):
        rows = random.random((400, 30)) * spread
        others = rows.copy()
        others[np.arange(400), random.integers(30, size=400)] = random.random(400)
        for rank in (15, 30):
            one, other = (
                smooth_sensitivity(np.sort(some), rank, beta, 0.0, 1.0) for some in (rows, others)
            )
            assert np.abs(np.log(one / other)).max() <= beta * (1.0 + 1e-12)


@pytest.mark.parametrize("beta", [0.1, 0.5, 2.0])
@pytest.mark.parametrize("rank", [1, 40, 80])
def test_rows_that_turn_one_by_one_change_the_smooth_sensitivity_slowly(beta, rank):
    """From rows that are all alike, where only many replaced ones move the order statistic, to rows
    half of which are at either end: no step on the way is longer than e^beta."""
    n = max(80, 2 * math.ceil(20.0 * math.log(2.0) / beta) + 8)
    rank = math.ceil(rank * n / 80)
    rows = np.sort((np.arange(n) < np.arange(n + 1)[:, None]).astype(float), axis=1)
    found = smooth_sensitivity(rows, rank, beta, 0.0, 1.0)
    assert np.abs(np.diff(np.log(found))).max() <= beta * (1.0 + 1e-12)
    assert found.max() == 1.0
    assert found.min() < 1e-3 or n * beta < 20.0


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1.0 / 32.0, 1.0, 8.0, 32.0])
@pytest.mark.parametrize("delta", [1e-2, 1e-9])
def test_the_integers_of_an_order_statistic_are_of_a_scale_that_changes_slowly(
    monkeypatch, epsilon, delta
):
    """The whole scale that noise is drawn at, between neighbours: by the largest e^b that the
    proof allows, rounding included; and what gets the noise by epsilon / 2 of it."""
    exact = brentq(
        lambda b: math.log(1.0 / delta) * math.expm1(b) - b - 0.5 * epsilon, 0.0, epsilon
    )
    allowed = min(exact, 0.5 * epsilon)
    n = min(2 * math.ceil(20.0 * math.log(2.0) / allowed) + 9, 900)
    asked = StatisticRequest(column="x", form="median", noise="smooth_laplace")
    plan, scales, centres = planned(schema_of(n), asked, epsilon, delta), [], []

    def drawn(random, site, multiplier, scale, shape):
        scales.append(scale)
        return np.zeros(shape, np.int64)

    monkeypatch.setattr("dpmcmc.queries.statistics.release.laplace_noise", drawn)
    for high in range(n + 1):
        values = np.where(np.arange(n) < high, 3.0, -2.0)
        centres.append(of_parts(plan, [values], Seeded(1)).values[0])
    logs = np.log(np.array(scales, np.longdouble))
    assert np.abs(np.diff(logs)).max() <= allowed
    assert np.abs(np.diff(logs)).max() > 0.99 * allowed
    moved = np.abs(np.diff(centres)) * (2**44 / 5.0)
    least = np.minimum(scales[1:], scales[:-1])
    assert (moved <= 0.5 * epsilon * least).all()
    assert moved.max() > 0.0
    assert min(scales) >= 2**20


def divergence(epsilon, beta):
    """Largest hockey-stick divergence of Laplace densities, e^beta and half of epsilon apart."""
    y = np.unique(np.concatenate([np.linspace(-60.0, 60.0, 240_001), [0.0, epsilon / 2]]))
    y = np.concatenate([-np.geomspace(400.0, 60.1, 4000), y, np.geomspace(60.1, 400.0, 4000)])
    narrow = -np.abs(y) - math.log(2.0)
    wide = -np.abs(y - epsilon / 2) * math.exp(-beta) - math.log(2.0) - beta
    pairs = (narrow, wide), (wide, narrow)
    return max(np.trapezoid(np.maximum(np.exp(p) - np.exp(epsilon + q), 0.0), y) for p, q in pairs)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0, 10.0, 20.0, 32.0])
@pytest.mark.parametrize("delta", [0.3, 1e-2, 1e-6])
def test_the_smooth_scale_keeps_delta(epsilon, delta):
    assert divergence(epsilon, beta_of(epsilon, delta)) < delta


def test_the_usual_smooth_scale_does_not_keep_delta_at_a_large_epsilon():
    usual = 20.0 / (2.0 * math.log(2.0 / 1e-4))
    assert divergence(20.0, usual) > 5e-4
    assert divergence(5.0, 5.0 / (2.0 * math.log(2.0 / 1e-4))) < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("form", ["median", "maximum"])
def test_order_statistics_have_the_noise_of_their_rows_and_not_a_tenth_less(form):
    rows = np.linspace(-1.0, 1.9, 101) ** 3 / 4.0
    asked = StatisticRequest(column="x", form=form, noise="smooth_laplace")
    plan, found = times(asked, rows, 3000, epsilon=2.0, delta=1e-4)
    scale = smooth_sensitivity(rows, plan.rank, beta_of(2.0, 1e-4), -2.0, 3.0)
    scaled = (found[:, 0] - (rows[50] if form == "median" else rows[100])) / scale
    assert suits(scaled, "laplace")
    assert not suits(scaled / 0.9, "laplace")


@pytest.mark.parametrize("epsilon", [1.0 / 32.0, 32.0])
@pytest.mark.parametrize("rows", [[-2.0], [3.0, 3.0], [-2.0, 3.0, 0.0], [0.5] * 300], ids=str)
def test_no_rows_stop_an_order_statistic(epsilon, rows):
    """The scale of its noise fits the integers, however little or much the rows let it be."""
    for form in ("median", "maximum"):
        asked = StatisticRequest(column="x", form=form, noise="smooth_laplace")
        plan, found = times(asked, rows, 3, epsilon=epsilon, delta=1e-6)
        limits = plan.statistic.range
        noise = SmoothLaplaceNoise(epsilon, beta_of(epsilon, 1e-6), plan.rank, *limits)
        at, scale = noise.law(np.array(rows))
        assert (np.abs(found - at) < 40.0 * scale).all()


def test_the_noise_of_an_order_statistic_is_known_from_simulated_rows():
    rows = np.random.default_rng(2).uniform(-2.0, 3.0, (5, 41))
    found = release_statistic(
        data_of(rows[0]), "x", schema=schema_of(41), epsilon=2.0, delta=1e-4, form="median",
        noise="smooth_laplace",
    )  # fmt: skip
    density = found.noise.log_density(found.values[0], rows)
    for own, told in zip(rows, density, strict=True):
        scale = smooth_sensitivity(np.sort(own), 21, beta_of(2.0, 1e-4), -2.0, 3.0)
        wanted = laplace.logpdf(found.values[0], np.median(own), scale)
        assert told == pytest.approx(wanted, rel=1e-9)


# --- what is charged


@pytest.mark.parametrize(
    ("asked", "delta", "event"),
    [
        (StatisticRequest(column="x"), 1e-6, None),
        (StatisticRequest(column="x", form="sequential", noise="laplace"), 0.0, Laplace(2.0)),
        (
            StatisticRequest(column="b", form="sequential", noise="randomised_response"),
            0.0,
            PureEpsilon(0.5),
        ),
        (
            StatisticRequest(column="x", form="median", noise="smooth_laplace"),
            1e-6,
            SmoothLaplace(0.5, 1e-6),
        ),
    ],
    ids=["gaussian", "laplace", "randomised_response", "smooth_laplace"],
)
def test_one_event_is_charged(asked, delta, event):
    plan = planned(schema_of(9), asked, 0.5, delta)
    event = event or Gaussian(plan.paid.noise_multiplier)
    found, wanted = asdict(plan.paid.event), asdict(event)
    assert found == wanted | {
        name: pytest.approx(value, rel=1e-14)
        for name, value in wanted.items()
        if isinstance(value, float)
    }
    assert delta > 0.0 or accountant.pure_epsilon(plan.paid.event) <= 0.5
    assert plan.paid.cost.epsilon >= accountant.epsilon(plan.paid.event, delta or 1e-12)
    assert 0.49999 < plan.paid.cost.epsilon <= 0.5
    assert plan.paid.cost.delta == delta


def test_a_budget_pays_and_refuses():
    budget = Budget(epsilon=1.0, delta=1e-5)
    kwargs = {"schema": schema_of(9), "noise": "laplace", "budget": budget}
    release_statistic(data_of([0.1] * 9), "x", epsilon=0.6, **kwargs)
    assert budget.calls == 1
    with pytest.raises(BudgetExhaustedError):
        release_statistic(data_of([0.1] * 9), "x", epsilon=0.6, **kwargs)
    release_statistic(data_of([0.1] * 9), "x", epsilon=0.399, **kwargs)


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_a_median_fits_a_budget_that_keeps_a_share_of_delta_for_it(share):
    budget = Budget(epsilon=1.0, delta=1e-5, failure_share=share)
    asked = {"form": "median", "noise": "smooth_laplace", "budget": budget}

    def call(delta):
        release_statistic(
            data_of([0.1] * 9), "x", schema=schema_of(9), epsilon=0.5, delta=delta, **asked
        )

    if share:
        call(4e-6)
        assert budget.spent == pytest.approx(0.5, rel=1e-14)
    with pytest.raises(BudgetExhaustedError):
        call(4e-6)


def test_rows_open_for_the_event_that_was_paid_for_alone():
    plan = planned(schema_of(3), StatisticRequest(column="x", noise="laplace"), 0.5, 0.0)
    rows = Private(table_of(plan.schema, data_of([1.0, 2.0, 3.0])), subject="d")
    with pytest.raises(PermitError):
        release(plan, rows, Permit(subject="d", event_digest=digest(Laplace(1.0))), Seeded(1))


@pytest.mark.parametrize(
    ("asked", "epsilon", "delta"),
    [
        (StatisticRequest(column="x"), 1.0, 0.0),
        (StatisticRequest(column="x"), 0.0, 1e-6),
        (StatisticRequest(column="x"), math.nan, 1e-6),
        (StatisticRequest(column="x", noise="laplace"), 0.0, 0.0),
        (StatisticRequest(column="x", noise="laplace"), 1.0, 1.0),
        (StatisticRequest(column="x", noise="laplace"), 1e9, 0.0),
        (StatisticRequest(column="x", noise="laplace"), math.inf, 0.0),
        (StatisticRequest(column="x", form="median", noise="laplace"), 1.0, 0.0),
        (StatisticRequest(column="x", form="median", noise="smooth_laplace"), 1.0, 0.0),
        (StatisticRequest(column="x", form="median", noise="smooth_laplace"), 1.0, 0.5),
        (StatisticRequest(column="x", form="median", noise="smooth_laplace"), 33.0, 1e-6),
        (StatisticRequest(column="x", noise="smooth_laplace"), 1.0, 1e-6),
        (StatisticRequest(column="x", form="sequential", noise="randomised_response"), 1.0, 0.0),
        (StatisticRequest(column="b", noise="randomised_response"), 1.0, 0.0),
        (StatisticRequest(column="b", form="sequential", noise="randomised_response"), 33.0, 0.0),
        (StatisticRequest(column="c", noise="laplace"), 1.0, 0.0),
        (StatisticRequest(column="m", noise="laplace"), 1.0, 0.0),
        (StatisticRequest(column="z", noise="laplace"), 1.0, 0.0),
        (StatisticRequest(column="x", a=0.5, noise="laplace"), 1.0, 0.0),
        (StatisticRequest(column="x", a=-1.0, noise="laplace"), 1.0, 0.0),
        (StatisticRequest(column="x", kind="log", noise="laplace"), 1.0, 0.0),
        (StatisticRequest(column="x", form="mean", noise="laplace"), 1.0, 0.0),
        (StatisticRequest(column="x", noise="none"), 1.0, 0.0),
    ],
)
def test_what_no_proof_covers_is_refused_before_a_row_is_read(asked, epsilon, delta):
    with pytest.raises(SpecError):
        planned(schema_of(9), asked, epsilon, delta)


@pytest.mark.parametrize(
    ("noise", "epsilon", "delta", "told"),
    [
        ("gaussian", 1.0, 0.0, r"/privacy/delta: must be above 0: gaussian noise needs one"),
        ("smooth_laplace", 1.0, 0.0, r"/privacy/delta: must be above 0: smooth_laplace noise"),
        ("smooth_laplace", 1.0, 0.5, r"/privacy/delta: must be below 1 / rows"),
        ("gaussian", -1.0, 1e-6, r"/privacy/epsilon: must be a finite number above 0"),
        ("laplace", 0.0, 0.0, r"/privacy/epsilon: must be a finite number above 0"),
        ("laplace", math.inf, 0.0, r"/privacy/epsilon: must be a finite number above 0"),
        ("laplace", math.nan, 0.0, r"/privacy/epsilon: must be a finite number above 0"),
    ],
)
def test_an_epsilon_or_delta_that_is_none_is_told_by_name(noise, epsilon, delta, told):
    form = "median" if noise == "smooth_laplace" else "batch"
    asked = StatisticRequest(column="x", form=form, noise=noise)
    with pytest.raises(SpecError, match=told):
        planned(schema_of(9), asked, epsilon, delta)


def test_statistics_are_refused_where_the_number_of_rows_is_private():
    schema = Schema(columns=COLUMNS, rows=9, neighbouring=Neighbouring.ADD_REMOVE)
    with pytest.raises(SpecError):
        planned(schema, StatisticRequest(column="x", noise="laplace"), 1.0, 0.0)
