"""What a job's form asks for, made from what is registered."""

from typing import Any

import pytest

from app.web import forms, task_forms
from app.web.forms import NotReadError
from tests.api.support import CSV, METADATA, House

DATASET = {
    "id": "d",
    "privacy": {"delta": 1e-7},
    "columns": [
        {"name": "y", "type": "number"},
        {"name": "ill", "type": "binary"},
        {"name": "ward", "type": "category"},
    ],
}


@pytest.fixture
def registered(house: House) -> tuple[dict[str, Any], dict[str, Any]]:
    found = [house.admin.get(f"/v1/{what}").json()["items"] for what in ("models", "samplers")]
    models, samplers = ({one["name"]: one["options"] for one in some} for some in found)
    return models, samplers


def test_a_family_has_the_options_that_it_knows(registered: Any) -> None:
    names = {name: [f.name for f in forms.model_fields(one)] for name, one in registered[0].items()}
    assert names["negative_binomial"] == ["dispersion", "tempering", "weights"]
    assert names["student_t"] == ["degrees_of_freedom", "tempering", "weights"]
    assert "dispersion" not in names["logistic"]
    assert {"variances", "a", "b", "m", "coordinates"} <= set(names["banana"])


@pytest.mark.parametrize(
    ("response", "family"),
    [("ill", "logistic"), ("ward", "multinomial"), ("y", "linear"), ("other", "linear")],
)
def test_a_response_says_its_family(response: str, family: str) -> None:
    form = {"formula": f" {response} ~ x", "family": ""}
    assert forms.family_of(form, DATASET["columns"]) == family  # type: ignore[arg-type]
    assert forms.family_of(form | {"family": "poisson"}, DATASET["columns"]) == "poisson"  # type: ignore[arg-type]


@pytest.mark.parametrize("response", ["a | trials(n)", "surv(a, b)"])
def test_a_response_of_two_columns_leaves_its_family_to_the_api(response: str) -> None:
    columns = [{"name": name, "type": "number"} for name in ("a", "b", "n")]
    form = {"formula": f"{response} ~ x"}
    assert forms.family_of(form, columns) is None
    assert forms.family_of(form | {"family": "poisson"}, columns) == "poisson"


def test_a_form_becomes_a_job_and_a_job_a_form(registered: Any) -> None:
    form = {
        "formula": "y ~ a:b",
        "family": "negative_binomial",
        "epsilon": "2",
        "max_rows": "3",
        "delta": "",
        "priors": "a:b, -1, 0.5\n\nC(g)[x, y], 0, 2\n",
        "model.dispersion": "2",
        "model.weights": "w",
        "algorithm": "dp_hmc",
        "option.num_steps": "40",
        "option.mass": "1, 2",
        "option.start.share": "0.5",
        "option.num_leapfrog": "",
    }
    body = forms.job(form, DATASET, *registered)
    assert body == {
        "dataset": "d",
        "model": {
            "family": "negative_binomial",
            "formula": "y ~ a:b",
            "prior": {
                "a:b": {"kind": "normal", "loc": -1.0, "scale": 0.5},
                "C(g)[x, y]": {"kind": "normal", "loc": 0.0, "scale": 2.0},
            },
            "options": {"dispersion": 2.0},
            "weights": "w",
        },
        "privacy": {"epsilon": 2.0, "delta": 1e-7, "max_rows": 3},
        "sampler": {
            "algorithm": "dp_hmc", "num_steps": 40, "mass": [1.0, 2.0], "start": {"share": 0.5},
        },
    }  # fmt: skip
    again = forms.filled({"dataset": "d", "submitted": body})
    assert forms.job(again, DATASET, *registered) == body


def test_one_box_makes_of_epsilon_the_most_that_a_job_may_cost(registered: Any) -> None:
    form = {"formula": "y ~ x", "family": "", "epsilon": "4", "until": "reliable", "delta": ""}
    body = forms.job(form, DATASET, *registered)
    assert body["privacy"]["epsilon"] == {"up_to": 4.0, "until": "reliable"}
    again = forms.filled({"dataset": "d", "submitted": body | {"sampler": None}})
    assert (again["epsilon"], again["until"]) == ("4.0", "reliable")
    assert forms.filled({"dataset": "d", "submitted": body | plain()})["until"] == ""


def plain() -> dict[str, Any]:
    return {"sampler": None, "privacy": {"epsilon": 4.0, "delta": 1e-7}}


@pytest.mark.parametrize(
    ("wrong", "pointer", "message"),
    [
        ({"epsilon": "much"}, "/privacy/epsilon", "must be a number"),
        ({"priors": "income 0 1"}, "/model/prior", "name, mean, sd"),
        ({"priors": "a, b, 1"}, "/model/prior/a", "must be a number"),
        ({"priors": "a, 0, 1", "prior_scale": "1"}, "/model/prior", "not both"),
        ({"option.num_steps": "1.5"}, "/sampler/num_steps", "a whole number"),
        ({"option.proposal.scale": "x"}, "/sampler/proposal/scale", "a number"),
    ],
)
def test_what_is_not_read_is_told_with_its_field(
    registered: Any, wrong: dict[str, str], pointer: str, message: str
) -> None:
    form = {"formula": "y ~ a", "epsilon": "1", "algorithm": "dp_penalty"} | wrong
    with pytest.raises(NotReadError, match=message) as told:
        forms.job(form, DATASET, *registered)
    assert told.value.pointer == pointer


TASKS: list[dict[str, Any]] = [
    {
        "kind": "summaries",
        "statistics": [
            {"kind": "mean", "column": "age"},
            {"kind": "quantiles", "column": "age", "at": [0.05, 1 / 3]},
            {"kind": "counts", "columns": ["sex"]},
            {"kind": "counts", "columns": ["sex", "income, at all"]},
            {"kind": "counts", "columns": ["age", "sex"]},
            {"kind": "quantiles", "column": "age", "at": [0.5], "bins": 10},
            {"kind": "counts", "columns": ["age"], "bins": {"age": [30.0, 60.0]}},
        ],
    },
    {"kind": "synthetic"},
    {
        "kind": "synthetic",
        "columns": ["sex", "age", "income, at all"],
        "marginals": [["sex"], ["age", "income, at all"]],
        "bins": {"age": 5},
        "impossible": [{"sex": ["Male"], "income, at all": [">50K"]}],
        "tables": 3,
        "moves": 70,
    },
    {"kind": "statistic", "column": "age", "statistic": "absolute_power", "a": 1 / 3},
    {"kind": "statistic", "column": "age", "form": "sequential", "noise": "laplace"},
    {
        "kind": "two_stages",
        "column": "age",
        "statistic": "power",
        "noise": "gaussian",
        "first_rows": 50,
        "first_power": 0.5,
        "family": "normal_mean",
        "options": {"sd": 12.5},
        "thetas": [20.0, 40.25],
        "powers": [0.5, 1.0],
    },
]


@pytest.mark.parametrize("task", TASKS)
def test_a_task_becomes_a_form_that_asks_for_it_again(house: House, task: dict[str, Any]) -> None:
    columns = [*METADATA["columns"][:2], METADATA["columns"][2] | {"name": "income, at all"}]
    rows = CSV.replace(b"age,sex,income", b'age,sex,"income, at all"', 1)
    dataset = house.admin.upload(rows, METADATA | {"columns": columns}).json()["id"]
    analyst = house.user("analyst")
    body = {"dataset": dataset, "task": task, "privacy": {"epsilon": 0.123, "delta": 2.5e-7}}

    def asked(body: dict[str, Any]) -> dict[str, Any]:
        few = {"accept_low_quality": True}  # rows, for synthetic tables
        made = analyst.post("/v1/jobs", json=body | few)
        assert made.status_code == 202, made.text
        found: dict[str, Any] = analyst.get(f"/v1/jobs/{made.json()['id']}").json()
        return found

    first = asked(body)
    again = task_forms.body_of(task_forms.filled(first))
    again["task"].get("statistics", []).sort(key=str)
    first["submitted"]["task"].get("statistics", []).sort(key=str)
    second = asked(again)["submitted"]
    second["task"].get("statistics", []).sort(key=str)
    assert second == first["submitted"]


def test_further_fields_of_a_task_are_an_object() -> None:
    form = {"kind": "synthetic", "epsilon": "1", "delta": "1e-6"}
    for wrong in ("[1]", "{", '{"statistics": 1}'):
        with pytest.raises(NotReadError, match="must be a JSON object"):
            task_forms.body_of(form | {"more": wrong})
