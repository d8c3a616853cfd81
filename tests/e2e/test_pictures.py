"""Every page in both themes and at three widths: nothing is wider than the window.

A page is loaded in one window, whose width then changes: in the light theme the widest comes first,
in the dark one the narrowest. `./dev pictures` runs this file, loads each page at each width and
keeps what it sees in docs/guides/pictures.
"""

import base64
import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, Page, expect
from playwright.sync_api import TimeoutError as PlaywrightTimeoutError

from app.local_service import Service
from dpmcmc.client import Client
from tests.conftest import ROOT
from tests.e2e.test_dashboard import KINDS, sign_in

WIDTHS = (1400, 800, 360)
REDRAW_SECONDS = 5.0  # figures are drawn anew a moment after the window changed
LOAD_SECONDS = 90.0  # of a page whose curves are worked out on a busy machine
KEPT = [(width, scheme) for width in WIDTHS for scheme in ("light", "dark")]  # in docs
TALLEST = {360: 1500, 800: 1600, 1400: 1500}  # pixels of a page that a picture shows
HALVED = {360: 0.8, 800: 0.7, 1400: 0.6}  # how large a pixel of a page is in the picture
QUALITY = 55


def plain(page: Page) -> None:
    """The page as it opens."""


def planned(page: Page) -> None:
    """A job's form that was filled in."""
    page.get_by_label("ε", exact=True).fill("2")
    page.get_by_label("Formula").fill("any_visit ~ s(age) + chronic + sex")
    expect(page.locator("#plan")).to_contain_text("affordable")
    expect(page.locator("#prices")).to_contain_text("Width")


def drawn(page: Page) -> None:
    """A result with its curve."""
    expect(page.locator(".chosen canvas").first).to_be_visible()


def barred(page: Page) -> None:
    """A check with its bars."""
    expect(page.locator(".plot canvas").first).to_be_visible()


def costed(page: Page) -> None:
    """A task's form that was filled in."""
    page.get_by_label("Mean of age").check()
    expect(page.locator("#plan")).to_contain_text("affordable")


def looked(page: Page) -> None:
    """The form of an upload whose file was looked at."""
    rows = b"age,sex,ill\n" + b"".join(
        b"%d,%s,%s\n" % (k % 90, (b"f", b"m")[k % 2], (b"no", b"yes")[k % 3 == 0])
        for k in range(300)
    )
    page.get_by_label("File").set_input_files(
        {"name": "visits.csv", "mimeType": "text/csv", "buffer": rows}
    )
    page.get_by_role("button", name="Look at the file").click()
    expect(page.locator(".column")).to_have_count(3)


@dataclass(frozen=True)
class Shown:
    """A page. template: what it is made from; address: with names of the scene in braces."""

    template: str
    role: Literal["nobody", "analyst", "admin", "auditor"]
    address: str
    prepare: Callable[[Page], None] = plain


PAGES = {
    "login": Shown("login", "nobody", "/login"),
    "datasets": Shown("datasets", "analyst", "/datasets"),
    "dataset": Shown("dataset", "analyst", "/datasets/{dataset}"),
    "dataset_of_admin": Shown("dataset", "admin", "/datasets/{dataset}"),
    "job_form": Shown("job_form", "analyst", "/jobs/new?dataset={dataset}", planned),
    "job": Shown("job", "analyst", "/jobs/{smooth}", drawn),
    "job_of_chains": Shown("job", "analyst", "/jobs/{chain}"),
    "job_of_task": Shown("job", "analyst", "/jobs/{task}"),
    "job_of_check": Shown("job", "analyst", "/jobs/{check}", barred),
    "jobs": Shown("jobs", "analyst", "/jobs"),
    "compare": Shown("compare", "analyst", "/compare?job={first}&job={second}"),
    "task_form": Shown("task_form", "analyst", "/tasks/new?dataset={dataset}", costed),
    "requests": Shown("requests", "admin", "/requests"),
    "requests_of_analyst": Shown("requests", "analyst", "/requests"),
    "upload": Shown("upload", "admin", "/datasets/new", looked),
    "users": Shown("users", "admin", "/users"),
    "user": Shown("user", "admin", "/users/{user}"),
    "me": Shown("me", "analyst", "/me"),
    "audit": Shown("audit", "auditor", "/audit"),
    "help": Shown("help", "nobody", "/help"),
    "docs": Shown("docs", "nobody", "/docs"),
    "docs_operation": Shown("docs_operation", "nobody", "/docs/post-v1-plans"),
    "problems": Shown("problems", "nobody", "/problems"),
    "refused": Shown("refused", "analyst", "/users"),
}


# looked at, and not pictured: forms of every kind, and pages that another role has as well
BESIDE = {
    "analyst": [f"/tasks/new?kind={kind}" for kind in KINDS] + ["/compare?job={first}"],
    "admin": ["/me", "/audit"],
}


def file_of(name: str, width: int, scheme: str) -> str:
    """What a picture is called."""
    return f"{name}-{width}-{scheme}.webp"


@pytest.fixture(scope="module")
def scene(service: Service, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A service in use."""
    return in_use(service, tmp_path_factory.mktemp("rows") / "visits.csv")


def in_use(service: Service, rows: Path) -> dict[str, str]:
    """Make a dataset with jobs, people and requests. Returns keys by role, and ids by name."""
    rows.write_bytes(gzip.decompress((ROOT / "experiments/data/randhie.csv.gz").read_bytes()))
    told = json.loads((ROOT / "experiments/data/randhie.json").read_text()) | {"name": "visits"}
    with Client(service.url, service.admin_key) as admin:
        dataset = admin.upload(rows, told)["id"]
        ada, otto = admin.create_user("Ada Lang", "analyst"), admin.create_user("Otto", "auditor")
        admin.amend(dataset, {"privacy": {"epsilon": 8.0}, "reason": "a second study of visits"})
    named = {"dataset": dataset, "user": ada["id"], "analyst": ada["key"], "auditor": otto["key"]}
    named["admin"] = service.admin_key

    def submitted(client: Client, epsilon: float, **told: Any) -> str:
        body = {"dataset": dataset, "privacy": {"epsilon": epsilon, "delta": 1e-6}} | told
        return str(client.submit(body | {"accept_low_quality": True})["id"])

    def model(formula: str) -> dict[str, str]:
        return {"family": "logistic", "formula": formula}

    chains = {"algorithm": "dp_penalty", "num_steps": 300, "num_chains": 2}
    means = [{"kind": "mean", "column": "age"}, {"kind": "quantiles", "column": "age", "at": [0.5]}]
    with Client(service.url, ada["key"]) as client:
        named |= {
            "chain": submitted(client, 0.5, model=model("any_visit ~ chronic"), sampler=chains),
            "first": submitted(client, 1.5, model=model("any_visit ~ chronic + income + sex")),
            "task": submitted(client, 0.5, task={"kind": "summaries", "statistics": means}),
            "second": submitted(client, 2.5, model=model("any_visit ~ chronic + income + sex")),
            "smooth": submitted(
                client, 2.0, model=model("any_visit ~ s(age) + chronic + sex"), name="Visits by age"
            ),
        }
        for name in ("chain", "first", "task", "second", "smooth"):
            client.wait(named[name], timeout=300)
        named["check"] = submitted(
            client, 0.3, task={"kind": "predictive_check", "job": named["first"]}
        )
        client.wait(named["check"], timeout=300)
        client.ask("a curve of income, for the report", dataset="visits", epsilon=2.0)
        client.ask("to compare the two years", dataset_name="visits of 1982")
    with Client(service.url, service.admin_key) as admin:
        newest = next(iter(admin.requests()))
        admin.answer(newest["id"], "refused", answer="The file has not come yet.")
    return named


@pytest.fixture(scope="module")
def kept(pytestconfig: pytest.Config) -> Path | None:
    """The folder of pictures; None where none are kept."""
    asked = pytestconfig.getoption("--pictures")
    return Path(asked) if asked else None


def taken(page: Page, width: int) -> bytes:
    """A picture of the page as WebP, from its top."""
    height = min(page.evaluate("document.documentElement.scrollHeight"), TALLEST[width])
    clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": HALVED[width]}
    asked = {"format": "webp", "quality": QUALITY, "clip": clip, "captureBeyondViewport": True}
    with_protocol = page.context.new_cdp_session(page)
    return base64.b64decode(with_protocol.send("Page.captureScreenshot", asked)["data"])


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_fit_their_window_in_both_themes(
    browser: Browser,
    service: Service,
    scene: dict[str, str],
    kept: Path | None,
    scheme: Literal["light", "dark"],
) -> None:
    widths = WIDTHS if scheme == "light" else WIDTHS[::-1]
    faults: list[str] = []
    for role in ("nobody", "analyst", "admin", "auditor"):
        context = browser.new_context(color_scheme=scheme, reduced_motion="reduce")
        page = context.new_page()
        page.on("pageerror", lambda error: faults.append(str(error)))
        if role != "nobody":
            sign_in(page, service.url, scene[role])
            expect(page.get_by_role("heading", name="Datasets")).to_be_visible()
        for name, shown in PAGES.items():
            if shown.role != role:
                continue
            for width in widths:
                if kept or width == widths[0]:
                    load(page, service.url + shown.address.format(**scene), width)
                    shown.prepare(page)
                fits(page, width, name)
                if kept or name == "job":  # one at least, so that taking pictures is tested
                    picture = taken(page, width)
                    assert picture[8:12] == b"WEBP"
                    if kept:
                        (kept / file_of(name, width, scheme)).write_bytes(picture)
        for address in BESIDE.get(role, ()):
            load(page, service.url + address.format(**scene), widths[0])
            for width in widths:
                fits(page, width, address)
        context.close()
    assert not faults


def load(page: Page, address: str, width: int) -> None:
    """Open a page in a window of this width."""
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(address, wait_until="networkidle", timeout=1000 * LOAD_SECONDS)


def fits(page: Page, width: int, name: str) -> None:
    """Give the window this width, and wait until the page is no wider."""
    page.set_viewport_size({"width": width, "height": 900})
    widest = "([width]) => innerWidth === width && document.documentElement.scrollWidth <= width"
    try:
        page.wait_for_function(widest, arg=[width], timeout=1000 * REDRAW_SECONDS)
    except PlaywrightTimeoutError:
        pytest.fail(f"{name} is wider than a window of {width} pixels", pytrace=False)


@pytest.mark.slow
def test_hostile_names_stay_text_and_fit_every_window(
    browser: Browser, service: Service, tmp_path: Path
) -> None:
    """Of 200 letters without a space, with markup, and written from right to left."""
    long, markup, hebrew = "W" * 200, '<img src=x onerror="document.title=1">', "שלום " * 20
    rows = tmp_path / "rows.csv"
    rows.write_text("a,b\n" + "1,2\n" * 400)
    column = {"type": "number", "lower": 0, "upper": 5}
    metadata = {
        "name": hebrew,
        "description": long,
        "columns": [{"name": "a", **column}, {"name": "b", "description": markup, **column}],
        "privacy": {"epsilon": 8.0, "delta": 1e-6},
    }
    with Client(service.url, service.admin_key) as admin:
        dataset = admin.upload(rows, metadata)["id"]
        user = admin.create_user(long, "analyst")
    body = {"dataset": dataset, "model": {"family": "linear", "formula": "a ~ b"}, "dry_run": True}
    named = {"name": markup, "note": long, "privacy": {"epsilon": 1.0, "delta": 1e-6}}
    with Client(service.url, user["key"]) as client:
        job = client.submit(body | named | {"accept_low_quality": True})["id"]
        client.wait(job, timeout=120)
    context = browser.new_context()
    page = context.new_page()
    sign_in(page, service.url, user["key"])
    expect(page.get_by_role("heading", name="Datasets")).to_be_visible()
    for address in ("/datasets", f"/datasets/{dataset}", "/jobs", f"/jobs/{job}", "/me"):
        load(page, service.url + address, WIDTHS[0])
        for width in WIDTHS:
            fits(page, width, address)
        assert page.title() != "1"
    page.goto(f"{service.url}/jobs/{job}")
    expect(page.get_by_text(markup).first).to_be_visible()
    context.close()
