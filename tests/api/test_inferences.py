"""What follows from a released statistic: draws of a family's number, in two stages too. Free."""

import io
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from app.api.questions import InferenceOut
from app.storage.rows import JobRow
from app.storage.types import utc_now
from tests.api.support import Caller, House
from tests.api.test_tasks import METADATA, ROWS, asked, people, ran, result_of, spent, summaries

AGE = {"kind": "statistic", "column": "age"}
NORMAL = {
    "family": "normal_mean",
    "options": {"sd": 15.0},
    "prior": {"kind": "uniform", "lower": 0.0, "upper": 100.0},
}
SHARE = {"family": "bernoulli", "prior": {"kind": "beta", "a": 1.0, "b": 1.0}}
STAGES = {
    "kind": "two_stages",
    "column": "age",
    "first_rows": 400,
    "family": "normal_mean",
    "options": {"sd": 15.0},
    "thetas": [20.0, 30.0, 40.0, 50.0, 60.0, 70.0],
    "powers": [0.5, 1.0, 2.0],
}


@pytest.fixture
def dataset(house: House) -> str:
    data = people()
    lines = [",".join(data), *(",".join(map(str, row)) for row in zip(*data.values(), strict=True))]
    return str(house.admin.upload("\n".join(lines).encode(), METADATA).json()["id"])


def inferred(analyst: Caller, place: str, **question: Any) -> dict[str, Any]:
    answer = analyst.post(f"{place}/inferences", json=question)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    assert InferenceOut.model_validate(found).model_dump(mode="json") == found  # as documented
    return found


@pytest.mark.longer
@pytest.mark.parametrize("algorithm", ["mh", "pmmh", "correlated_pmmh", "mhaar", "mhaar_rb"])
def test_every_algorithm_reads_a_released_sum_and_nothing_is_charged(
    house: House, dataset: str, algorithm: str
) -> None:
    """The mean of 2000 ages of sd 15: the posterior's sd is that of rows and noise together."""
    analyst = house.user("analyst")
    place = ran(house, analyst, asked(dataset, 2.0, **AGE, noise="laplace"))
    before = spent(house, dataset)
    found = inferred(analyst, place, **NORMAL, algorithm=algorithm, draws=1000)
    assert (found["algorithm"], found["cost"]) == (algorithm, {"epsilon": 0.0})
    one = found["parameter"]
    scale = result_of(analyst, place)["noise"]["scale"]
    sd = np.hypot(15.0 / ROWS**0.5, 2**0.5 * scale / ROWS)
    assert one["name"] == "mean"
    assert one["sd"] == pytest.approx(sd, rel=0.25)
    assert abs(one["mean"] - people()["age"].mean()) < 5 * sd
    assert np.shape(found["draws"]) == (4, 1000)
    assert np.mean(found["draws"]) == pytest.approx(one["mean"])
    assert spent(house, dataset) == before


def test_another_prior_moves_the_posterior(house: House, dataset: str) -> None:
    analyst = house.user("analyst")
    place = ran(house, analyst, asked(dataset, 0.5, **AGE))
    narrow = NORMAL | {"prior": {"kind": "normal", "loc": 20.0, "scale": 0.2}}
    flat, pulled = inferred(analyst, place, **NORMAL), inferred(analyst, place, **narrow)
    assert pulled["parameter"]["mean"] < flat["parameter"]["mean"] - 10.0


def test_flipped_rows_tell_their_share(house: House, dataset: str) -> None:
    analyst = house.user("analyst")
    task = {"kind": "statistic", "column": "rich", "form": "sequential"}
    place = ran(house, analyst, asked(dataset, 2.0, **task, noise="randomised_response"))
    one = inferred(analyst, place, **SHARE)["parameter"]
    assert one["q05"] - 0.05 < np.mean(people()["rich"] == "yes") < one["q95"] + 0.05
    wrong = analyst.post(f"{place}/inferences", json=NORMAL)
    assert (wrong.status_code, wrong.json()["errors"][0]["pointer"]) == (422, "/released")


def test_rows_with_noise_of_their_own_are_simulated(house: House, dataset: str) -> None:
    analyst = house.user("analyst")
    place = ran(house, analyst, asked(dataset, 8.0, **AGE, form="sequential", noise="laplace"))
    quick = NORMAL | {"particles": 4, "draws": 200, "warmup": 50, "chains": 2}
    one = inferred(analyst, place, **quick, algorithm="mhaar")["parameter"]
    assert abs(one["mean"] - people()["age"].mean()) < 5.0
    long = analyst.post(f"{place}/inferences", json=NORMAL | {"draws": 20_000})
    assert long.status_code == 202
    assert long.json()["spec"]["sampler"]["algorithm"] == "mhaar"
    longest = NORMAL | {"draws": 50_000, "particles": 480}
    refused = analyst.post(f"{place}/inferences", json=longest)
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "/draws")


def test_a_median_needs_a_share_of_delta_for_its_failure(house: House) -> None:
    """Its posterior by simulated tables of 300 rows; the share is used up by two of them."""
    analyst, privacy = house.user("analyst"), METADATA["privacy"]
    share = privacy | {"branches": {"gdp": 0.5, "failure": 0.5}}
    lines = ["age,sex,rich", *(f"{40 + k % 21},Male,no" for k in range(300))]
    made = house.admin.upload("\n".join(lines).encode(), METADATA | {"privacy": share})
    dataset = str(made.json()["id"])
    assert made.json()["privacy"]["branches"] == {"gdp": 0.5, "rdp": [], "failure": 0.5}
    median = asked(dataset, 4.0, **AGE, form="median", noise="smooth_laplace")
    median["privacy"]["delta"] = 2.5e-7
    place = ran(house, analyst, median)
    assert spent(house, dataset) == pytest.approx(4.0)
    question = NORMAL | {"options": {"sd": 6.0}, "particles": 8, "draws": 400, "warmup": 100}
    one = inferred(analyst, place, **question, algorithm="mhaar")["parameter"]
    assert abs(one["mean"] - 50.0) < 5 * one["sd"] < 25.0
    ran(house, analyst, median)
    refused = analyst.post("/v1/jobs", json=median)
    assert refused.status_code == 409, refused.text
    assert refused.json()["code"] == "budget_exhausted"
    assert all(
        word in refused.json()["detail"] for word in ("failure share", "2.5e-07", "0 is left")
    )


def test_pure_epsilons_add_up(house: House, dataset: str) -> None:
    analyst = house.user("analyst")
    for _ in range(2):
        ran(house, analyst, asked(dataset, 1.5, **AGE, noise="laplace"))
    assert spent(house, dataset) == pytest.approx(3.0)
    ran(house, analyst, asked(dataset, 1.5, **AGE))
    assert spent(house, dataset) > 4.5  # mixed with Gaussian noise all are Gaussian


def test_a_plan_warns_where_nothing_is_left_for_gaussian_noise(house: House) -> None:
    lines = ["age,sex,rich", *["40,Male,no"] * ROWS]
    small = METADATA | {"privacy": METADATA["privacy"] | {"epsilon": 4.0}}
    dataset = str(house.admin.upload("\n".join(lines).encode(), small).json()["id"])
    analyst = house.user("analyst")
    for noise, epsilon, warned in (("laplace", 2.0, True), ("laplace", 0.3, False)):
        body = asked(dataset, epsilon, **AGE, noise=noise)
        plan = analyst.post("/v1/plans", json=body).json()
        assert plan["affordable"]
        assert (plan["remaining_after"]["epsilon"] == 0.0) == warned
        assert any("no job with Gaussian noise" in one for one in plan["warnings"]) == warned
    ran(house, analyst, asked(dataset, 2.0, **AGE, noise="laplace"))
    refused = analyst.post("/v1/jobs", json=asked(dataset, 0.5, **AGE))
    assert (refused.status_code, refused.json()["code"]) == (409, "budget_exhausted")
    ran(house, analyst, asked(dataset, 1.9, **AGE, noise="laplace"))
    assert spent(house, dataset) == pytest.approx(3.9)


def test_draws_come_as_files(house: House, dataset: str) -> None:
    import arviz

    analyst = house.user("analyst")
    place = ran(house, analyst, asked(dataset, 2.0, **AGE))
    headers = {"Accept": "application/x-netcdf"}
    answer = analyst.post(f"{place}/inferences", json=NORMAL, headers=headers)
    assert answer.status_code == 200, answer.text
    tree = arviz.from_netcdf(io.BytesIO(answer.content))
    assert tree.posterior["mean"].shape == (4, 2000)
    assert tree.attrs["verdict"] == answer.headers["dpmcmc-verdict"]
    refused = analyst.post(f"{place}/inferences", json=NORMAL, headers={"Accept": "image/png"})
    assert refused.status_code == 406


def test_two_stages_are_paid_once_and_choose_a_power(house: House, dataset: str) -> None:
    analyst = house.user("analyst")
    plan = analyst.post("/v1/plans", json=asked(dataset, 1.5, **STAGES)).json()
    assert (plan["algorithm"], plan["epsilon"]) == ("two_stages", 1.5)
    place = ran(house, analyst, asked(dataset, 1.5, **STAGES))
    assert spent(house, dataset) == pytest.approx(1.5)
    told = result_of(analyst, place)
    first, second = told["stages"]
    assert (first["rows"], second["rows"]) == (400, ROWS - 400)
    assert (first["statistic"]["a"], second["statistic"]["a"]) == (1.0, told["power"])
    scores = {one["power"]: one["mean_inverse_information"] for one in told["scores"]}
    assert told["power"] == min(scores, key=lambda a: scores[a])
    assert sum(one["weight"] for one in told["weights"]) == pytest.approx(1.0)
    again = result_of(analyst, place)
    assert again == told
    one = inferred(analyst, place, **NORMAL)["parameter"]
    assert abs(one["mean"] - people()["age"].mean()) < 5 * one["sd"] < 10.0


@pytest.mark.parametrize(
    ("question", "pointer"),
    [
        ({"family": "cauchy"}, "/family"),
        ({"options": {}}, "/options"),
        ({"options": {"sd": 0.0}}, "/options"),
        ({"options": {"sd": 1.0, "df": 2.0}}, "/options"),
        ({"prior": {"kind": "uniform", "lower": 1.0, "upper": 1.0}}, "/prior/upper"),
        ({"prior": {"kind": "gamma", "shape": -1.0, "scale": 1.0}}, "/prior/shape"),
        ({"prior": {"kind": "cauchy"}}, "/prior"),
        (
            {"family": "normal_variance", "options": {}, "prior": {"kind": "normal", "scale": 1.0}},
            "/prior",
        ),
        ({"algorithm": "nuts"}, "/algorithm"),
        (
            {"algorithm": "mhaar_rb", "normal_approximation": False, "draws": 9, "warmup": 0},
            "/algorithm",
        ),
        ({"particles": 1}, "/particles"),
        ({"particles": 10_000, "chains": 64, "normal_approximation": False}, "/particles"),
        ({"chains": 64, "draws": 100_000}, "/draws"),
        ({"seed": 1}, ""),
    ],
)
def test_a_wrong_question_is_told_where_it_is_wrong(
    house: House, dataset: str, question: dict[str, Any], pointer: str
) -> None:
    analyst = house.user("analyst")
    place = ran(house, analyst, asked(dataset, 1.0, **AGE))
    answer = analyst.post(f"{place}/inferences", json=NORMAL | question)
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"][0]["pointer"].startswith(pointer), answer.text


@pytest.mark.parametrize(
    ("stages", "pointer"),
    [
        ({"first_rows": 0}, "/task/first_rows"),
        ({"first_rows": ROWS}, "/task/first_rows"),
        ({"powers": []}, "/task/thetas"),
        ({"family": "uniform_width", "options": {}, "thetas": [-1.0]}, "/task/thetas"),
        ({"thetas": [1e301]}, "/task/thetas"),
        ({"powers": [1e9]}, "/task/statistic"),
        ({"family": "none"}, "/task/family"),
        ({"options": {}}, "/task/options"),
        ({"column": "sex"}, "/task/column"),
        ({"noise": "smooth_laplace"}, "/task"),
        ({"thetas": [1.0 + k for k in range(1001)], "powers": [1.0, 2.0]}, "/task/thetas"),
    ],
)
def test_wrong_stages_are_told_where_they_are_wrong(
    house: House, dataset: str, stages: dict[str, Any], pointer: str
) -> None:
    analyst = house.user("analyst")
    answer = analyst.post("/v1/plans", json=asked(dataset, 1.0, **STAGES | stages))
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"][0]["pointer"].startswith(pointer), answer.text


def test_what_released_no_statistic_has_no_inference(house: House, dataset: str) -> None:
    analyst, other = house.user("analyst"), house.user("analyst")
    place = ran(house, analyst, summaries(dataset, 1.0))
    answer = analyst.post(f"{place}/inferences", json=NORMAL)
    assert (answer.status_code, answer.json()["code"]) == (409, "job_without_result")
    assert other.post(f"{place}/inferences", json=NORMAL).status_code == 404


ASYNC = {"Prefer": "respond-async"}


def later(analyst: Caller, place: str, **more: str) -> str:
    question = NORMAL | {"draws": 400, "chains": 3}
    answer = analyst.post(f"{place}/inferences", json=question, headers=ASYNC | more)
    assert answer.status_code == 202, answer.text
    assert answer.headers["Location"] == f"/v1/jobs/{answer.json()['id']}"
    return str(answer.json()["id"])


def test_an_inference_may_be_a_job_that_costs_nothing(house: House, dataset: str) -> None:
    """Its rows may be gone by then: it reads what was released."""
    analyst = house.user("analyst")
    place = ran(house, analyst, asked(dataset, 2.0, **AGE))
    ledger = house.admin.get(f"/v1/datasets/{dataset}/ledger").json()
    job = later(analyst, place)
    queued = analyst.get(f"/v1/jobs/{job}").json()
    assert (queued["status"], queued["cost"]["epsilon"], queued["algorithm"]) == ("queued", 0, "mh")
    assert house.admin.get(f"/v1/datasets/{dataset}/ledger").json() == ledger
    assert house.admin.call("DELETE", f"/v1/datasets/{dataset}").status_code == 204
    assert analyst.get(f"/v1/jobs/{job}").json()["status"] == "cancelled"
    job = later(analyst, place)
    house.run(job)
    done = analyst.get(f"/v1/jobs/{job}").json()
    assert (done["status"], done["progress"]) == ("succeeded", {"step": 400, "of": 400})
    assert done["verdict"]["status"] in ("reliable", "unreliable")
    summary = analyst.get(f"/v1/jobs/{job}/summary").json()
    (one,) = summary["parameters"]
    assert (one["name"], summary["chains"], summary["draws"]) == ("mean", 3, 400)
    chain = analyst.get(f"/v1/jobs/{job}/chain").json()
    assert np.shape(chain["draws"]) == (3, 400, 1)
    assert np.mean(chain["draws"]) == pytest.approx(one["mean"])
    frame = analyst.get(f"/v1/jobs/{job}/chain", headers={"Accept": "text/csv"})
    assert frame.text.startswith("chain,draw,warmup,mean")
    for path in ("result", "posteriors", "inferences"):
        call = analyst.get if path == "result" else analyst.post
        body = {} if path == "result" else {"json": NORMAL if path == "inferences" else {}}
        assert call(f"/v1/jobs/{job}/{path}", **body).status_code == 409


def test_an_inference_that_waits_is_cancelled_and_a_key_makes_one(
    either_house: House,
) -> None:
    house = either_house
    analyst, other = house.user("analyst"), house.user("analyst")
    data = people()
    lines = [",".join(data), *(",".join(map(str, row)) for row in zip(*data.values(), strict=True))]
    dataset = str(house.admin.upload("\n".join(lines).encode(), METADATA).json()["id"])
    place = ran(house, analyst, asked(dataset, 2.0, **AGE))
    job = later(analyst, place, **{"Idempotency-Key": "once"})
    assert later(analyst, place, **{"Idempotency-Key": "once"}) == job
    headers = ASYNC | {"Idempotency-Key": "once"}
    again = analyst.post(f"{place}/inferences", json=NORMAL, headers=headers)
    assert (again.status_code, again.json()["code"]) == (422, "idempotency_key_reused")
    assert other.post(f"{place}/inferences", json=NORMAL, headers=ASYNC).status_code == 404
    assert other.get(f"/v1/jobs/{job}").status_code == 404
    assert analyst.post(f"/v1/jobs/{job}/cancel").json()["status"] == "cancelled"
    house.run(job)
    assert analyst.get(f"/v1/jobs/{job}").json()["status"] == "cancelled"
    assert house.admin.post(f"/v1/datasets/{dataset}/ledger/verify").json()["ok"]


def test_an_inference_on_what_is_gone_fails_and_says_so(house: House, dataset: str) -> None:
    analyst = house.user("analyst")
    place = ran(house, analyst, asked(dataset, 2.0, **AGE))
    job = later(analyst, place)
    with house.services.sessions.write() as session:
        of = UUID(place.rsplit("/", 1)[1])
        session.get_one(JobRow, of).expired_at = utc_now()
    house.run(job)
    found = analyst.get(f"/v1/jobs/{job}").json()
    assert (found["status"], found["error"]["code"]) == ("failed", "release_gone")


def test_a_prior_that_cannot_be_computed_with_fails_without_a_charge(
    house: House, dataset: str
) -> None:
    analyst = house.user("analyst")
    place = ran(house, analyst, asked(dataset, 2.0, **AGE))
    far = NORMAL | {"prior": {"kind": "normal", "loc": 0.0, "scale": 1e100}}
    answer = analyst.post(f"{place}/inferences", json=far, headers=ASYNC)
    if answer.status_code == 202:
        house.run(answer.json()["id"])
        found = analyst.get(f"/v1/jobs/{answer.json()['id']}").json()
        assert found["status"] in ("succeeded", "failed")
        if found["error"]:
            assert found["error"]["code"] == "inference_failed"
    assert spent(house, dataset) == pytest.approx(2.0)


@pytest.mark.parametrize("parts", [1, 3, 7, 10])
def test_equal_parts_of_pure_epsilon_spend_a_budget_in_full(
    house: House, dataset: str, parts: int
) -> None:
    analyst = house.user("analyst")
    whole = house.admin.get(f"/v1/datasets/{dataset}/budget").json()["epsilon"]
    for _ in range(parts):
        task = asked(dataset, whole / parts, **AGE, noise="laplace") | {"accept_low_quality": True}
        answer = analyst.post("/v1/jobs", json=task)
        assert answer.status_code == 202, answer.text
    more = asked(dataset, whole / 100, **AGE, noise="laplace") | {"accept_low_quality": True}
    refused = analyst.post("/v1/jobs", json=more)
    assert refused.status_code == 409
    assert refused.json()["code"] == "budget_exhausted"
