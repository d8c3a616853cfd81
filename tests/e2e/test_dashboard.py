"""The dashboard in a real browser, against a real service."""

import json
import re
from pathlib import Path
from typing import Any, Literal

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Locator, Page, Route, expect

from app.local_service import Service
from dpmcmc.client import Client

GRAVE = ("serious", "critical")
KINDS = ("summaries", "synthetic", "statistic", "two_stages")


@pytest.fixture(scope="module")
def analyst(service: Service, repository: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The key of an analyst whose job on a small dataset has succeeded."""
    rows = tmp_path_factory.mktemp("data") / "small.csv"
    rows.write_text(
        "y,x\n" + "".join(f"{'no' if i % 3 else 'yes'},{i % 10}\n" for i in range(2000))
    )
    metadata = {
        "name": "small <i>table</i>",
        "privacy": {"neighbouring": "replace_one", "epsilon": 6.0, "delta": 1e-6},
        "columns": [
            {"name": "y", "type": "binary", "categories": ["no", "yes"]},
            {"name": "x", "type": "number", "lower": 0, "upper": 9},
        ],
    }
    with Client(service.url, service.admin_key) as admin:
        dataset = admin.upload(rows, metadata)["id"]
        key: str = admin.create_user("reader", "analyst")["key"]
    job = json.loads((repository / "experiments/data/job.json").read_text())
    job |= {"dataset": dataset, "model": {**job["model"], "formula": "y ~ x"}}
    job["sampler"] = {"algorithm": "dp_penalty", "num_steps": 200, "num_chains": 2}
    job["accept_low_quality"] = True
    with Client(service.url, key) as client:
        assert client.wait(client.submit(job)["id"], timeout=60)["status"] == "succeeded"
    return key


def sign_in(page: Page, url: str, key: str) -> None:
    page.goto(url)
    page.get_by_label("API key").fill(key)
    page.get_by_role("button", name="Sign in").click()


def job_of(key: str, service: Service, **told: object) -> dict[str, Any]:
    """A finished job of an analyst on the small dataset."""
    with Client(service.url, key) as client:
        body = {
            "dataset": next(one["id"] for one in client.datasets() if "small" in one["name"]),
            "model": {"family": "logistic", "formula": "y ~ x"},
            "privacy": {"epsilon": 0.1, "delta": 1e-6},
            "accept_low_quality": True,
        }
        return client.wait(client.submit(body | told)["id"], timeout=60)


@pytest.mark.longer
def test_wrong_key_is_told_and_makes_no_session(page: Page, service: Service) -> None:
    sign_in(page, service.url, "dpm_wrong")
    expect(page.get_by_role("alert")).to_contain_text("not known")
    assert page.context.cookies() == []


def test_budget_of_a_dataset_is_shown_as_the_api_tells_it(
    page: Page, service: Service, analyst: str
) -> None:
    sign_in(page, service.url, analyst)
    card = page.locator("article.budget").filter(has_text="small")
    expect(card.get_by_role("heading")).to_have_text("small <i>table</i>")
    expect(card.locator("[data-f=total]")).to_have_text("ε 6")
    expect(card.locator("[data-f=spent]")).to_have_text("4")
    expect(card.locator("[data-f=remaining]")).to_have_text("4.086")
    card.get_by_role("link", name="small").click()
    expect(page.locator("figure canvas")).to_be_visible()
    expect(page.get_by_role("row", name="x number 0 to 9")).to_be_visible()
    expect(page.locator("main")).to_contain_text("or 13 jobs of ε 1")


def test_pages_of_somebody_to_whom_nothing_is_open_say_so(page: Page, service: Service) -> None:
    """Without an error of a script, which the page's fixture would tell."""
    with Client(service.url, service.admin_key) as admin:
        closed = [one["id"] for one in admin.datasets() if one["grants"] is None]
        for dataset in closed:
            admin.amend(dataset, {"grants": []})
        key = admin.create_user("nobody's analyst", "analyst")["key"]
        try:
            sign_in(page, service.url, key)
            for address in ("/jobs/new", "/tasks/new"):
                page.goto(service.url + address, wait_until="networkidle")
                expect(page.get_by_role("alert")).to_have_text("No dataset is open to you.")
        finally:
            for dataset in closed:
                admin.amend(dataset, {"grants": None})


def test_a_job_is_planned_submitted_and_read_in_the_browser(
    page: Page, service: Service, analyst: str
) -> None:
    sign_in(page, service.url, analyst)
    page.get_by_role("link", name="Jobs", exact=True).click()
    page.get_by_role("button", name="New job").click()
    page.get_by_label("Formula").fill("y ~ z")
    expect(page.locator("#plan").get_by_role("alert")).to_contain_text("/model/formula")
    page.get_by_label("Formula").fill("y ~ x")
    page.get_by_label("ε").fill("0.1")
    expect(page.locator("#plan")).to_contain_text("unusable")
    page.get_by_role("button", name="Submit job").click()
    expect(page.get_by_role("alert").first).to_contain_text("would do")
    page.get_by_label("Accept a plan of low quality").check()
    page.get_by_role("button", name="Submit job").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("y ~ x")
    expect(page.locator("#summary tbody tr")).to_have_count(2, timeout=30_000)
    expect(page.locator(".verdict .unreliable")).to_have_text("unreliable")


def test_back_from_a_job_its_form_is_filled_as_it_was_sent(
    page: Page, service: Service, analyst: str
) -> None:
    sign_in(page, service.url, analyst)
    page.goto(f"{service.url}/jobs/new")
    page.get_by_label("Formula").fill("y ~ x")
    page.get_by_label("ε", exact=True).fill("0.125")
    expect(page.locator("#plan")).to_contain_text("affordable")
    page.get_by_label("Accept a plan").check()
    page.get_by_role("button", name="Submit job").click()
    expect(page.get_by_role("heading", name="y ~ x")).to_be_visible()
    page.go_back()
    expect(page.get_by_label("Formula")).to_have_value("y ~ x")
    expect(page.get_by_label("ε", exact=True)).to_have_value("0.125")


def test_a_formula_is_chosen_by_click_and_epsilon_by_what_it_brings(
    page: Page, service: Service, analyst: str
) -> None:
    sign_in(page, service.url, analyst)
    page.goto(f"{service.url}/jobs/new")
    formula, epsilon = page.get_by_label("Formula"), page.get_by_label("ε", exact=True)
    submit = page.get_by_role("button", name="Submit job")
    page.get_by_role("button", name="y", exact=True).click()
    page.get_by_role("button", name="x", exact=True).click()
    expect(formula).to_have_value("y ~ x")
    formula.fill("")
    page.get_by_text("Choose columns instead").click()
    page.locator("[data-part=response]").select_option("y")
    page.get_by_label("x", exact=True).check()
    expect(formula).to_have_value("y ~ x")
    prices = page.locator("#prices")
    expect(prices.get_by_role("row", name="Width")).to_be_visible()
    widths = prices.get_by_role("row", name="Width").get_by_role("cell").all_inner_texts()
    assert [float(width) for width in widths] == sorted(map(float, widths), reverse=True)
    prices.get_by_role("slider").press("Home")
    cheapest = prices.get_by_role("button").first.inner_text()
    expect(epsilon).to_have_value(cheapest)
    expect(page.locator("#plan")).to_contain_text("affordable")
    expect(submit).to_be_enabled()
    epsilon.fill("50")
    expect(page.locator("#plan").get_by_role("alert")).to_contain_text("This job costs ε 50")
    expect(submit).to_be_disabled()
    page.get_by_role("button", name="Ask for").click()
    expect(page.locator("#plan")).to_contain_text("affordable")
    expect(submit).to_be_enabled()


@pytest.mark.longer
def test_a_task_beyond_the_budget_cannot_be_submitted(
    page: Page, service: Service, analyst: str
) -> None:
    sign_in(page, service.url, analyst)
    for width in (1200, 700, 360):
        page.set_viewport_size({"width": width, "height": 800})
        page.goto(f"{service.url}/tasks/new")
        page.get_by_label("Mean of x").check()
        page.get_by_label("ε").fill("50")
        button, plan = page.get_by_role("button", name="Submit job"), page.locator("#plan")
        expect(plan).to_contain_text("beyond the budget")
        expect(button).to_be_disabled()
        page.get_by_label("ε").fill("0.5")
        expect(plan).to_contain_text("affordable")
        expect(button).to_be_enabled()
        above, below = plan.bounding_box(), button.bounding_box()
        assert above
        assert below
        assert above["y"] + above["height"] <= below["y"]


@pytest.mark.parametrize("width", [360, 800, 1400])
def test_the_plan_stands_above_the_button(
    page: Page, service: Service, analyst: str, width: int
) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    sign_in(page, service.url, analyst)
    page.goto(f"{service.url}/jobs/new")
    page.get_by_label("Formula").fill("y ~ x")
    expect(page.locator("#plan")).to_contain_text("Costs")
    plan = page.locator("#plan").bounding_box()
    button = page.get_by_role("button", name="Submit job").bounding_box()
    assert plan
    assert button
    assert plan["y"] + plan["height"] <= button["y"]


def test_a_job_is_called_as_its_analyst_likes(page: Page, service: Service, analyst: str) -> None:
    job = job_of(analyst, service, name="First try", note="of <b>y</b>,\nin two lines")
    sign_in(page, service.url, analyst)
    page.goto(f"{service.url}/jobs/{job['id']}")
    expect(page.get_by_role("heading", level=1)).to_have_text("First try")
    expect(page.locator("p", has_text="of <b>y</b>,")).to_be_visible()
    page.get_by_text("Change the name or the note").click()
    page.get_by_label("Name").fill("Second try")
    page.get_by_label("Note").fill("")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Second try")
    expect(page.get_by_text("in two lines")).to_have_count(0)
    page.goto(f"{service.url}/jobs?text=second")
    expect(page.get_by_role("row", name="Second try")).to_have_count(1)


def test_predictions_ask_for_the_covariates_of_the_formula_alone(
    page: Page, service: Service, analyst: str
) -> None:
    job = job_of(analyst, service)
    sign_in(page, service.url, analyst)
    page.goto(f"{service.url}/jobs/{job['id']}")
    expect(page.locator("[name^='at.']")).to_have_count(1)
    expect(page.locator("[name='at.x']")).to_be_visible()


@pytest.mark.longer
def test_a_task_of_every_kind_is_planned_submitted_and_read_in_the_browser(
    page: Page, service: Service, analyst: str
) -> None:
    sign_in(page, service.url, analyst)
    page.get_by_role("link", name="Jobs").click()
    page.get_by_role("button", name="New task").click()
    kind = page.get_by_label("What is released")

    def submitted(epsilon: str) -> None:
        page.get_by_label("ε").fill(epsilon)
        expect(page.locator("#plan")).to_contain_text("affordable")
        page.get_by_role("button", name="Submit job").click()

    page.get_by_label("Mean of x").check()
    page.get_by_label("Quantiles of x").fill("0.5")
    page.get_by_label("Tables of several columns").fill("x, y")
    submitted("0.3")
    expect(page.locator("#summary")).to_contain_text("x, quantile 0.5", timeout=30_000)
    page.goto(f"{service.url}/tasks/new")
    kind.select_option("synthetic")
    page.get_by_label("Tables", exact=True).fill("2")
    submitted("0.31")
    expect(page.get_by_text("2 tables of 2,000 rows")).to_be_visible(timeout=60_000)
    page.goto(f"{service.url}/tasks/new")
    kind.select_option("two_stages")
    page.get_by_label("Known sd").fill("3")
    page.get_by_label("Rows of the first stage").fill("many")
    expect(page.locator("#plan")).to_contain_text("must be a number")
    page.get_by_label("Rows of the first stage").fill("500")
    page.get_by_label("Values of the unknown").fill("2, 4, 6")
    submitted("0.32")
    expect(page.get_by_text("Two released sums")).to_be_visible(timeout=30_000)
    page.goto(f"{service.url}/tasks/new")
    kind.select_option("statistic")
    page.locator("select[name=column]").select_option("x")
    submitted("0.33")
    expect(page.get_by_role("heading", name="Released statistic")).to_be_visible(timeout=30_000)


def test_a_pooled_dataset_shows_its_holders(page: Page, service: Service, tmp_path: Path) -> None:
    rows = tmp_path / "pooled.csv"
    rows.write_text("x,site\n" + "".join(f"{k % 7},{'ab'[k % 3 == 0]}\n" for k in range(900)))
    sign_in(page, service.url, service.admin_key)
    page.goto(f"{service.url}/datasets/new")
    page.get_by_label("File").set_input_files(rows)
    page.locator("[data-m=name]").fill("pooled")
    page.get_by_text("Rows of several holders").click()
    page.get_by_label("Data holders").fill("a\nb")
    page.get_by_label("Column that names them").fill("site")
    page.get_by_label("Epsilon").fill("2")
    page.locator("[data-c=name]").fill("x")
    page.get_by_label("Lower bound").fill("0")
    page.get_by_label("Upper bound").fill("6")
    page.get_by_role("button", name="Upload").click()
    expect(page.get_by_role("heading", name="Data holders")).to_be_visible()
    expect(page.get_by_role("row", name="a 600")).to_contain_text("ε 0")
    page.get_by_role("link", name="b", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("pooled/b")
    page.get_by_role("link", name="pooled dataset").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("pooled")
    with Client(service.url, service.admin_key) as admin:  # out of other tests' way
        for one in admin.datasets():
            if one["name"].startswith("pooled"):
                admin.amend(one["id"], {"archived": True})


def test_posterior_of_a_job_is_drawn(page: Page, service: Service, analyst: str) -> None:
    sign_in(page, service.url, analyst)
    page.goto(f"{service.url}/jobs?status=succeeded&text=Y+~")
    row = page.get_by_role("row").filter(has_text="dp_penalty")
    expect(row.locator(".status")).to_have_text(["succeeded", "unreliable"])
    row.get_by_role("link").click()
    expect(page.locator("#summary tbody tr")).to_have_count(2)
    expect(page.locator("figure.plot canvas")).to_have_count(7)
    expect(page.locator("figure.plot").last).to_contain_text("x against Intercept; correlation")
    for ticks, told in (
        ([0.25, 0.275, 0.3], ["0.250", "0.275", "0.300"]),
        ([0, 2.5e-5, 5e-5], ["0", "2.5e-5", "5.0e-5"]),
        ([-0.2, 0, 0.2], ["-0.2", "0.0", "0.2"]),
        ([0, 50000, 100000], ["0", "50,000", "100,000"]),
        ([2000000, 4000000], ["2e6", "4e6"]),
    ):
        assert page.evaluate("at => ticks(null, at)", ticks) == told
    drawn = page.get_by_role("img", name="Trace")
    expect(drawn.first).to_have_accessible_name("Intercept: Trace; shaded: warm-up")
    expect(page.locator("h3 .unreliable")).to_have_text(["unreliable"] * 3)
    with page.expect_download() as download:
        page.get_by_role("link", name="csv").click()
    assert download.value.path().read_text().startswith("chain,")


def test_a_smooth_is_drawn_and_any_number_on_demand(
    page: Page, service: Service, analyst: str
) -> None:
    smooth = {"family": "logistic", "formula": "y ~ s(x)"}
    job = job_of(analyst, service, model=smooth, privacy={"epsilon": 1.0, "delta": 1e-6})
    sign_in(page, service.url, analyst)
    page.goto(f"{service.url}/jobs/{job['id']}")
    curves = page.locator("section").filter(has=page.get_by_role("heading", name="Curves"))
    expect(curves.locator("canvas")).to_be_visible()
    expect(curves.locator("figcaption")).to_contain_text("Expected y along x")
    page.get_by_label("Draw the response along").select_option("x")
    page.get_by_role("button", name="Draw", exact=True).click()
    expect(page.locator("#curve canvas")).to_be_visible()


def test_a_release_is_asked_again_for_nothing(page: Page, service: Service, analyst: str) -> None:
    job = job_of(analyst, service)
    sign_in(page, service.url, analyst)
    page.goto(f"{service.url}/jobs/{job['id']}")
    page.get_by_label("Prior sd of x").fill("0.001")
    page.get_by_label("x", exact=True).fill("4")
    page.get_by_role("button", name="Ask the release").click()
    row = page.locator("#again").get_by_role("row").filter(has_text="x")
    expect(row).to_contain_text("normal 0 ± 0.001")
    expect(page.locator("#again")).to_contain_text("At x 4")
    page.get_by_label("x", exact=True).fill("four")
    page.get_by_role("button", name="Ask the release").click()
    expect(page.locator("#again").get_by_role("alert")).to_contain_text("/given/0/x")


def test_a_job_is_duplicated_as_it_was_asked_for(
    page: Page, service: Service, analyst: str
) -> None:
    told = {"model": {"family": "logistic", "formula": "y ~ x"}, "privacy": {"epsilon": 0.11}}
    told["privacy"]["delta"] = 1e-6
    told["model"]["prior"] = {"x": {"kind": "normal", "loc": 0.5, "scale": 0.25}}
    told["sampler"] = {"algorithm": "dp_penalty", "num_steps": 30, "proposal": {"scale": 0.5}}
    job = job_of(analyst, service, **told)
    sign_in(page, service.url, analyst)
    page.goto(f"{service.url}/jobs/{job['id']}")
    page.get_by_role("button", name="Duplicate").click()
    expect(page.get_by_label("Formula")).to_have_value("y ~ x")
    expect(page.get_by_label("Priors of single")).to_have_value("x, 0.5, 0.25")
    expect(page.get_by_label("num steps")).to_have_value("30")
    expect(page.get_by_label("num chains")).to_have_value("")
    expect(page.get_by_label("proposal: scale")).to_have_value("0.5")
    expect(page.locator("#plan")).to_contain_text("dp_penalty")
    page.get_by_label("Algorithm").select_option("dp_hmc")
    expect(page.get_by_label("num leapfrog")).to_be_visible()
    page.get_by_label("mass").fill("1, x")
    expect(page.locator("#plan")).to_contain_text("/sampler/mass must be numbers between commas")
    page.get_by_label("Model").select_option("negative_binomial")
    page.get_by_label("dispersion").fill("much")
    expect(page.locator("#plan")).to_contain_text("/model/dispersion must be a number")


@pytest.mark.parametrize(
    ("task", "filled"),
    [
        (
            {"kind": "summaries", "statistics": [
                {"kind": "quantiles", "column": "x", "at": [0.25, 0.75]},
                {"kind": "counts", "columns": ["x"], "bins": {"x": 3}},
            ]},
            {"Quantiles of x": "0.25, 0.75", "JSON": re.compile('"bins": {"x": 3}')},
        ),
        (
            {"kind": "synthetic", "columns": ["y", "x"], "tables": 2},
            {"Tables": "2", "Marginals": ""},
        ),
        (
            {"kind": "statistic", "column": "x", "statistic": "absolute_power", "a": 0.5},
            {"Of a number x": "absolute_power", "Power a": "0.5", "Column": "x"},
        ),
        (
            {"kind": "two_stages", "column": "x", "first_rows": 500, "family": "uniform_width",
             "thetas": [8, 9.5], "powers": [1, 2]},
            {"Values of the unknown": "8, 9.5", "Powers": "1, 2", "Family": "uniform_width"},
        ),
    ],
    ids=KINDS,
)  # fmt: skip
def test_a_task_is_duplicated_as_it_was_asked_for(
    page: Page, service: Service, analyst: str, task: dict[str, Any], filled: dict[str, Any]
) -> None:
    with Client(service.url, analyst) as client:
        dataset = next(one["id"] for one in client.datasets() if "small" in one["name"])
        privacy = {"epsilon": 0.012, "delta": 1e-7}
        body = {"dataset": dataset, "task": task, "privacy": privacy}
        job = client.submit(body | {"accept_low_quality": True})
        asked = client.job(job["id"])["submitted"]
    sign_in(page, service.url, analyst)
    page.goto(f"{service.url}/jobs/{job['id']}")
    page.get_by_role("button", name="Duplicate").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("New task")
    expect(page.get_by_label("What is released")).to_have_value(task["kind"])
    for label, value in (filled | {"ε": "0.012", "δ": "1e-07"}).items():
        expect(page.get_by_label(label, exact=label == "Tables")).to_have_value(value)
    expect(page.locator("#plan")).to_contain_text("affordable")  # without a further touch
    page.get_by_label("Accept a plan of low quality").check()
    page.get_by_role("button", name="Submit job").click()
    expect(page.get_by_role("button", name="Duplicate")).to_be_visible()
    with Client(service.url, analyst) as client:
        again = client.job(page.url.rsplit("/", 1)[1])
    assert again["id"] != job["id"]
    assert again["submitted"] == asked


def test_tasks_are_found_by_their_columns_and_kind(
    page: Page, service: Service, analyst: str
) -> None:
    with Client(service.url, analyst) as client:
        dataset = next(one["id"] for one in client.datasets() if "small" in one["name"])
        asked = {"dataset": dataset, "privacy": {"epsilon": 0.01, "delta": 1e-6}}
        ids = [
            client.submit(asked | {"task": {"kind": "statistic", "column": column}})["id"]
            for column in ("x", "y")
        ]
    sign_in(page, service.url, analyst)
    page.get_by_role("link", name="Jobs", exact=True).click()
    search, boxes = page.get_by_label("Search"), page.locator("#jobs input[type=checkbox]")
    search.fill("STATIS")
    for id in ids:
        expect(page.locator(f"#status-{id}")).to_be_visible()
    expect(page.locator("#jobs tbody tr").filter(has_not_text="statistic")).to_have_count(0)
    search.fill("y ~ x")
    expect(page.locator("#jobs tbody tr").filter(has_text="statistic")).to_have_count(0)
    expect(page).to_have_url(re.compile("text=y"))
    search.fill("no such thing")
    expect(page.locator("#jobs")).to_contain_text("No job matches")
    expect(boxes).to_have_count(0)


def test_jobs_stand_side_by_side(page: Page, service: Service, analyst: str) -> None:
    job_of(analyst, service)
    sign_in(page, service.url, analyst)
    page.get_by_role("link", name="Jobs", exact=True).click()
    boxes = page.locator("input[name=job]:enabled")  # tasks cannot be compared
    boxes.nth(0).check()
    boxes.nth(1).check()
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_role("row").filter(has_text="Intercept").locator("td")).to_have_count(2)
    expect(page.get_by_role("row").filter(has_text="Dataset")).to_contain_text("small <i>table</i>")


def test_intervals_of_jobs_stand_in_one_figure(
    page: Page, service: Service, analyst: str, tmp_path: Path
) -> None:
    rows, columns = tmp_path / "rows.csv", [{"name": "x", "type": "number", "lower": 0, "upper": 9}]
    rows.write_text("x,y\n" + "".join(f"{k % 10},{k % 7}\n" for k in range(5000)))
    columns.append({"name": "y", "type": "number", "lower": 0, "upper": 6})
    with Client(service.url, service.admin_key) as admin:
        given = {"name": "compared", "columns": columns, "privacy": {"epsilon": 9.0, "delta": 1e-6}}
        own = {"dataset": admin.upload(rows, given)["id"]}

    def linear(formula: str, epsilon: float) -> dict[str, Any]:
        model = {"family": "linear", "formula": formula}
        privacy = {"epsilon": epsilon, "delta": 1e-6}
        return job_of(analyst, service, model=model, privacy=privacy, **own)

    jobs = [linear("y ~ 1", 6.0), linear("y ~ x", 0.02)]
    doubt = [" doubtful" * (one["verdict"]["status"] == "unreliable") for one in jobs]
    assert doubt[1]
    with Client(service.url, analyst) as client:
        task = {"kind": "statistic", "column": "x"}
        asked = {"task": task, "privacy": {"epsilon": 0.01, "delta": 1e-6}}
        other = client.submit(asked | own)["id"]
        found = {one["name"]: one for one in client.summary(jobs[1]["id"])["parameters"]}
    sign_in(page, service.url, analyst)
    chosen = "&".join(f"job={id}" for id in (jobs[0]["id"], other, jobs[1]["id"]))
    page.goto(f"{service.url}/compare?{chosen}")
    expect(page.locator("main")).to_contain_text(f"Job {other[:8]} is a task")
    both = page.get_by_role("img", name="Intercept:")
    expect(both.locator("g")).to_have_class([f"job{k}{told}" for k, told in enumerate(doubt)])
    expect(both).to_have_accessible_name(re.compile("unreliable$"))
    alone = page.get_by_role("img", name="x:")
    expect(alone.locator("g")).to_have_class(["job1 doubtful"])  # the other has no such parameter
    words = f"x: job {jobs[1]['id'][:8]} {found['x']['mean']:.4g}, 90 %"
    expect(alone).to_have_accessible_name(re.compile(re.escape(words)))
    expect(page.locator(".legend .key")).to_have_count(2)
    expect(page.locator(".legend .key").nth(1)).to_contain_text("unreliable")
    line, marker = (alone.locator(f"g {one}").bounding_box() for one in ("line", "rect"))
    assert line
    assert marker
    share = (marker["x"] + marker["width"] / 2 - line["x"]) / line["width"]
    low, high = found["x"]["q05"], found["x"]["q95"]
    assert share == pytest.approx((found["x"]["mean"] - low) / (high - low), abs=0.02)
    with Client(service.url, service.admin_key) as admin:  # out of other tests' way
        admin.amend(own["dataset"], {"archived": True})


def test_one_job_or_none_is_no_comparison(page: Page, service: Service, analyst: str) -> None:
    job = job_of(analyst, service)
    sign_in(page, service.url, analyst)
    page.goto(f"{service.url}/compare?job={job['id']}")
    expect(page.locator("main")).to_contain_text("This is one job: choose at least two")
    expect(page.get_by_role("img", name="Intercept:")).to_be_visible()
    page.goto(f"{service.url}/compare")
    expect(page.locator("main")).to_contain_text("There is nothing to compare")
    expect(page.locator("figure")).to_have_count(0)


def held_back(page: Page, address: str) -> Route:
    """Open a page whose script does not come yet. Returns what waits."""
    held: list[Route] = []
    page.route("**/htmx.min.js", lambda route: held.append(route))
    page.goto(address, wait_until="commit")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    (script,) = held
    return script


def test_what_is_chosen_before_the_scripts_run_is_not_forgotten(
    page: Page, service: Service, analyst: str
) -> None:
    sign_in(page, service.url, analyst)
    expect(page.get_by_role("heading", name="Datasets")).to_be_visible()
    script = held_back(page, f"{service.url}/jobs")
    page.get_by_label("Status").select_option("failed")
    script.continue_()
    expect(page).to_have_url(re.compile("status=failed"))


def test_what_is_sent_before_the_scripts_run_is_answered(page: Page, service: Service) -> None:
    sign_in(page, service.url, service.admin_key)
    expect(page.get_by_role("heading", name="Datasets")).to_be_visible()
    script = held_back(page, f"{service.url}/audit")
    page.get_by_role("button", name="Verify").click()
    script.continue_()
    expect(page.locator("#verified")).to_contain_text("It is whole")


def test_columns_that_are_pressed_before_the_scripts_run_are_inserted(
    page: Page, service: Service, analyst: str
) -> None:
    sign_in(page, service.url, analyst)
    expect(page.get_by_role("heading", name="Datasets")).to_be_visible()
    script = held_back(page, f"{service.url}/jobs/new")
    chips = page.locator("#columns button")
    names = chips.all_inner_texts()[:2]
    for at in range(2):
        chips.nth(at).click()
    script.continue_()
    expect(page.get_by_label("Formula")).to_have_value(re.compile(" ~ ".join(names)))


def test_drawings_move_nothing(page: Page, service: Service, analyst: str) -> None:
    """Figures are drawn after the page is shown: what stands below them stays where it is."""
    job = job_of(analyst, service)
    sign_in(page, service.url, analyst)
    expect(page.get_by_role("heading", name="Datasets")).to_be_visible()
    for address in (f"/jobs/{job['id']}", f"/datasets/{job['dataset']}"):
        page.goto(service.url + address)
        drawn = page.locator("figure.plot")
        expect(drawn.locator("canvas").first).to_be_visible()
        heights = "all => all.map(one => one.getBoundingClientRect().height)"
        after = drawn.evaluate_all(heights)
        page.evaluate(
            "document.querySelectorAll('figure.plot .uplot').forEach(one => one.remove())"
        )
        assert drawn.evaluate_all(heights) == after


def test_the_session_is_a_key_that_ends_with_signing_out(
    page: Page, service: Service, analyst: str
) -> None:
    sign_in(page, service.url, analyst)
    expect(page.get_by_role("heading", name="Datasets")).to_be_visible()
    (cookie,) = page.context.cookies()
    assert cookie["httpOnly"]
    assert cookie["sameSite"] == "Strict"
    assert analyst not in cookie["value"]
    assert page.evaluate("document.cookie") == ""
    page.get_by_role("link", name="Jobs", exact=True).click()
    page.get_by_label("Status").select_option("failed")
    expect(page).to_have_url(re.compile("status=failed"))
    kept = page.evaluate("JSON.stringify([localStorage, sessionStorage])")
    assert "dpm_" not in kept
    assert "<" not in kept  # no page stays behind either
    _, _, key = cookie["value"].partition(".")
    asked = {"headers": {"Authorization": f"Bearer {key}"}}
    assert httpx.get(f"{service.url}/v1/users/me", **asked).status_code == 200
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    assert httpx.get(f"{service.url}/v1/users/me", **asked).status_code == 401
    assert page.context.cookies() == []


def test_a_form_from_elsewhere_changes_nothing(page: Page, service: Service, analyst: str) -> None:
    sign_in(page, service.url, analyst)
    expect(page.get_by_role("heading", name="Datasets")).to_be_visible()
    (cookie,) = page.context.cookies()
    jar = {"dpmcmc_session": cookie["value"]}
    for address in ("/logout", "/jobs", "/jobs/plan"):
        for form in ({}, {"csrf": "0" * 64}):
            answer = httpx.post(service.url + address, cookies=jar, data=form)
            assert answer.status_code == 403, address
    other = httpx.post(
        f"{service.url}/login", data={"key": analyst}, headers={"Origin": "http://evil.example"}
    )
    assert other.status_code == 403
    assert "set-cookie" not in other.headers


@pytest.mark.parametrize("then", ["//evil.example", "https://evil.example", "/\\evil.example"])
def test_signing_in_leads_nowhere_else(service: Service, analyst: str, then: str) -> None:
    answer = httpx.post(f"{service.url}/login", data={"key": analyst, "then": then})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")


def test_auditor_sees_budgets_and_verifies_the_ledger(
    page: Page, service: Service, analyst: str
) -> None:
    with Client(service.url, service.admin_key) as admin:
        key = admin.create_user("auditor of the board", "auditor")["key"]
    sign_in(page, service.url, key)
    expect(page.get_by_role("link", name="Jobs", exact=True)).to_have_count(0)
    page.get_by_role("link", name="small").click()
    page.get_by_role("button", name="Verify").click()
    expect(page.locator("#verified")).to_contain_text("It is whole")
    assert page.goto(f"{service.url}/jobs").status == 403


def test_an_admin_makes_and_disables_a_user(page: Page, service: Service) -> None:
    sign_in(page, service.url, service.admin_key)
    page.get_by_role("link", name="Users").click()
    page.get_by_label("Name").fill("Grace")
    page.get_by_role("button", name="Make a user").click()
    key = page.locator("code.key").text_content() or ""
    asked = {"headers": {"Authorization": f"Bearer {key}"}}
    assert httpx.get(f"{service.url}/v1/users/me", **asked).json()["name"] == "Grace"
    row = page.get_by_role("row").filter(has_text="Grace")
    row.get_by_role("link", name="Disable").click()
    page.get_by_label("Reason").fill("left the team")
    page.get_by_role("button", name="Disable").click()
    expect(row).to_contain_text("disabled")
    assert httpx.get(f"{service.url}/v1/users/me", **asked).status_code == 401
    row.get_by_role("button", name="Enable").click()
    page.get_by_role("link", name="Grace").click()
    page.get_by_label("Label").fill("laptop")
    page.get_by_label("Ends on").fill("2031-05-01")
    page.get_by_role("button", name="Make a key").click()
    further = page.locator("code.key").text_content() or ""
    asked = {"headers": {"Authorization": f"Bearer {further}"}}
    assert httpx.get(f"{service.url}/v1/users/me", **asked).status_code == 200
    row = page.get_by_role("row").filter(has_text="laptop")
    expect(row).to_contain_text("2031-05-01 23:59")
    row.get_by_role("button", name="Revoke").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Grace")
    expect(page.get_by_role("row").filter(has_text="laptop")).to_have_count(0)
    assert httpx.get(f"{service.url}/v1/users/me", **asked).status_code == 401
    page.get_by_role("link", name="Audit", exact=True).click()
    page.get_by_label("Act").select_option("user.disable")  # others may fill the first page
    expect(page.get_by_role("row").filter(has_text="key.")).to_have_count(0)
    disabled = page.get_by_role("row").filter(has_text="user.disable").filter(has_text="Grace")
    expect(disabled).to_have_count(1)
    page.get_by_role("button", name="Verify").click()
    expect(page.locator("#verified")).to_contain_text("It is whole")


def test_an_admin_raises_a_budget_and_lowers_none(
    page: Page, service: Service, analyst: str
) -> None:
    sign_in(page, service.url, service.admin_key)
    page.get_by_role("link", name="small").click()
    for wrong in ("5", "many"):
        page.get_by_label("Raise the budget").fill(wrong)
        with page.expect_navigation():  # the alert of the first is still there when the second goes
            page.get_by_role("button", name="See what follows").click()
        expect(page.get_by_role("alert")).to_contain_text("/privacy/epsilon")
    asked = page.get_by_role("alertdialog")
    page.get_by_label("Raise the budget").fill("30")
    page.get_by_role("button", name="See what follows").click()
    expect(asked).to_contain_text("from epsilon 6 to 30")
    expect(asked).to_contain_text("Values up to 10 are usual")
    asked.get_by_role("button", name="Leave it as it is").click()
    expect(page.locator("[data-f=total]")).to_have_text("ε 6")
    page.get_by_label("Raise the budget").fill("7.0")
    page.get_by_role("button", name="See what follows").click()
    expect(asked).to_contain_text("never be lowered")
    asked.get_by_label("Reason").fill("a second study")
    asked.get_by_role("button", name="Yes, do it").click()
    expect(page.locator("[data-f=total]")).to_have_text("ε 7")
    with Client(service.url, service.admin_key) as admin:
        (written,) = [
            act for act in admin.audit() if act["details"].get("reason") == "a second study"
        ]
    assert written["details"]["before"] == {"privacy": {"epsilon": 6.0}}


def test_an_admin_uploads_a_dataset_whose_columns_are_typed(
    page: Page, service: Service, tmp_path: Path
) -> None:
    rows = tmp_path / "ward.csv"
    lines = [f"P{k};{k % 90};{'yes' if k % 3 else 'no'};{'abc'[k % 3]}" for k in range(500)]
    rows.write_text('id;age;"ill, at all";ward\n' + "\n".join(lines) + "\n")
    sign_in(page, service.url, service.admin_key)
    page.goto(f"{service.url}/datasets/new")
    page.get_by_label("File").set_input_files(rows)
    page.get_by_label("Name", exact=True).first.fill("ward rounds")
    page.get_by_label("Epsilon").fill("much")
    page.get_by_role("button", name="Look at the file").click()
    columns = page.locator(".column")
    expect(columns).to_have_count(3)
    assert columns.locator("[data-c=name]").evaluate_all("all => all.map(one => one.value)") == [
        "age", "ill, at all", "ward",
    ]  # fmt: skip
    expect(page.locator("#looked")).to_contain_text("P4")
    assert page.get_by_label("Separator").input_value() == ";"
    assert page.get_by_label("Columns to leave out").input_value() == "id"
    typed = columns.locator("[data-c=lower], [data-c=upper], [data-c=categories]")
    assert typed.evaluate_all("all => all.every(one => one.value === '')")
    columns.nth(0).get_by_label("Lower").fill("0")
    columns.nth(0).get_by_label("Upper").fill("100")
    for at, kind, words in ((1, "binary", "no\nyes"), (2, "category", "a\nb\nc")):
        columns.nth(at).get_by_label("Type").select_option(kind)
        columns.nth(at).get_by_label("Categories").fill(words)
    page.get_by_role("button", name="Upload").click()
    expect(page.get_by_role("alert")).to_contain_text("/metadata/privacy/epsilon")
    page.get_by_label("Epsilon").fill("3")
    page.get_by_text("Algorithms with subsampling").click()
    page.get_by_label("Share for subsampling").fill("0.3")
    page.get_by_label("Share for medians").fill("0.1")
    page.get_by_role("button", name="Upload").click()
    expect(page.get_by_role("heading", name="ward rounds")).to_be_visible()
    expect(page.locator("article.budget")).to_contain_text("60 % the Gaussian filter, 30 % a Rényi")
    expect(page.get_by_role("row", name="age number 0 to 100")).to_be_visible()
    expect(page.get_by_role("row", name="ill, at all binary no, yes")).to_be_visible()
    page.goto(f"{service.url}/datasets/new")
    again = page.get_by_label("Name", exact=True).first
    for name, wrong in (("ward rounds", True), ("ward rounds 2", False)):
        again.fill(name)
        assert bool(again.evaluate("one => one.validationMessage")) == wrong
    with Client(service.url, service.admin_key) as admin:
        made = next(one for one in admin.datasets() if one["name"] == "ward rounds")
        assert (made["rows"], made["privacy"]["epsilon"]) == (500, 3.0)
        assert made["privacy"]["branches"] == {"gdp": 0.6, "rdp": [[16, 0.3]], "failure": 0.1}
        admin.destroy(made["id"])


def test_an_admin_says_who_may_use_a_dataset_and_ends_it(
    page: Page, service: Service, tmp_path: Path
) -> None:
    rows, columns = tmp_path / "rows.csv", [{"name": "x", "type": "number", "lower": 0, "upper": 9}]
    rows.write_text("x\n" + "5\n" * 2000)
    with Client(service.url, service.admin_key) as admin:
        given = {"name": "shared", "columns": columns, "privacy": {"epsilon": 4.0, "delta": 1e-6}}
        dataset = admin.upload(rows, given)["id"]
        ida, otto = (admin.create_user(name, "analyst") for name in ("Ida", "Otto"))
        sign_in(page, service.url, service.admin_key)
        page.goto(f"{service.url}/datasets/{dataset}")
        page.get_by_label("every analyst").uncheck()
        for box in page.get_by_role("checkbox", name="may use it").all():
            box.uncheck()
        page.get_by_label("Ida may use it").check()
        page.get_by_label("Cap of Ida").fill("much")
        write = page.get_by_role("button", name="Change who")
        write.click()
        expect(page.get_by_role("alert")).to_contain_text(f"/allotments/{ida['id']}")
        page.get_by_label("every analyst").uncheck()
        for box in page.get_by_role("checkbox", name="may use it").all():
            box.uncheck()
        page.get_by_label("Ida may use it").check()
        page.get_by_label("Cap of Ida").fill("1.5")
        with page.expect_response(lambda answer: answer.request.method == "POST"):
            write.click()
        expect(page.get_by_label("Cap of Ida")).to_have_value("1.5")
        expect(page.get_by_label("Otto may use it")).not_to_be_checked()
        with Client(service.url, otto["key"]) as other:
            assert "shared" not in [one["name"] for one in other.datasets()]
        with Client(service.url, ida["key"]) as own:
            assert own.budget(dataset)["allotments"][ida["id"]]["epsilon"] == 1.5
        written = list(admin.ledger(dataset))
        write.click()  # nothing was changed
        expect(page.get_by_label("Cap of Ida")).to_have_value("1.5")
        assert list(admin.ledger(dataset)) == written
        page.get_by_text("Destroy its rows", exact=True).click()
        name = page.get_by_label("Type its name")
        for typed, told in (("other", "type the dataset's name"), ("shared", "destroyed")):
            name.fill(typed)
            page.get_by_label("Reason").fill("consent was withdrawn")
            page.get_by_role("button", name="Destroy the rows").click()
            expect(page.locator("main")).to_contain_text(told)
            if typed == "other":
                page.get_by_text("Destroy its rows", exact=True).click()


def test_only_admins_upload_and_only_from_the_page(service: Service, analyst: str) -> None:
    """A token in the form is not looked for: the whole file would have to be read for it."""
    with httpx.Client(base_url=service.url, follow_redirects=True, timeout=60) as reader:
        reader.post("/login", data={"key": analyst, "then": "/"})
        assert reader.get("/datasets/new").status_code == 403
    with httpx.Client(base_url=service.url, follow_redirects=True, timeout=60) as admin:
        admin.post("/login", data={"key": service.admin_key, "then": "/"})
        csrf = re.search(r'"X-CSRF": "([^"]+)"', admin.get("/datasets/new").text)
        assert csrf
        files = {"metadata": (None, "{}"), "file": ("rows.csv", b"x\n1\n")}
        forged = admin.post("/datasets/new", files=files, data={"csrf": csrf.group(1)})
        assert forged.status_code == 403
        told = admin.post("/datasets/new", files=files, headers={"X-CSRF": csrf.group(1)})
        assert "/metadata/name" in told.text


def test_somebody_elses_job_is_not_found(page: Page, service: Service, analyst: str) -> None:
    job = job_of(analyst, service)
    with Client(service.url, service.admin_key) as admin:
        key = admin.create_user("stranger", "analyst")["key"]
    sign_in(page, service.url, key)
    expect(page.get_by_role("heading", name="Datasets")).to_be_visible()
    for address in (f"/jobs/{job['id']}", f"/jobs/{job['id']}/chain.csv", "/jobs/nothing"):
        assert page.request.get(service.url + address).status == 404


def test_api_page_lists_the_operations_without_a_foreign_host(
    page: Page, service: Service, analyst: str
) -> None:
    page.goto(f"{service.url}/docs")
    page.get_by_text("/v1/plans").first.click()
    plan = page.locator("#post-v1-plans")
    expect(plan).to_contain_text("Body")
    expect(plan.locator("pre")).to_have_count(4)  # two more bodies, curl with the first, the answer
    plan.get_by_role("link", name="PlanOut").click()
    expect(page.locator("#PlanOut")).to_contain_text("expected_ess")
    send = plan.get_by_role("button", name="Send POST")
    send.click()
    expect(plan.locator(".answer")).to_contain_text("401")
    page.get_by_label("API key").fill(analyst)
    with Client(service.url, analyst) as client:
        dataset = next(one["id"] for one in client.datasets() if "small" in one["name"])
    model = {"family": "logistic", "formula": "y ~ x"}
    body = {"dataset": dataset, "model": model, "privacy": {"epsilon": 1, "delta": 1e-6}}
    plan.locator("[data-body]").fill(json.dumps(body))
    send.click()
    expect(plan.locator(".answer")).to_contain_text('"affordable": true')
    job = job_of(analyst, service)["id"]
    chain = page.locator("#get-v1-jobs-id-chain")
    chain.locator("summary").click()
    chain.get_by_label("id", exact=True).fill(job)
    chain.get_by_label("Answer as").select_option("text/csv")
    chain.get_by_role("button", name="Send GET").click()
    expect(chain.locator(".answer pre")).to_contain_text("chain,draw,warmup,Intercept,x")
    chain.get_by_label("Answer as").select_option("application/x-netcdf")
    chain.get_by_role("button", name="Send GET").click()
    with page.expect_download() as saved:
        chain.get_by_role("link", name="Save").click()
    assert saved.value.path().read_bytes()[:4] == b"\x89HDF"
    assert (
        page.request.get(f"{service.url}/login")
        .headers["content-security-policy"]
        .startswith("default-src 'self'")
    )


def test_a_model_is_checked_against_the_rows(page: Page, service: Service, analyst: str) -> None:
    job = job_of(analyst, service, privacy={"epsilon": 1.0, "delta": 1e-6})
    sign_in(page, service.url, analyst)
    page.goto(f"{service.url}/jobs/{job['id']}")
    page.get_by_text("Check the model against the rows").click()
    asked = page.get_by_label("Epsilon of the check")
    expect(asked).to_have_value("0.1")
    asked.fill("much")
    page.get_by_role("button", name="What would it show?").click()
    expect(page.locator("#check")).to_contain_text("/privacy/epsilon must be a number")
    asked.fill("0.3")
    page.get_by_role("button", name="What would it show?").click()
    expect(page.locator("#check")).to_contain_text("affordable")
    expect(page.locator("#check")).to_contain_text("of all rows in one bin would show")
    page.get_by_role("button", name="Pay and check").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("check of y ~ x")
    expect(page.locator("#summary tbody tr")).to_have_count(10, timeout=30_000)
    expect(page.get_by_role("heading", name=re.compile("No misfit|differ"))).to_be_visible()
    expect(page.locator("figure.plot canvas")).to_be_visible()
    results = Axe().run(page)
    assert [v["id"] for v in results.response["violations"] if v["impact"] in GRAVE] == []
    expect(page.get_by_role("button", name="Duplicate")).to_have_count(0)
    page.get_by_role("link", name=f"job {job['id'][:8]}").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("y ~ x")
    page.goto(f"{service.url}/jobs")
    expect(page.locator("#jobs")).to_contain_text("check of y ~ x")


def test_what_the_planner_chose_is_shown_with_its_reasons(
    page: Page, service: Service, analyst: str
) -> None:
    job = job_of(analyst, service)
    assert job["reasons"]
    sign_in(page, service.url, analyst)
    page.goto(f"{service.url}/jobs/{job['id']}")
    page.get_by_text(f"Why {job['algorithm']}").click()
    expect(page.locator("ul.reasons li")).to_have_text(job["reasons"])


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 360)])
def test_pages_are_accessible(
    browser: Browser, service: Service, analyst: str, scheme: Literal["light", "dark"], width: int
) -> None:
    """No fault of axe's that counts as serious or critical."""
    job = job_of(analyst, service)
    mine = ["/datasets", "/jobs", "/jobs/new", f"/jobs/{job['id']}", f"/compare?job={job['id']}"]
    mine += [f"/datasets/{job['dataset']}", "/me", "/docs", "/problems"]
    mine += [f"/tasks/new?kind={kind}" for kind in KINDS]
    with Client(service.url, service.admin_key) as admin:
        user = next(one["id"] for one in admin.users() if one["name"] == "reader")
    overseen = [
        "/users",
        f"/users/{user}",
        "/me",
        "/audit",
        "/datasets/new",
        f"/datasets/{job['dataset']}",
    ]
    for key, addresses in ((analyst, mine), (service.admin_key, overseen)):
        context = browser.new_context(
            bypass_csp=True,  # axe is put in
            color_scheme=scheme,
            viewport={"width": width, "height": 800},
        )
        tab = context.new_page()
        sign_in(tab, service.url, key)
        expect(tab.get_by_role("heading", name="Datasets")).to_be_visible()
        for address in addresses:
            tab.goto(service.url + address, wait_until="networkidle")
            found = Axe().run(tab).response["violations"]
            told = [(one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in GRAVE]
            assert not told, address
        context.close()


def test_a_page_at_rest_asks_for_nothing(page: Page, service: Service, analyst: str) -> None:
    sign_in(page, service.url, analyst)
    page.goto(f"{service.url}/jobs", wait_until="networkidle")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.wait_for_timeout(3000)
    # a busy browser may fetch the site's icon as late as this, once
    assert [address for address in asked if not address.endswith("/static/icon.svg")] == []


DECLARED = "name\ttype\tlower\tupper\tcategories\tmissing\tdescription\n"


def uploading(page: Page, service: Service, rows: Path, name: str) -> Locator:
    """The upload page, with all but its columns, which are returned."""
    sign_in(page, service.url, service.admin_key)
    page.goto(f"{service.url}/datasets/new")
    page.get_by_label("File").set_input_files(rows)
    page.get_by_label("Name", exact=True).first.fill(name)
    page.get_by_label("Epsilon").fill("3")
    page.get_by_text("From a table, a spreadsheet").click()
    return page.locator(".column")


def test_a_name_in_use_is_refused_by_the_page_and_by_the_service(
    page: Page, service: Service, tmp_path: Path
) -> None:
    """Of a dataset that was there when the page came, and of one that came afterwards."""
    rows = tmp_path / "rows.csv"
    rows.write_text("a\n" + "".join(f"{k % 7}\n" for k in range(300)))
    column = {"name": "a", "type": "number", "lower": 0, "upper": 9}
    told = {"name": "named twice", "columns": [column], "privacy": {"epsilon": 3.0, "delta": 1e-6}}
    uploading(page, service, rows, "named twice")
    page.get_by_role("button", name="Look at the file").click()
    expect(page.locator(".column [data-c=name]")).to_have_value("a")
    page.locator(".column").get_by_label("Lower").fill("0")
    page.locator(".column").get_by_label("Upper").fill("9")
    with Client(service.url, service.admin_key) as admin:
        other = admin.upload(rows, told)["id"]
    page.get_by_role("button", name="Upload").click()
    expect(page.get_by_role("alert")).to_contain_text("A dataset in use has this name")
    page.reload()
    name = page.locator("[data-m=name]")
    name.fill("named twice")
    assert "dataset of this name" in name.evaluate("one => one.validationMessage")
    with Client(service.url, service.admin_key) as admin:
        admin.amend(other, {"archived": True})
    page.reload()
    name.fill("named twice")
    assert name.evaluate("one => one.validationMessage") == ""


@pytest.mark.longer
def test_the_page_asks_what_may_be_misread_and_takes_the_answers(
    page: Page, service: Service, tmp_path: Path
) -> None:
    """Names of rows without quotes, and a last line of totals."""
    rows = tmp_path / "rows.csv"
    lines = [f"{k + 1},{k % 7}" for k in range(300)]
    rows.write_text("dose\n" + "\n".join([*lines, "Total,897"]) + "\n")
    uploading(page, service, rows, "doses")
    page.get_by_role("button", name="Look at the file").click()
    expect(page.locator("#looked")).to_contain_text("row_names")
    page.get_by_label("Names of rows").select_option("there are some")
    page.get_by_role("button", name="Look at the file").click()
    expect(page.locator("[data-c=name]")).to_have_value("dose")
    page.locator(".column").get_by_label("Lower").fill("0")
    page.locator(".column").get_by_label("Upper").fill("9")
    page.get_by_role("button", name="Upload").click()
    expect(page.get_by_role("alert")).to_contain_text("begins with a word such as Total")
    page.get_by_label("Lines of notes below the rows").fill("1")
    page.get_by_role("button", name="Upload").click()
    # alone it leads to its page; beside rows of another test that are the same it is told of them
    expect(page.get_by_role("heading", name="doses")).to_be_visible()
    with Client(service.url, service.admin_key) as admin:
        assert [one["rows"] for one in admin.datasets() if one["name"] == "doses"] == [300]


def test_an_admin_declares_columns_by_a_table_and_a_dataset(
    page: Page, service: Service, tmp_path: Path
) -> None:
    rows = tmp_path / "visits.csv"
    lines = [f"{k % 12 + 1}/{k % 7 + 1}/2020,{'yes' if k % 3 else ''},{k % 50}" for k in range(400)]
    rows.write_text("seen,ill,dose\n" + "\n".join(lines) + "\n\nSource: an office\n")
    columns = uploading(page, service, rows, "visits by table")
    page.get_by_role("button", name="Look at the file").click()
    expect(columns).to_have_count(3)
    expect(page.locator("#looked")).to_contain_text("dates such as 01/02/2020")
    page.get_by_label("Dates such as 01/02/2020").select_option("month first")
    page.get_by_label("Lines of notes below the rows").fill("1")
    assert columns.nth(0).get_by_label("Type").input_value() == "date"
    pasted = page.get_by_label("Pasted from a spreadsheet")
    pasted.fill(DECLARED + "seen\tdate\t2020-01-01\tsoon\t\t\tfirst visit\n")
    pasted.blur()
    expect(page.locator("#schema")).to_contain_text("Line 2, upper: is no date")
    pasted.fill(
        DECLARED
        + "seen\tdate\t2020-01-01\t31.12.2020\t\t\tfirst visit\nill\tbinary\t\t\tno|yes\ttrue\t\n"
    )
    pasted.blur()
    expect(page.locator("#schema")).to_contain_text("2 columns of the table taken")
    expect(columns.nth(0).get_by_label("Upper")).to_have_value("2020-12-31")
    expect(columns).to_have_count(3)
    schema = tmp_path / "schema.csv"
    schema.write_text("name,lower,upper,missing,description\ndose,0,50,-9|99,in mg\n")
    page.get_by_label("Schema").set_input_files(schema)
    dose = columns.nth(2)
    expect(dose.get_by_label("Upper")).to_have_value("50")
    expect(dose.get_by_label("Codes")).to_have_value("-9, 99")
    dose.get_by_label("Values may be missing").check()
    assert "not both" in dose.get_by_label("Codes").evaluate("one => one.validationMessage")
    page.get_by_role("button", name="Upload").click()
    expect(page.get_by_role("heading", name="visits by table")).to_have_count(0)
    dose.get_by_label("Codes").fill("")
    dose.get_by_label("Codes").blur()
    page.get_by_role("button", name="Upload").click()
    expect(page.get_by_role("heading", name="visits by table")).to_be_visible()
    expect(page.get_by_role("row", name="seen date 2020-01-01 to 2020-12-31")).to_contain_text(
        "first visit"
    )
    expect(page.get_by_role("row", name="ill binary no, yes; missing: empty")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("link", name="As a schema file").click()
    told = json.loads(Path(download.value.path()).read_text())["columns"][2]
    assert told == {
        "name": "dose", "type": "number", "lower": 0.0, "upper": 50.0, "integer": True,
        "missing": True, "description": "in mg",
    }  # fmt: skip
    page.goto(f"{service.url}/datasets/new")
    page.get_by_text("From a table, a spreadsheet").click()
    page.get_by_label("Columns of a dataset").select_option("visits by table")
    expect(columns).to_have_count(3)
    expect(columns.nth(0).get_by_label("Lower")).to_have_value("2020-01-01")
    page.get_by_role("button", name="Add a column").click()
    columns.nth(3).get_by_label("Name").fill("other")
    columns.nth(3).get_by_role("button", name="Same as above").click()
    expect(columns.nth(3).get_by_label("Upper")).to_have_value("50")
    expect(columns.nth(3).get_by_label("Name")).to_have_value("other")
    with Client(service.url, service.admin_key) as admin:
        made = next(one for one in admin.datasets() if one["name"] == "visits by table")
        assert made["columns"][1] == {
            "name": "ill", "type": "binary", "categories": ["no", "yes"], "missing": True,
        }  # fmt: skip
        admin.destroy(made["id"])


@pytest.mark.longer
def test_a_thousand_columns_are_declared_by_a_table(
    page: Page, service: Service, tmp_path: Path
) -> None:
    names, rows = [f"x{k}" for k in range(1000)], tmp_path / "wide.csv"
    rows.write_text(
        "\n".join([",".join(names), *(",".join(["5"] * 1000) for _ in range(50))]) + "\n"
    )
    schema = tmp_path / "schema.csv"
    schema.write_text("name,lower,upper\n" + "".join(f"{name},0,9\n" for name in names))
    columns = uploading(page, service, rows, "wide")
    page.get_by_label("Schema").set_input_files(schema)
    expect(columns).to_have_count(1000, timeout=30_000)
    expect(columns.nth(999).locator("[data-c=upper]")).to_have_value("9", timeout=30_000)
    # by CSS: roles of so many fields take Chromium a minute
    page.locator("button.submit").click()
    page.wait_for_url("**/datasets/*-*", timeout=60_000)
    expect(page.locator("h1")).to_have_text("wide")
    with Client(service.url, service.admin_key) as admin:
        made = next(one for one in admin.datasets() if one["name"] == "wide")
        assert len(made["columns"]) == 1000
        admin.destroy(made["id"])
