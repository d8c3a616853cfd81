import pytest

from dpmcmc.errors import SpecError
from dpmcmc.privacy import accountant
from dpmcmc.privacy.events import Gaussian, Repeat, WithoutReplacement
from dpmcmc.samplers import minibatch


@pytest.fixture
def asked(monkeypatch):
    """Events whose price was asked for."""
    events, real = [], accountant.epsilon

    def heard(event, delta):
        events.append(event)
        return real(event, delta)

    monkeypatch.setattr(accountant, "epsilon", heard)
    minibatch.calibrated.cache_clear()
    return events


@pytest.mark.parametrize("epsilon", [1e-3, 0.3, 3.0, 30.0])
def test_noise_is_about_the_least_that_is_affordable(asked, epsilon):
    def price(z):
        return accountant.epsilon(Repeat(WithoutReplacement(Gaussian(z), 50, 1000), 200), 1e-6)

    z = minibatch.calibrated(200, 50, 1000, epsilon, 1e-6, None)
    assert price(z) <= epsilon < price(z * (1 - 3 * minibatch.CLOSE))
    assert len(asked) < 40


@pytest.mark.parametrize(("count", "epsilon"), [(2000, 0.5), (20_000, 1.0), (60_000, 2.0)])
def test_many_steps_are_priced_once_or_twice(asked, count, epsilon):
    minibatch.calibrated(count, 10_000, 100_000, epsilon, 1e-6, None)
    assert len(asked) <= 2


def test_a_budget_that_no_noise_meets_is_refused_after_a_few_tries(asked):
    """At this delta only the Rényi route holds, and its epsilon has a floor."""
    with pytest.raises(SpecError, match="too small for so many steps"):
        minibatch.calibrated(20_000, 1000, 100_000, 1e-3, 1e-12, None)
    assert len(asked) <= minibatch.QUICK_TRIES + 1
