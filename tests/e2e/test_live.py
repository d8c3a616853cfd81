"""Pages that follow jobs by their events: what changed is redrawn, and nothing else."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, Request, expect

from app.local_service import Service
from dpmcmc.client import Client
from tests.e2e.test_dashboard import sign_in

LONG = {"algorithm": "dp_penalty", "num_steps": 1_000_000, "num_chains": 2}
SHORT = LONG | {"num_steps": 50}


@pytest.fixture(scope="module")
def key(service: Service, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Of an analyst with a dataset."""
    rows = tmp_path_factory.mktemp("data") / "rows.csv"
    rows.write_text("y,x\n" + "".join(f"{i % 5},{i % 7}\n" for i in range(3000)))
    columns = [{"name": n, "type": "number", "lower": 0, "upper": 6} for n in "yx"]
    told = {"name": "rows", "privacy": {"epsilon": 9.0, "delta": 1e-6}, "columns": columns}
    with Client(service.url, service.admin_key) as admin:
        admin.upload(rows, told)
        made: str = admin.create_user("reader", "analyst")["key"]
        return made


@pytest.fixture
def analyst(service: Service, key: str) -> Iterator[Client]:
    with Client(service.url, key) as client:
        yield client


def submitted(client: Client, sampler: dict[str, object], epsilon: float) -> str:
    (dataset,) = client.datasets()
    job: str = client.submit(
        {
            "dataset": dataset["id"],
            "model": {"family": "linear", "formula": "y ~ x"},
            "sampler": sampler,
            "privacy": {"epsilon": epsilon, "delta": 1e-6},
            "accept_low_quality": True,
        }
    )["id"]
    return job


def opened(page: Page, service: Service, key: str, address: str) -> list[str]:
    """Open a page, and return the addresses that it asks for from then on."""
    sign_in(page, service.url, key)
    expect(page.get_by_role("heading", name="Datasets")).to_be_visible()
    page.goto(service.url + address, wait_until="load")
    asked: list[str] = []

    def note(request: Request) -> None:
        if "/static/" not in request.url:
            asked.append(request.url.removeprefix(service.url))

    page.on("request", note)
    return asked


@pytest.mark.slow
def test_the_page_of_a_job_follows_it_and_keeps_what_the_reader_does(
    page: Page, service: Service, key: str, analyst: Client
) -> None:
    job = submitted(analyst, LONG, 0.5)
    asked = opened(page, service, key, f"/jobs/{job}")
    bar = page.locator("#state progress")
    page.get_by_role("button", name="Cancel").focus()
    expect(bar).not_to_have_js_property("value", 0)
    expect(page.locator("#paid")).to_contain_text("gives nothing back")
    expect(page.get_by_role("button", name="Cancel")).to_be_focused()
    before = bar.evaluate("bar => bar.value")
    expect(bar).not_to_have_js_property("value", before)
    assert [one for one in asked if not one.endswith(("/state", "/events"))] == []
    assert len(asked) <= 2  # the bar moves without a request
    page.evaluate("window.same = true")
    analyst.cancel(job)
    expect(page.locator("#status")).to_contain_text("what it cost stays paid")
    expect(page.get_by_role("button", name="Cancel")).to_have_count(0)
    assert page.evaluate("window.same")  # it was not loaded again
    expect(page.locator("main")).to_be_focused()


@pytest.mark.longer
def test_what_a_job_released_appears_when_it_has_ended(
    page: Page, service: Service, key: str, analyst: Client
) -> None:
    first = submitted(analyst, LONG, 0.45)
    job = submitted(analyst, SHORT, 0.5)  # waits for the worker
    opened(page, service, key, f"/jobs/{job}")
    expect(page.locator("#status")).to_contain_text("queued")
    page.evaluate("window.same = true")
    analyst.cancel(first)
    expect(page.locator("#summary tbody tr")).to_have_count(3, timeout=60_000)
    expect(page.locator("figure.plot canvas").first).to_be_visible()
    assert page.evaluate("window.same")


def test_a_list_redraws_the_status_of_a_job_and_keeps_ticks_and_focus(
    page: Page, service: Service, key: str, analyst: Client
) -> None:
    done = submitted(analyst, SHORT, 0.2)
    analyst.wait(done, timeout=60)
    job = submitted(analyst, LONG, 0.4)
    asked = opened(page, service, key, "/jobs")
    cell = page.locator(f"#status-{job}")
    box = page.get_by_label(f"Compare job {done[:8]}")
    box.check()
    expect(cell).to_contain_text("running")
    analyst.cancel(job)
    expect(cell).to_contain_text("cancelled")
    expect(box).to_be_checked()
    expect(box).to_be_focused()
    assert {one for one in asked if "/events" not in one} == {f"/jobs/{job}/cell"}
    page.wait_for_timeout(1500)
    asked.clear()
    page.wait_for_timeout(1500)
    assert asked == []  # nothing is left to follow


def test_a_page_that_nobody_sees_follows_nothing(
    page: Page, service: Service, key: str, analyst: Client
) -> None:
    job = submitted(analyst, LONG, 0.3)
    opened(page, service, key, f"/jobs/{job}")
    bar = page.locator("#state progress")
    expect(bar).not_to_have_js_property("value", 0)
    show = """hidden => {
        Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
    }"""
    page.evaluate(show, True)
    before = bar.evaluate("bar => bar.value")
    analyst.cancel(job)
    analyst.wait(job, timeout=60)
    page.wait_for_timeout(500)
    assert bar.evaluate("bar => bar.value") == before
    page.evaluate(show, False)
    expect(page.locator("#status")).to_contain_text("cancelled")


@pytest.mark.longer
def test_an_ended_session_and_a_lost_service_are_told(
    browser: Browser, service: Service, key: str, analyst: Client
) -> None:
    job = submitted(analyst, LONG, 0.35)
    page = browser.new_page()
    opened(page, service, key, f"/jobs/{job}")
    (cookie,) = page.context.cookies()
    analyst.revoke(cookie["value"].partition(".")[0])
    expect(page.locator("#notice")).to_contain_text("session has ended")
    page.context.clear_cookies()
    opened(page, service, key, "/jobs/new")
    page.route("**/jobs/plan", lambda route: route.abort())
    page.get_by_label("Formula").fill("y ~ x")
    expect(page.locator("#notice")).to_contain_text("does not answer")
    page.unroute("**/jobs/plan")
    page.get_by_label("Model").select_option("linear")
    expect(page.locator("#plan")).to_contain_text("affordable")
    expect(page.locator("#notice")).to_be_hidden()
    analyst.cancel(job)
    page.close()


def test_what_was_typed_outlives_the_session(
    browser: Browser, service: Service, key: str, analyst: Client
) -> None:
    context = browser.new_context()
    page = context.new_page()
    opened(page, service, key, "/jobs/new")
    page.get_by_label("Formula").fill("y ~ x")
    page.get_by_label("ε", exact=True).fill("0.21")
    page.get_by_text("Name and note").click()
    page.get_by_label("Name", exact=True).fill("kept")
    expect(page.locator("#plan")).to_contain_text("affordable")
    (cookie,) = context.cookies()
    analyst.revoke(cookie["value"].partition(".")[0])
    page.get_by_role("button", name="Submit job").click()
    expect(page.locator("#notice")).to_contain_text("session has ended")
    page.get_by_label("ε", exact=True).fill("0.22")  # asks for a plan
    expect(page.locator("#notice")).to_contain_text("session has ended")
    other = context.new_page()
    sign_in(other, service.url, service.admin_key)
    expect(other.get_by_role("heading", name="Datasets")).to_be_visible()
    page.get_by_label("ε", exact=True).fill("0.23")  # a plan with the form's old token
    expect(page.locator("#notice")).to_contain_text("Somebody else is signed in")
    page.get_by_label("ε", exact=True).fill("0.22")
    page.get_by_role("button", name="Submit job").click()
    expect(page.locator("#notice")).to_contain_text("Somebody else is signed in")
    context.clear_cookies()
    sign_in(other, service.url, key)
    expect(other.get_by_role("heading", name="Datasets")).to_be_visible()
    page.get_by_label("Accept a plan of low quality").check()
    before = len(list(analyst.jobs()))
    page.get_by_role("button", name="Submit job").dblclick()
    expect(page.get_by_role("heading", level=1)).to_have_text("kept")
    made = list(analyst.jobs())
    assert len(made) == before + 1
    assert made[0]["reserved"]["epsilon"] == pytest.approx(0.22)
    context.close()
