"""The walk of the README in a browser alone: an admin, an analyst and an auditor, without curl."""

import csv
import gzip
import json
import re
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Page, expect

from app.local_service import Service
from tests.e2e.test_dashboard import sign_in

SIZES = [(360, "dark"), (800, "light"), (1400, "dark")]
FORMULA = "any_visit ~ chronic + family_size + income"


def made_user(page: Page, url: str, name: str, role: str) -> str:
    page.goto(f"{url}/users")
    page.get_by_label("Name").fill(name)
    page.get_by_label("Role").select_option(role)
    page.get_by_role("button", name="Make a user").click()
    return page.locator("code.key").text_content() or ""


def upload(page: Page, url: str, repository: Path, folder: Path, name: str, part: int) -> None:
    """Take the column names from the file, and type what is promised of them.

    part: of the persons, other ones for each walk: the same would be noticed.
    """
    told = json.loads((repository / "experiments/data/randhie.json").read_text())
    packed = (repository / "experiments/data/randhie.csv.gz").read_bytes()
    head, *lines = gzip.decompress(packed).decode().splitlines()
    rows = folder / "randhie.csv"
    person = head.split(",").index(told["privacy_unit"]["column"])
    own = [line for line in lines if sum(line.split(",")[person].encode()) % len(SIZES) == part]
    rows.write_text("\n".join([head, *own, ""]))
    page.goto(f"{url}/datasets/new")
    page.get_by_label("File").set_input_files(rows)
    page.locator("[data-m=name]").fill(name)
    page.get_by_label("Epsilon").fill("6")
    page.get_by_label("every analyst").check()
    page.get_by_label("May one person have several rows?").select_option("unit")
    page.get_by_label("Column that names the person").fill(told["privacy_unit"]["column"])
    page.get_by_label("Most rows of a person").fill(str(told["privacy_unit"]["max_rows"]))
    page.get_by_role("button", name="Look at the file").click()
    expect(page.locator(".column")).to_have_count(len(told["columns"]))
    declared = {one["name"]: one for one in told["columns"]}
    for column in page.locator(".column").all():
        one = declared[column.locator("[data-c=name]").input_value()]
        column.get_by_label("Type").select_option(one["type"])
        if one["type"] == "number":
            column.get_by_label("Lower").fill(str(one["lower"]))
            column.get_by_label("Upper").fill(str(one["upper"]))
        else:
            column.get_by_label("Categories").fill("\n".join(one["categories"]))
    page.get_by_role("button", name="Upload").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(name)


def sign_out(page: Page) -> None:
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("API key")).to_be_visible()


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_the_whole_walk_needs_a_browser_and_nothing_else(
    page: Page,
    service: Service,
    repository: Path,
    tmp_path: Path,
    width: int,
    scheme: Literal["light", "dark"],
) -> None:
    page.set_viewport_size({"width": width, "height": 850})
    page.emulate_media(color_scheme=scheme)
    sign_in(page, service.url, service.admin_key)
    expect(page.get_by_role("heading", name="Datasets")).to_be_visible()
    analyst = made_user(page, service.url, f"Ada at {width}", "analyst")
    auditor = made_user(page, service.url, f"Otto at {width}", "auditor")
    name = f"randhie at {width}"
    upload(page, service.url, repository, tmp_path, name, SIZES.index((width, scheme)))
    dataset = page.url
    sign_out(page)

    sign_in(page, service.url, analyst)
    page.goto(dataset)
    page.get_by_role("button", name="New job").click()
    page.get_by_label("Model").select_option("logistic")
    page.get_by_label("Formula").fill(FORMULA)
    page.get_by_label("ε").fill("4")
    expect(page.locator("#plan")).to_contain_text("affordable")
    expect(page.locator("#plan")).to_contain_text("noisy_quadratic")
    page.get_by_role("button", name="Submit job").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(FORMULA)
    expect(page.locator("#summary tbody tr")).to_have_count(4, timeout=60_000)
    expect(page.locator(".verdict")).to_contain_text(re.compile("reliable"))
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.get_by_label("Prior sd of chronic").fill("0.5")
    page.get_by_role("button", name="Ask the release").click()
    expect(page.locator("#again")).to_contain_text("normal 0 ± 0.5")
    with page.expect_download() as saved:
        page.get_by_role("link", name="netCDF").click()
    assert saved.value.path().read_bytes()[:8] == b"\x89HDF\r\n\x1a\n"
    page.goto(f"{service.url}/jobs/new?dataset={dataset.rsplit('/', 1)[1]}")
    page.get_by_label("Formula").fill(FORMULA)
    page.get_by_label("ε").fill("6")
    expect(page.locator("#plan")).to_contain_text("beyond the budget")
    expect(page.locator("#plan [role=alert]")).to_contain_text(
        "Left for one job of yours is ε 4.086"
    )
    expect(page.get_by_role("button", name="Submit job")).to_be_disabled()
    page.goto(dataset)
    expect(page.locator("article.budget")).to_contain_text("4 of 6 is spent")
    expect(page.locator("article.budget")).to_contain_text(
        "protects a person (named by person, at most 5"
    )
    sign_out(page)

    sign_in(page, service.url, auditor)
    page.goto(dataset)
    page.get_by_role("button", name="Verify").click()
    expect(page.locator("#verified")).to_contain_text("It is whole")


def to(page: Page, name: str) -> None:
    """Press Tab until what has this label or text has the focus."""
    for _ in range(150):
        page.keyboard.press("Tab")
        if page.evaluate(
            "(name) => { const at = document.activeElement;"
            " return [at.innerText, at.labels?.[0]?.innerText, at.ariaLabel]"
            ".some((text) => text?.trim().startsWith(name)); }",
            name,
        ):
            return
    pytest.fail(f"{name!r} is not reached by Tab")


def typed(page: Page, name: str, text: str) -> None:
    """Write into the field with this label."""
    to(page, name)
    page.keyboard.press("Control+A")
    page.keyboard.type(text)


def pressed(page: Page, name: str) -> None:
    to(page, name)
    page.keyboard.press("Enter")


def entered(page: Page, url: str, key: str) -> None:
    page.goto(url)
    expect(page.get_by_label("API key")).to_be_focused()
    page.keyboard.type(key)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Datasets")).to_be_visible()


@pytest.mark.longer
def test_the_whole_walk_by_keys_alone(
    page: Page, service: Service, repository: Path, tmp_path: Path
) -> None:
    """Tab, Enter and letters lead all three roles through it; nothing is clicked."""
    told = json.loads((repository / "experiments/data/randhie.json").read_text())
    wanted = ["any_visit", "chronic", "family_size", "income"]
    packed = (repository / "experiments/data/randhie.csv.gz").read_bytes()
    rows = list(csv.DictReader(gzip.decompress(packed).decode().splitlines()))[:6000]
    with (tmp_path / "rows.csv").open("w") as file:
        out = csv.DictWriter(file, wanted, extrasaction="ignore")
        out.writeheader()
        out.writerows(rows)

    entered(page, service.url, service.admin_key)
    keys = {}
    for name, role in (("Kim", "analyst"), ("Kai", "auditor")):
        pressed(page, "Users")
        expect(page.get_by_role("heading", name="Users")).to_be_visible()
        typed(page, "Name", name)
        to(page, "Role")
        page.keyboard.type(role)
        pressed(page, "Make a user")
        expect(page.get_by_role("heading", name=f"{name} was made")).to_be_visible()
        keys[role] = page.locator("code.key").text_content() or ""
    pressed(page, "Datasets")
    expect(page.get_by_role("heading", name="Datasets")).to_be_visible()
    pressed(page, "Upload")
    expect(page.get_by_role("heading", name="Upload a dataset")).to_be_visible()
    with page.expect_file_chooser() as chooser:
        pressed(page, "File")
    chooser.value.set_files(tmp_path / "rows.csv")
    typed(page, "Name", "by keys")
    typed(page, "Epsilon", "6")
    pressed(page, "Look at the file")
    expect(page.locator(".column")).to_have_count(4)
    to(page, "every analyst")
    page.keyboard.press("Space")
    declared = {one["name"]: one for one in told["columns"]}
    for name in wanted:
        one = declared[name]
        to(page, "Type")
        page.keyboard.type("number" if one["type"] == "number" else "yes")
        if one["type"] == "number":
            typed(page, "Lower bound", str(one["lower"]))
            typed(page, "Upper bound", str(one["upper"]))
        else:
            typed(page, "Categories", "\n".join(one["categories"]))
    pressed(page, "Upload")
    expect(page.get_by_role("heading", level=1)).to_have_text("by keys")
    pressed(page, "Sign out")
    expect(page.get_by_label("API key")).to_be_focused()

    entered(page, service.url, keys["analyst"])
    pressed(page, "by keys")
    expect(page.get_by_role("heading", level=1)).to_have_text("by keys")
    pressed(page, "New job")
    expect(page.get_by_role("heading", name="New job")).to_be_visible()
    typed(page, "Formula", FORMULA)
    typed(page, "ε", "4")
    expect(page.locator("#plan")).to_contain_text("affordable")
    pressed(page, "Submit job")
    expect(page.get_by_role("heading", level=1)).to_have_text(FORMULA)
    expect(page.locator("#summary tbody tr")).to_have_count(4, timeout=60_000)
    typed(page, "Prior sd of chronic", "0.5")
    pressed(page, "Ask the release")
    expect(page.locator("#again")).to_contain_text("normal 0 ± 0.5")
    with page.expect_download() as saved:
        pressed(page, "netCDF")
    assert saved.value.path().read_bytes()[:4] == b"\x89HDF"
    pressed(page, "Sign out")
    expect(page.get_by_label("API key")).to_be_focused()

    entered(page, service.url, keys["auditor"])
    pressed(page, "by keys")
    expect(page.get_by_role("heading", level=1)).to_have_text("by keys")
    pressed(page, "Verify")
    expect(page.locator("#verified")).to_contain_text("It is whole")
