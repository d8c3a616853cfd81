"""Signing in at an identity provider, in a real browser: provider and service are two sites."""

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, Request, expect

from app import local_service
from app.local_service import Service
from dpmcmc.client import Client
from tests.api.support import METADATA, as_csv, csv_rows
from tests.provider import Provider, provider

WIDTHS = (360, 1400)


@pytest.fixture(scope="module")
def outside() -> Iterator[Provider]:
    with provider("localhost", asks=True) as made:
        yield made


@pytest.fixture(scope="module")
def entered(outside: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service whose provider that is."""
    port = local_service.free_port()
    given = outside.settings(f"http://127.0.0.1:{port}")
    given["oidc_roles"] = '{"stats": "analyst"}'
    extra = {f"DPMCMC_{name.upper()}": str(value) for name, value in given.items()}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(local_service, "free_port", lambda: port)
        folder: Path = tmp_path_factory.mktemp("entered")
        with local_service.local_service(folder, extra) as running:
            yield running


@pytest.fixture
def tab(browser: Browser, entered: Service, outside: Provider) -> Iterator[Page]:
    """A fresh tab that fails the test on a script error, or a request to a third party."""
    made = browser.new_page(viewport={"width": 1200, "height": 900})
    faults: list[str] = []
    made.on("pageerror", lambda error: faults.append(str(error)))

    def asked(request: Request) -> None:
        if not request.url.startswith((entered.url, outside.url, "data:")):
            faults.append(f"foreign request: {request.url}")

    made.on("request", asked)
    made.on("console", lambda m: faults.append(m.text) if "Content Security" in m.text else None)
    yield made
    made.close()
    assert not faults


@pytest.mark.longer
def test_somebody_signs_in_at_the_provider_submits_a_job_and_signs_out(
    tab: Page, entered: Service, outside: Provider, tmp_path: Path
) -> None:
    outside.lasts = 5
    tab.goto(f"{entered.url}/jobs")
    tab.get_by_role("button", name="Sign in with Example ID").click()
    tab.get_by_role("link", name="I am ada").click()
    expect(tab.get_by_role("heading", name="Jobs")).to_be_visible()
    assert tab.url == f"{entered.url}/jobs"
    (cookie,) = tab.context.cookies()
    assert (cookie["name"], cookie["sameSite"]) == ("dpmcmc_session", "Strict")
    assert cookie["httpOnly"]

    with Client(entered.url, entered.admin_key) as admin:
        (ada,) = [user for user in admin.users() if user["name"] == "ada"]
        (tmp_path / "rows.csv").write_bytes(as_csv(csv_rows(4000)))
        admin.upload(tmp_path / "rows.csv", METADATA | {"grants": [ada["id"]]})
    tab.get_by_role("link", name="Datasets").click()
    tab.get_by_role("link", name="people").first.click()
    tab.get_by_role("button", name="New job").click()
    tab.get_by_label("Formula").fill("income ~ age + sex")
    tab.get_by_label("ε").fill("1")
    expect(tab.locator("#plan")).to_contain_text("affordable")

    time.sleep(outside.lasts + 0.2)  # the form outlives the token
    tab.get_by_role("button", name="Submit job").click()
    expect(tab.get_by_role("heading", level=1)).to_have_text("income ~ age + sex")
    expect(tab.locator("#summary tbody tr")).to_have_count(3, timeout=60_000)

    tab.get_by_role("button", name="Sign out").click()
    expect(tab.get_by_role("button", name="Sign in with Example ID")).to_be_visible()
    assert tab.url == f"{entered.url}/login"
    assert any(path == "/logout" for path, _ in outside.asked)
    assert tab.context.cookies() == []
    tab.goto(f"{entered.url}/jobs")
    expect(tab.get_by_role("button", name="Sign in with Example ID")).to_be_visible()
    with Client(entered.url, entered.admin_key) as admin:
        (ada,) = [user for user in admin.users() if user["name"] == "ada"]
        of_session = cookie["value"].partition(".")[0]
        assert [k["revoked_at"] is None for k in ada["keys"] if k["id"] == of_session] in (
            [False],
            [],
        )


@pytest.mark.longer
def test_a_session_goes_on_in_the_browser_until_the_providers_ends(
    tab: Page, entered: Service, outside: Provider
) -> None:
    outside.lasts = 2
    tab.goto(f"{entered.url}/datasets")
    tab.get_by_role("button", name="Sign in with Example ID").click()
    tab.get_by_role("link", name="I am ada").click()
    expect(tab.get_by_role("heading", name="Datasets")).to_be_visible()
    for _ in range(2):
        time.sleep(2.2)
        tab.reload()
        expect(tab.get_by_role("heading", name="Datasets")).to_be_visible()
    outside.end_session()
    time.sleep(2.2)
    tab.reload()
    expect(tab.get_by_role("button", name="Sign in with Example ID")).to_be_visible()


def test_the_page_of_signing_in_is_for_all_screens_and_readers(tab: Page, entered: Service) -> None:
    address = f"{entered.url}/signin/oidc/callback?error=access_denied&error_description=evil"
    for name, url in (("login", f"{entered.url}/login"), ("refused", address)):
        for width in WIDTHS:
            tab.set_viewport_size({"width": width, "height": 800})
            tab.goto(url)
            wide = tab.evaluate("document.documentElement.scrollWidth")
            assert wide <= width
            grave = [
                v["id"]
                for v in Axe().run(tab).response["violations"]
                if v["impact"] in ("serious", "critical")
            ]
            assert not grave
            if folder := os.environ.get("PICTURES"):
                tab.screenshot(path=Path(folder) / f"{name}-{width}.png")
    expect(tab.get_by_role("alert").filter(has_text=re.compile("was not begun"))).to_be_visible()
    assert "evil" not in tab.content()
