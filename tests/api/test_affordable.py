"""Noise for an epsilon, and steps for an epsilon: the service says what the library does."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpmcmc import SpecError, noise_for_epsilon, steps_for_epsilon
from dpmcmc.privacy import accountant
from dpmcmc.privacy.accountant import epsilon_of_mu
from dpmcmc.privacy.events import Gaussian, Repeat
from tests.api.support import House

DELTA = 1e-6


@pytest.mark.parametrize("steps", [1, 7, 100_000])
def test_noise_is_the_least_that_is_affordable(house: House, steps: int) -> None:
    z = noise_for_epsilon(1.5, DELTA, steps)
    assert accountant.epsilon(Repeat(Gaussian(z), steps), DELTA) <= 1.5
    assert accountant.epsilon(Repeat(Gaussian(z * (1 - 1e-9)), steps), DELTA) > 1.5
    body = {"epsilon": 1.5, "delta": DELTA, "num_steps": steps}
    answer = house.user("auditor").post("/v1/accounting/noise", json=body)
    assert answer.status_code == 200, answer.text
    assert answer.json()["noise_multiplier"] == z
    assert answer.json()["epsilon"] <= 1.5
    assert answer.json()["mu"] == pytest.approx(math.sqrt(steps) / z)


@pytest.mark.parametrize("gradients", [None, 40.0])
def test_steps_are_the_most_that_are_affordable(house: House, gradients: float | None) -> None:
    body: dict[str, Any] = {"epsilon": 1.5, "delta": DELTA, "noise_multiplier": 60.0}
    given: dict[str, Any] = {}
    if gradients is not None:
        given = {"gradient_noise_multiplier": gradients, "num_leapfrog": 3}
    count = steps_for_epsilon(1.5, DELTA, 60.0, **given)

    def cost(steps: int) -> float:
        square = steps / 60.0**2
        if gradients is not None:
            square += (3 * steps + 1) / gradients**2
        return epsilon_of_mu(math.sqrt(square), DELTA)

    assert cost(count) <= 1.5 < cost(count + 1)
    answer = house.user("analyst").post("/v1/accounting/steps", json=body | given)
    assert answer.json() == {"num_steps": count}


def test_steps_and_noise_are_each_other_s_inverse() -> None:
    for steps in (1, 12, 999):
        assert steps_for_epsilon(2.0, DELTA, noise_for_epsilon(2.0, DELTA, steps)) == steps
    assert steps_for_epsilon(0.01, DELTA, 1.0) == 0


@pytest.mark.parametrize(
    ("call", "given", "pointer"),
    [
        ("noise", {"epsilon": 1e-9, "delta": DELTA}, "/epsilon"),
        ("noise", {"epsilon": 1.0, "delta": 0.5}, "/delta"),
        ("noise", {"epsilon": 1.0, "delta": DELTA, "num_steps": 0}, "/num_steps"),
        ("noise", {"epsilon": 1.0, "delta": DELTA, "num_steps": 10**13}, "/num_steps"),
        ("steps", {"epsilon": 1.0, "delta": DELTA, "noise_multiplier": 1e-7}, "/noise_multiplier"),
        (
            "steps",
            {"epsilon": 1.0, "delta": DELTA, "noise_multiplier": 5.0, "num_leapfrog": 0},
            "/num_leapfrog",
        ),
    ],
)
def test_what_no_budget_or_noise_is_is_refused(
    house: House, call: str, given: dict[str, Any], pointer: str
) -> None:
    function = {"noise": noise_for_epsilon, "steps": steps_for_epsilon}[call]
    with pytest.raises(SpecError) as refused:
        function(**given)
    assert refused.value.pointer == pointer
    answer = house.user("analyst").post(f"/v1/accounting/{call}", json=given)
    assert answer.status_code == 422
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]


@pytest.mark.parametrize("wrong", [None, "1", True, math.nan])
def test_the_library_refuses_other_kinds(wrong: Any) -> None:
    for given in ((wrong, DELTA, 5), (1.0, wrong, 5), (1.0, DELTA, wrong)):
        with pytest.raises(SpecError):
            noise_for_epsilon(*given)
        with pytest.raises(SpecError):
            steps_for_epsilon(*given)


@pytest.mark.parametrize("number", [np.float32, np.float64, Fraction])
@pytest.mark.parametrize("whole", [int, np.int32, np.uint64])
def test_numbers_of_other_libraries_are_numbers(number: Any, whole: Any) -> None:
    given = number(2.0), number(0.0078125)
    assert noise_for_epsilon(*given, whole(50)) == noise_for_epsilon(2.0, 0.0078125, 50)
    assert steps_for_epsilon(*given, number(20.5)) == steps_for_epsilon(2.0, 0.0078125, 20.5)
    noise = {"gradient_noise_multiplier": number(30.5), "num_leapfrog": whole(3)}
    assert steps_for_epsilon(*given, number(20.5), **noise) == steps_for_epsilon(
        2.0, 0.0078125, 20.5, gradient_noise_multiplier=30.5, num_leapfrog=3
    )
