"""Fisher information is that of closed forms, and of Monte Carlo to three standard errors."""

import math

import mpmath as mp
import numpy as np
import pytest
from scipy.special import gamma
from scipy.stats import norm

from dpmcmc.queries.statistics.fisher import (
    best_power,
    gaussian_information,
    information,
    laplace_information,
    response_information,
)
from dpmcmc.queries.statistics.mechanisms import (
    GaussianNoise,
    LaplaceNoise,
    RandomisedResponse,
    SmoothLaplaceNoise,
    Statistic,
    beta_of,
)
from dpmcmc.queries.statistics.populations import (
    Bernoulli,
    NormalMean,
    NormalVariance,
    UniformWidth,
    moments,
)
from experiments.fisher_monte_carlo import (
    Effort,
    additive_information,
    marginal_information,
    sequential_information,
)
from tests.sources import Seeded

CLOSE = 1e-10


def of_variance(theta, a):
    """Thesis B, Example 4."""
    first, second = gamma((a + 1) / 2) / math.pi**0.5, gamma((2 * a + 1) / 2) / math.pi**0.5
    mean, variance = (2 * theta) ** (a / 2) * first, (2 * theta) ** a * (second - first**2)
    return mean, variance, 0.5 * a / theta * mean, a / theta * variance


def of_width(theta, a):
    """Thesis B, Example 5."""
    mean, variance = theta**a / (a + 1), theta ** (2 * a) * a**2 / ((a + 1) ** 2 * (2 * a + 1))
    return mean, variance, a / theta * mean, 2 * a / theta * variance


def of_mean(theta, a):
    """Thesis B, Example 3."""
    if a == 1:
        return theta, 1.0, 1.0, 0.0
    variance = 9 * theta**4 + 36 * theta**2 + 15
    return theta**3 + 3 * theta, variance, 3 * theta**2 + 3, 36 * theta**3 + 72 * theta


CASES = [
    *((NormalVariance(), "absolute_power", a, t, of_variance) for a in (0.1, 1, 2) for t in (1, 9)),
    *((UniformWidth(), "absolute_power", a, t, of_width) for a in (0.1, 0.5, 2) for t in (0.2, 3)),
    *((NormalMean(), "power", a, t, of_mean) for a in (1, 3) for t in (0.5, 5)),
]


@pytest.mark.parametrize(("population", "kind", "a", "theta", "closed"), CASES)
@pytest.mark.parametrize("sd", [0.0, 3.0, 500.0])
def test_information_with_gaussian_noise_is_the_closed_form(population, kind, a, theta, closed, sd):
    """Wide bounds clamp nothing; the matrix formula of thesis B is written out for means."""
    n, statistic = 100, Statistic(kind, a, -100.0, 100.0)
    mean, variance, mean_slope, variance_slope = closed(theta, a)
    known = moments(population, statistic, theta)
    assert known == pytest.approx((mean, variance, mean_slope, variance_slope), rel=CLOSE)
    h = variance / n + sd**2 / n**2
    wanted = mean_slope**2 / h + 0.5 * (variance_slope / n / h) ** 2
    noise = GaussianNoise(sd) if sd else None
    assert information(population, statistic, theta, n, noise) == pytest.approx(wanted, rel=CLOSE)


def test_moments_are_those_of_clamped_rows():
    statistic, theta = Statistic("power", 1.0, -1.0, 1.5), 0.7
    x = np.clip(NormalMean().sample(Seeded(1), theta, (400_000,)), -1.0, 1.5)
    known, sd = moments(NormalMean(), statistic, theta), x.std() / 400_000**0.5
    assert abs(known.mean - x.mean()) < 4 * sd
    step = 1e-5
    ahead, behind = (moments(NormalMean(), statistic, theta + s) for s in (step, -step))
    assert known.mean_slope == pytest.approx((ahead.mean - behind.mean) / (2 * step), rel=1e-8)
    slope = (ahead.variance - behind.variance) / (2 * step)
    assert known.variance_slope == pytest.approx(slope, rel=1e-8)


@pytest.mark.parametrize("scale", [0.02, 2.0, 10.0, 1000.0])
def test_information_with_laplace_noise_is_that_of_the_written_out_density(scale):
    n, known = 100, moments(NormalVariance(), Statistic("absolute_power", 1.0, -10.0, 10.0), 2.0)
    with mp.workdps(25):
        b, v = mp.mpf(scale), n * mp.mpf(known.variance)
        sd = mp.sqrt(v)

        def integrand(d):
            a, c = (
                mp.exp(v / (2 * b * b) - t / b) * mp.ncdf(t / sd - sd / b) / (2 * b)
                for t in (d, -d)
            )
            by_variance = (a + c - mp.npdf(d / sd) / sd) / (2 * b * b)
            slope = n * (known.mean_slope * (a - c) / b + known.variance_slope * by_variance)
            return slope**2 / (a + c)

        ends = {k * q for k in (1, 3, 6, 10) for q in (sd, b)} | {45 * max(sd, b)}
        wanted = float(mp.quad(integrand, sorted({-e for e in ends} | ends | {mp.mpf(0)})))
    assert laplace_information(known, n, scale) == pytest.approx(wanted, rel=CLOSE)


def test_little_laplace_noise_is_as_good_as_none():
    known = moments(NormalVariance(), Statistic("absolute_power", 1.0, -10.0, 10.0), 2.0)
    none = gaussian_information(known, 100, 0.0)
    both = [laplace_information(known, 100, sd * 60.0**0.5) for sd in (0.99e-3, 1.3e-3)]
    assert none > both[0] > both[1] > (1.0 - 1e-5) * none


@pytest.mark.slow
@pytest.mark.parametrize("noise", [LaplaceNoise(10.0), LaplaceNoise(2.0), GaussianNoise(5.0)])
@pytest.mark.parametrize("seed", [1, 2])
def test_algorithm_6_agrees_to_three_standard_errors(noise, seed):
    statistic = Statistic("absolute_power", 1.0, -10.0, 10.0)
    known = moments(NormalVariance(), statistic, 2.0)
    found = additive_information(known, 100, noise, Seeded(seed), Effort())
    wanted = information(NormalVariance(), statistic, 2.0, 100, noise)
    assert abs(found.value - wanted) < 3 * found.standard_error
    assert found.standard_error < 0.02 * wanted


def test_algorithm_6_as_printed_adds_the_variance_of_its_scores():
    """With 50 particles the variance of a score, 1/M of the information without noise and more."""
    known = moments(NormalVariance(), Statistic("absolute_power", 1.0, -10.0, 10.0), 2.0)
    wanted, noise = gaussian_information(known, 100, 40.0), GaussianNoise(40.0)
    effort = {"observations": 100_000, "particles": 50}
    found = additive_information(known, 100, noise, Seeded(1), Effort(**effort, squared=True))
    better = additive_information(known, 100, noise, Seeded(1), Effort(**effort))
    assert found.value - wanted > 3 * found.standard_error
    assert abs(better.value - wanted) < 3 * better.standard_error


@pytest.mark.parametrize("noise", [LaplaceNoise(60.0), GaussianNoise(60.0)])
def test_algorithm_7_agrees_where_the_sum_is_nearly_normal(noise):
    statistic = Statistic("absolute_power", 1.0, -10.0, 10.0)
    effort = Effort(20_000, 2000)
    found = marginal_information(NormalVariance(), statistic, 2.0, 100, noise, Seeded(4), effort)
    wanted = information(NormalVariance(), statistic, 2.0, 100, noise)
    assert abs(found.value - wanted) < 3 * found.standard_error
    assert found.standard_error < 0.1 * wanted


def test_algorithm_7_is_exact_where_the_sum_is_not_normal():
    """Three binary rows with Gaussian noise: four sums, whose mixture is written out."""
    theta, noise = 0.2, GaussianNoise(0.8)
    statistic, effort = Statistic("power", 1.0, 0.0, 1.0), Effort(40_000, 2000)
    found = marginal_information(Bernoulli(), statistic, theta, 3, noise, Seeded(5), effort)
    y, k = np.linspace(-10.0, 14.0, 24_001), np.arange(4)
    weights = np.array([math.comb(3, i) * theta**i * (1 - theta) ** (3 - i) for i in k])
    slopes = weights * (k / theta - (3 - k) / (1 - theta))
    each = np.exp(noise.log_density(y[:, None] - k))
    wanted = float(np.trapezoid((each @ slopes) ** 2 / (each @ weights), y))
    assert abs(found.value - wanted) < 3 * found.standard_error
    assert found.standard_error < 0.03 * wanted
    normal = information(Bernoulli(), statistic, theta, 3, noise)
    assert normal / wanted > 1.03  # what the normal approximation makes of it


@pytest.mark.longer
@pytest.mark.parametrize("noise", [LaplaceNoise(2.0), GaussianNoise(5.0), LaplaceNoise(0.3)])
def test_algorithm_8_agrees_to_three_standard_errors(noise):
    statistic = Statistic("absolute_power", 1.0, -10.0, 10.0)
    effort = Effort(20_000, 2000)
    found = sequential_information(NormalVariance(), statistic, 2.0, 100, noise, Seeded(3), effort)
    wanted = information(NormalVariance(), statistic, 2.0, 100, noise, "sequential")
    assert abs(found.value - wanted) < 3 * found.standard_error
    assert found.standard_error < 0.06 * wanted


def test_the_width_of_a_uniform_law_has_information_once_rows_have_noise():
    """By differences of the density of one row, which is the mean over the support."""
    theta, noise = 1.5, LaplaceNoise(2.0)
    statistic = Statistic("absolute_power", 0.5, -10.0, 10.0)
    y = np.linspace(-60.0, 60.0, 60_001)
    u = (np.arange(1000) + 0.5) / 1000

    def density(at):
        out = np.zeros_like(y)
        for one in (at * u) ** 0.5:
            out += np.exp(noise.log_density(y - one))
        return out / len(u)

    slope = (density(theta + 1e-3) - density(theta - 1e-3)) / 2e-3
    wanted = float(np.trapezoid(slope**2 / density(theta), y))
    found = information(UniformWidth(), statistic, theta, 1, noise, "sequential")
    assert found == pytest.approx(wanted, rel=1e-5)
    with pytest.raises(ValueError, match="support"):
        sequential_information(UniformWidth(), statistic, theta, 1, noise, Seeded(1), Effort())


@pytest.mark.parametrize("theta", [0.05, 0.3, 0.5])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_randomised_responses_have_the_information_of_their_two_outcomes(theta, epsilon):
    keep = 1.0 / (1.0 + math.exp(-epsilon))
    found = response_information(RandomisedResponse(keep), theta, 100)
    told = theta * keep + (1.0 - theta) * (1.0 - keep)
    slope = 2.0 * keep - 1.0
    wanted = 100 * sum(s**2 / p for s, p in ((slope, told), (-slope, 1.0 - told)))
    alpha = (math.exp(epsilon) - 1.0) / (math.exp(epsilon) + 1.0)
    assert found == pytest.approx(wanted, rel=CLOSE)
    assert found == pytest.approx(100 * alpha**2 / (told * (1.0 - told)), rel=CLOSE)
    assert found < 100 / (theta * (1.0 - theta))


@pytest.mark.parametrize("rank", [11, 21])
def test_algorithm_7_gives_order_statistics_less_than_their_rows_have(rank):
    noise = SmoothLaplaceNoise(5.0, beta_of(5.0, 1e-3), rank, 0.0, 10.0)
    statistic = Statistic("absolute_power", 1.0, -10.0, 10.0)
    found = marginal_information(
        NormalVariance(), statistic, 2.0, 21, noise, Seeded(1), Effort(4000, 1000)
    )
    assert 0.0 < found.value < 21 / (2 * 2.0**2)


def test_the_best_power_is_that_of_the_least_mean_variance():
    """Without noise x^2 tells all of a variance; with much noise |x| tells more.

    x^2 alone has n / (2 theta^2); the normal approximation adds 2 / theta^2.
    """
    statistic, population = Statistic("absolute_power", 1.0, -10.0, 10.0), NormalVariance()
    guesses, powers = (1.5, 2.0, 2.5), (0.5, 1.0, 1.5, 2.0)

    def chosen(z):
        return best_power(
            population, statistic, guesses, powers, 100,
            lambda own: GaussianNoise(z * own.sensitivity),
        )  # fmt: skip

    a, scores = chosen(1e-9)
    assert a == 2.0
    assert scores[2.0] == pytest.approx(np.mean([t**2 / 52 for t in guesses]), rel=1e-3)
    a, scores = chosen(1.0)
    assert a < 2.0
    assert scores[a] == min(scores.values())


def test_rows_with_next_to_no_noise_are_refused():
    statistic = Statistic("absolute_power", 1.0, -10.0, 10.0)
    for noise in (None, LaplaceNoise(1e-3)):
        with pytest.raises(ValueError, match="noise"):
            information(NormalVariance(), statistic, 2.0, 10, noise, "sequential")


@pytest.mark.parametrize(("sd", "slack"), [(0.35, 1e-4), (0.05, 1e-3)])
def test_a_row_of_a_uniform_law_has_the_information_of_its_written_out_density(sd, slack):
    """|x| is uniform on (0, theta): with Gaussian noise its density is a difference of Phi."""
    theta = 3.0
    found = information(
        UniformWidth(), Statistic("absolute_power", 1.0, -10.0, 10.0), theta, 1,
        GaussianNoise(sd), "sequential",
    )  # fmt: skip
    y = np.linspace(-10.0 * sd, theta + 10.0 * sd, 400_001)
    density = (norm.cdf(y / sd) - norm.cdf((y - theta) / sd)) / theta
    slope = norm.pdf(y, theta, sd) / theta - density / theta
    kept = density > 1e-200
    wanted = np.trapezoid(slope[kept] ** 2 / density[kept], y[kept])
    assert found == pytest.approx(wanted, rel=slack)
