"""Names that theses and papers give to algorithms are taken by the library and by the service."""

import pytest

from dpmcmc.base.errors import SpecError
from dpmcmc.fit.local import sample
from dpmcmc.inputs.options import SufficientStatisticsOptions
from dpmcmc.inputs.published import PUBLISHED, algorithm_of
from dpmcmc.inputs.spec import ModelSpec
from dpmcmc.samplers.algorithms import ALGORITHMS
from tests.api.support import House
from tests.cases import people, schema_of

MODEL = {"family": "linear", "formula": "age ~ sex"}
PRIVACY = {"epsilon": 1.0, "delta": 1e-6}


@pytest.mark.parametrize("name", PUBLISHED)
def test_every_published_name_is_one_of_a_registered_algorithm(name: str) -> None:
    algorithm, options = PUBLISHED[name]
    made = ALGORITHMS[algorithm].options(**options)
    assert made.algorithm == algorithm
    for spelling in (name, name.upper(), name.lower(), name.replace("-", " ")):
        assert algorithm_of(spelling) == (algorithm, options)


def test_no_name_here_is_taken_for_another() -> None:
    for name in ALGORITHMS:
        assert algorithm_of(name)[0] == name


@pytest.mark.parametrize("name", ["MCMC-fixedS", "adaSSP", "Bayes-fixedS-fast"])
def test_the_library_takes_them(name: str) -> None:
    known = PUBLISHED[name][1]["method"]
    assert SufficientStatisticsOptions(method=name).method == known  # type: ignore[arg-type]
    made = sample(
        people(400),
        schema=schema_of(400),
        model=ModelSpec(family="linear", formula="x ~ g"),
        epsilon=2.0,
        sampler=name,  # type: ignore[arg-type]
    )
    sampler = made.plan.spec.sampler
    assert isinstance(sampler, SufficientStatisticsOptions)
    assert sampler.method == known


def test_an_unknown_method_is_refused_with_the_names_there_are() -> None:
    options = SufficientStatisticsOptions(method="MCMC-fixedT")  # type: ignore[arg-type]
    with pytest.raises(SpecError, match="mcmc_fixeds"):
        sample(
            people(400),
            schema=schema_of(400),
            model=ModelSpec(family="linear", formula="x ~ g"),
            epsilon=2.0,
            sampler=options,
        )


@pytest.mark.parametrize(
    "sampler",
    [
        {"algorithm": "MCMC-fixedS"},
        {"algorithm": "mcmc fixed s"},
        {"algorithm": "sufficient_statistics", "method": "MCMC-fixedS"},
        {"algorithm": "sufficient_statistics", "method": "mcmc_fixeds"},
    ],
)
def test_the_service_takes_them(house: House, sampler: dict[str, str]) -> None:
    analyst, dataset = house.user("analyst"), house.dataset()
    body = {"dataset": dataset, "model": MODEL, "privacy": PRIVACY, "sampler": sampler}
    body["accept_low_quality"] = True
    plan = analyst.post("/v1/plans", json=body)
    assert plan.status_code == 200, plan.text
    assert plan.json()["algorithm"] == "sufficient_statistics"
    job = analyst.post("/v1/jobs", json=body)
    assert job.status_code == 202, job.text
    found = analyst.get(f"/v1/jobs/{job.json()['id']}").json()["spec"]["sampler"]
    assert (found["algorithm"], found["method"]) == ("sufficient_statistics", "mcmc_fixeds")


@pytest.mark.parametrize("method", ["mcmc_bs", "MCMC-normalX", "no method", None, 3])
def test_another_method_beside_a_name_that_means_one_is_refused(
    house: House, method: object
) -> None:
    analyst, dataset = house.user("analyst"), house.dataset()
    sampler = {"algorithm": "adaSSP", "method": method}
    body = {"dataset": dataset, "model": MODEL, "privacy": PRIVACY, "sampler": sampler}
    refused = analyst.post("/v1/plans", json=body)
    assert refused.status_code == 422, refused.text
    (error,) = refused.json()["errors"]
    assert error["pointer"] == "/sampler/method"
    assert "adassp, which adaSSP means" in error["message"]
    body["sampler"] = {"algorithm": "adaSSP", "method": "adaSSP"}
    assert analyst.post("/v1/plans", json=body).status_code == 200


def test_other_names_are_refused_as_before(house: House) -> None:
    analyst, dataset = house.user("analyst"), house.dataset()
    body = {"dataset": dataset, "model": MODEL, "privacy": PRIVACY}
    for sampler in ({"algorithm": "MCMC"}, {"algorithm": 3}, "adaSSP", ["adaSSP"]):
        assert analyst.post("/v1/plans", json=body | {"sampler": sampler}).status_code == 422


@pytest.mark.parametrize(
    ("family", "here"), [("gaussian", "linear"), ("Normal", "linear"), ("linear", "linear")]
)
def test_the_service_takes_families_by_the_names_of_other_software(
    house: House, family: str, here: str
) -> None:
    analyst, dataset = house.user("analyst"), house.dataset()
    model = {"family": family, "formula": 'age ~ C(sex, ref="Male")'}
    body = {"dataset": dataset, "model": model, "privacy": PRIVACY, "accept_low_quality": True}
    plan = analyst.post("/v1/plans", json=body)
    assert plan.status_code == 200, plan.text
    job = analyst.post("/v1/jobs", json=body)
    assert job.status_code == 202, job.text
    assert analyst.get(f"/v1/jobs/{job.json()['id']}").json()["spec"]["model"]["family"] == here


@pytest.mark.parametrize("family", [3, None, "gama", "", ["gaussian"]])
def test_no_other_word_is_a_family(house: House, family: object) -> None:
    analyst, dataset = house.user("analyst"), house.dataset()
    model = {"family": family, "formula": "age ~ sex"}
    body = {"dataset": dataset, "model": model, "privacy": PRIVACY}
    refused = analyst.post("/v1/plans", json=body)
    assert refused.status_code == 422, refused.text
    assert "family" in refused.text


@pytest.mark.parametrize("model", [{}, {"family": None}])
@pytest.mark.parametrize("response", ["age | trials(age)", "surv(age, income)"])
def test_a_response_of_two_columns_says_its_family(
    house: House, response: str, model: dict[str, None]
) -> None:
    dataset = house.dataset()
    job = {
        "dataset": dataset,
        "privacy": PRIVACY,
        "model": model | {"formula": f"{response} ~ sex"},
    }
    answer = house.user("analyst").post("/v1/plans", json=job)
    assert answer.status_code == 200, answer.text
    assert answer.json()["algorithm"] == "noisy_quadratic"


def test_a_response_of_one_column_does_not(house: House) -> None:
    job = {"dataset": house.dataset(), "privacy": PRIVACY, "model": {"formula": "age ~ sex"}}
    answer = house.user("analyst").post("/v1/plans", json=job)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/model/family"
