"""A whole service, API and worker, as `./dev serve` starts it."""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, expect, sync_playwright

from app.local_service import Service, local_service

expect.set_options(timeout=20_000)  # machines that run the tests are busy


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """The embedded default on a free port, one for each test module."""
    folder: Path = tmp_path_factory.mktemp("service")
    with local_service(folder) as running:
        yield running


# without windows it takes half the time of a core that the whole browser takes
PROGRAMS = ("chromium-headless-shell", "chromium")
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
    chromium = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if chromium is None:
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
        refused = re.search("status of 4(01|03|22)", message.text)
        # a page that is left, or asks anew, ends its own requests; one that fails is a sendError
        ended = message.text.startswith(("htmx:sendAbort", "htmx:afterRequest"))
        if message.type == "error" and not refused and not ended:
            faults.append(message.text)

    def asked(request: Request) -> None:
        if not request.url.startswith((service.url, "data:")):
            faults.append(f"foreign request: {request.url}")

    tab.on("console", said)
    tab.on("request", asked)
    yield tab
    tab.close()
    assert not faults
