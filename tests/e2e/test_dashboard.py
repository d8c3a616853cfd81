"""The dashboard in a real browser, against a real service."""

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, expect, sync_playwright

from app.client import Client
from app.client.local import Service

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    chromium = shutil.which("chromium")
    if not chromium:
        if os.environ.get("CI") == "true":
            pytest.fail("chromium is needed in CI and is not there", pytrace=False)
        pytest.skip("chromium is not there")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield started
        started.close()


@pytest.fixture
def page(browser: Browser, service: Service) -> Iterator[Page]:
    """A fresh tab that fails the test on a script error, a CSP violation or a foreign request."""
    tab = browser.new_page(viewport={"width": 1200, "height": 900})
    faults: list[str] = []
    tab.on("pageerror", lambda error: faults.append(str(error)))

    def said(message: ConsoleMessage) -> None:
        refused = re.search("status of 40[13]", message.text)
        if message.type == "error" and not refused:
            faults.append(message.text)

    def asked(request: Request) -> None:
        if not request.url.startswith((service.url, "data:")):
            faults.append(f"foreign request: {request.url}")

    tab.on("console", said)
    tab.on("request", asked)
    yield tab
    tab.close()
    assert not faults


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


def test_wrong_key_is_told_and_not_kept(page: Page, service: Service) -> None:
    sign_in(page, service.url, "dpm_wrong")
    expect(page.get_by_role("alert").first).to_contain_text("not known")
    expect(page.get_by_role("heading", name="Budgets")).to_be_hidden()
    assert page.evaluate("sessionStorage.length") == 0


def test_budget_of_a_dataset_is_shown_as_the_api_tells_it(
    page: Page, service: Service, analyst: str
) -> None:
    sign_in(page, service.url, analyst)
    card = page.locator("article.budget")
    expect(card.get_by_role("heading")).to_have_text("small <i>table</i>")
    expect(card.locator("[data-f=total]")).to_have_text("ε 6")
    expect(card.locator("[data-f=spent]")).to_have_text("4")
    expect(card.locator("[data-f=remaining]")).to_have_text("4.086")
    expect(card.locator("canvas")).to_be_visible()


def test_posterior_of_a_job_is_drawn(page: Page, service: Service, analyst: str) -> None:
    sign_in(page, service.url, analyst)
    expect(page.locator("#jobs .status")).to_have_text(["succeeded", "unreliable"])
    page.get_by_role("button", name="Posterior").click()
    expect(page.locator("#posterior tbody tr")).to_have_count(2)
    expect(page.locator("#posterior figure canvas")).to_have_count(4)
    expect(page.locator("#posterior figcaption .unreliable")).to_have_text(["unreliable"] * 4)
    expect(page.locator("#posterior .verdict .unreliable")).to_have_text("Unreliable")
    expect(page.locator("#posterior")).to_contain_text("Intercept")


def test_key_lives_in_the_tab_only_and_goes_with_sign_out(
    page: Page, service: Service, analyst: str
) -> None:
    sign_in(page, service.url, analyst)
    expect(page.get_by_role("heading", name="Budgets")).to_be_visible()
    page.reload()
    expect(page.get_by_role("heading", name="Budgets")).to_be_visible()
    assert page.evaluate("[localStorage.length, document.cookie]") == [0, ""]
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    assert page.evaluate("sessionStorage.length") == 0


def test_auditor_sees_budgets_and_no_posterior(page: Page, service: Service, analyst: str) -> None:
    with Client(service.url, service.admin_key) as admin:
        key = admin.create_user("auditor of the board", "auditor")["key"]
    sign_in(page, service.url, key)
    expect(page.locator("article.budget")).to_be_visible()
    expect(page.get_by_role("button", name="Posterior")).to_have_count(0)


def test_api_page_lists_the_operations_without_a_foreign_host(page: Page, service: Service) -> None:
    page.goto(f"{service.url}/docs")
    page.get_by_text("/v1/plans").first.click()
    expect(page.locator("details[open]")).to_contain_text("Body")
    assert (
        page.request.get(f"{service.url}/")
        .headers["content-security-policy"]
        .startswith("default-src 'self'")
    )


def test_what_the_planner_chose_is_shown_with_its_reasons(
    page: Page, service: Service, analyst: str
) -> None:
    with Client(service.url, service.admin_key) as admin:
        key = admin.create_user("chooser", "analyst")["key"]
    with Client(service.url, key) as client:
        job = client.submit(
            {
                "dataset": next(client.datasets())["id"],
                "model": {"family": "logistic", "formula": "y ~ x"},
                "privacy": {"epsilon": 0.1, "delta": 1e-6},
                "accept_low_quality": True,
            }
        )
        assert client.wait(job["id"], timeout=60)["reasons"] == job["reasons"] != []
    sign_in(page, service.url, key)
    page.get_by_text("chosen by the planner").click()
    expect(page.locator("#jobs details li")).to_have_text(job["reasons"])
    page.get_by_role("button", name="Posterior").click()
    expect(page.locator("#posterior .reasons li")).to_have_text(job["reasons"])
    expect(page.locator("#posterior")).to_contain_text(job["algorithm"])
