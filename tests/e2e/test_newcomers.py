"""Four people who are new here do what they came for; what it takes of them is counted.

A choice of a list counts as two clicks, a chosen file as two: one opens, one chooses. A pasted key
is no typing, and neither is a file. The operator's walk is the guide of one machine, whose blocks
tests/test_deployment.py pastes into an empty directory as they stand.
"""

import csv
import gzip
import io
import json
import random
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from app.local_service import Service
from dpmcmc.client import Client
from tests.conftest import ROOT

CLICK_SECONDS, LETTER_SECONDS = 2.65, 0.28  # Card, Moran and Newell 1980: M + P + 2 B, and K
NUMBERS = [f"Messwert {k}" for k in range(1, 36)]
FINDINGS = [f"befund_{k}" for k in range(1, 12)]
SIGNS = [f"symptom_{k}" for k in range(1, 8)]
DAYS = ["aufnahme", "entlassung", "geburt"]
HEIGHT = "Größe (cm)"
MESSY = ["patient_id", "bemerkung", *NUMBERS, *FINDINGS, *SIGNS, *DAYS, "kassen-nr", HEIGHT]


@dataclass
class Hand:
    """Somebody at a page. clicks, letters: what it took so far."""

    page: Page
    clicks: int = 0
    letters: int = 0

    def click(self, on: Locator) -> None:
        on.click()
        self.clicks += 1

    def give(self, to: Locator, file: Path) -> None:
        to.set_input_files(file)
        self.clicks += 2

    def type(self, into: Locator, text: str) -> None:
        into.fill(text)
        self.clicks += 1
        self.letters += len(text)

    def sign_in(self, service: Service, key: str) -> None:
        self.page.goto(service.url)
        self.page.get_by_label("API key").fill(key)  # pasted: the field has the focus
        self.click(self.page.get_by_role("button", name="Sign in"))
        expect(self.page.get_by_role("heading", level=1, name="Datasets")).to_be_visible()

    @property
    def seconds(self) -> float:
        """How long it takes somebody who knows what to do."""
        return CLICK_SECONDS * self.clicks + LETTER_SECONDS * self.letters


def messy(rows: int = 1500) -> bytes:
    """An export with semicolons, decimal commas, a byte order mark, ids, free text and gaps."""
    draw = random.Random(5)

    def number(mean: float) -> str:
        if draw.random() < 0.05:
            return draw.choice(["", "NA", "k.A.", "n/a"])
        return f"{draw.gauss(mean, 5):.2f}".replace(".", ",")

    out = io.StringIO(newline="")
    sheet = csv.writer(out, delimiter=";", lineterminator="\r\n")
    sheet.writerow(MESSY)
    for k in range(rows):
        note = f'Kam um {k % 24} Uhr; "unauffällig"\nnächster Termin offen' if k % 3 else ""
        sheet.writerow([
            f"P{k:06}", note, *(number(10 * (at % 7) + 20) for at, _ in enumerate(NUMBERS)),
            *(draw.choice(["leicht", "mittel", "schwer", "NA"]) for _ in FINDINGS),
            *(draw.choice(["ja", "nein"]) for _ in SIGNS),
            *(f"{draw.randint(1, 28):02}.{draw.randint(1, 12):02}.2020" for _ in DAYS),
            str(10**9 + 7 * k), number(172),
        ])  # fmt: skip
    return b"\xef\xbb\xbf" + out.getvalue().encode()


def schema() -> bytes:
    """What is known of those columns, as a spreadsheet in German saves it."""
    lines = ["name;type;lower;upper;categories;missing"]
    lines += [f"{name};number;0,0;150,5;;true" for name in NUMBERS]
    lines += [f"{name};category;;;leicht|mittel|schwer;true" for name in FINDINGS]
    lines += [f"{name};binary;;;nein|ja;" for name in SIGNS]
    lines += [f"{name};date;01.01.2018;31.12.2022;;" for name in DAYS]
    lines.append(f"{HEIGHT};number;100;230;;true")
    return b"\xef\xbb\xbf" + "\r\n".join([*lines, ""]).encode()


@pytest.fixture(scope="module")
def people(service: Service) -> dict[str, str]:
    """Keys of an analyst and an auditor."""
    with Client(service.url, service.admin_key) as admin:
        named = {"analyst": "Ana Alt", "auditor": "Otto Neu"}
        return {role: admin.create_user(name, role)["key"] for role, name in named.items()}


@pytest.fixture(scope="module")
def visits(service: Service, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The name of a dataset that every analyst may use."""
    rows = tmp_path_factory.mktemp("visits") / "visits.csv"
    rows.write_bytes(gzip.decompress((ROOT / "experiments/data/randhie.csv.gz").read_bytes()))
    told = json.loads((ROOT / "experiments/data/randhie.json").read_text()) | {"name": "visits"}
    with Client(service.url, service.admin_key) as admin:
        admin.upload(rows, told)
    return "visits"


@pytest.mark.longer
def test_an_analyst_comes_to_an_answer_in_eight_clicks(
    page: Page, service: Service, people: dict[str, str], visits: str
) -> None:
    hand = Hand(page)
    hand.sign_in(service, people["analyst"])
    card = page.locator("article.budget").filter(has_text=visits)
    hand.click(card.get_by_role("button", name="New job"))
    for column in ("any_visit", "chronic", "income", "sex"):
        hand.click(page.get_by_role("button", name=column, exact=True))
    expect(page.locator("#plan")).to_contain_text("affordable")
    expect(page.locator("#plan")).to_contain_text("analyses like this one")
    hand.click(page.get_by_role("button", name="Submit job"))
    expect(page.locator(".verdict .status")).to_have_text("reliable", timeout=60_000)
    answer = page.locator("#outcome")
    expect(answer).to_contain_text("With 1 more of chronic, the odds of any_visit being yes")
    expect(answer).to_contain_text("90 % interval")
    expect(page.get_by_text("Ask more, free")).to_be_visible()
    assert (hand.clicks, hand.letters) == (7, 0)


def test_an_admin_brings_a_messy_file_to_an_analyst_within_ten_minutes(
    page: Page, service: Service, people: dict[str, str], tmp_path: Path
) -> None:
    rows, known = tmp_path / "export.csv", tmp_path / "columns.csv"
    rows.write_bytes(messy())
    known.write_bytes(schema())
    assert len(MESSY) == 60
    hand = Hand(page)
    hand.sign_in(service, service.admin_key)
    hand.click(page.locator("a[href='/datasets/new']"))
    hand.give(page.get_by_label("File"), rows)
    hand.click(page.get_by_role("button", name="Look at the file"))
    looked = page.locator("#looked p")
    expect(looked).to_contain_text("60 columns, with a semicolon between fields, and a comma")
    expect(looked).to_contain_text("ids or free text: patient_id, bemerkung, kassen-nr")
    expect(page.get_by_label("Spellings of no value")).to_have_value("NA, n/a, k.A.")
    hand.click(page.get_by_text("From a table, a spreadsheet"))
    hand.give(page.get_by_label("Schema"), known)
    expect(page.locator("#schema")).to_contain_text("57 columns of the table taken.")
    hand.type(page.locator("[data-m=name]"), "Station 3")
    hand.type(page.get_by_label("Epsilon"), "6")
    hand.click(page.get_by_label("Ana Alt"))
    hand.click(page.locator("button.submit"))
    expect(page.get_by_role("heading", level=1)).to_have_text("Station 3", timeout=60_000)
    assert hand.clicks <= 12
    assert hand.letters == len("Station 36")
    assert hand.seconds < 60  # of the ten minutes
    with Client(service.url, people["analyst"]) as analyst:
        made = next(one for one in analyst.datasets() if one["name"] == "Station 3")
    assert (made["rows"], len(made["columns"])) == (1500, 57)
    with Client(service.url, service.admin_key) as admin:
        told = next(one for one in admin.datasets() if one["name"] == "Station 3")
        assert len(told["grants"]) == 1
        admin.amend(made["id"], {"archived": True})


def test_what_an_admin_leaves_out_or_has_to_fill_in_is_said(
    page: Page, service: Service, tmp_path: Path
) -> None:
    """Without a schema file: a template to fill in; a column that is left out is not asked for."""
    rows = tmp_path / "export.csv"
    rows.write_bytes(messy(200))
    hand = Hand(page)
    hand.sign_in(service, service.admin_key)
    page.goto(f"{service.url}/datasets/new")
    hand.give(page.get_by_label("File"), rows)
    hand.click(page.get_by_role("button", name="Look at the file"))
    expect(page.locator(".column")).to_have_count(57)
    hand.click(page.get_by_text("From a table, a spreadsheet"))
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save the columns below").click()
    lines = saved.value.path().read_text(encoding="utf-8-sig").splitlines()
    assert lines[:2] == [
        "name,type,lower,upper,categories,missing,integer,description",
        "Messwert 1,number,,,,,,",
    ]
    assert len(lines) == 58
    page.locator(".column").first.get_by_role("button", name="Leave out").click()
    expect(page.get_by_label("Columns to leave out")).to_have_value(re.compile("Messwert 1$"))
    expect(page.locator(".column")).to_have_count(56)
    page.get_by_role("button", name="Values may be missing in all").click()
    boxes = page.locator("#columns [data-c=empty]")
    assert boxes.evaluate_all("all => all.every(one => one.checked)")


def test_an_auditor_verifies_the_books_and_sees_who_raised_what(
    page: Page, service: Service, people: dict[str, str], visits: str
) -> None:
    with Client(service.url, service.admin_key) as admin:
        dataset = next(one for one in admin.datasets() if one["name"] == visits)
        raised = {"privacy": {"epsilon": 7.5}, "reason": "a second study of visits"}
        admin.amend(dataset["id"], raised)
    hand = Hand(page)
    hand.sign_in(service, people["auditor"])
    hand.click(page.get_by_role("link", name=visits, exact=True))
    hand.click(page.get_by_role("button", name="Verify"))
    expect(page.locator("#verified")).to_contain_text("It is whole")
    hand.click(page.get_by_role("link", name="Audit", exact=True))
    hand.click(page.get_by_role("button", name="Verify"))
    expect(page.locator("#verified")).to_contain_text("It is whole")
    row = page.get_by_role("row").filter(has_text="a second study of visits")
    expect(row).to_contain_text("admin")
    expect(row).to_contain_text(visits)
    expect(row).to_contain_text("epsilon from 6 to 7.5; reason: a second study")
    assert (hand.clicks, hand.letters) == (5, 0)
