"""The documentation as a site: it builds without a warning, asks nobody, and can be searched."""

import re
import subprocess
import sys

import pytest
import typer
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

import dpmcmc
from app.main import create_app
from docs.reference import RETURNED
from dpmcmc.client.cli import app
from tests.docs.pages import BLOCK, ROOT
from tests.e2e.conftest import browser  # noqa: F401 - a fixture

LOOKED_AT = (
    "index",
    "tutorial",
    "guides/choose_algorithm",
    "reference/schemas",
    "proofs/noisy_quadratic",
)
CHECKED = ("index", "proofs/noisy_quadratic")
# tables that a narrow screen scrolls get the focus from the browser itself, which axe does not see
RULES = {"rules": {"scrollable-region-focusable": {"enabled": False}}}
FOREIGN = re.compile(r'<(?:script|img|link|iframe)[^>]+(?:src|href)="(?:https?:)?//([^/"]+)')


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site. A warning of the generator, such as a broken link, would have failed it."""
    place = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "docs.site", str(place)]
    made = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stdout + made.stderr
    return place / "site"


@pytest.mark.longer
def test_no_page_loads_anything_from_elsewhere(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 60
    for page in pages:
        hosts = set(FOREIGN.findall(page.read_text())) - {"localhost"}
        assert not hosts, page
        assert "```" not in page.read_text(), page


def test_formulas_are_shown_as_they_are_written(site):
    """Neither as superscripts, nor as signs of their own, nor as tags that a browser hides."""
    for page in site.rglob("*.html"):
        assert not re.search(r"<su[pb]>|<del>|<mark>|[©®½]", page.read_text()), page
    for page in (ROOT / "docs").rglob("*.md"):
        prose = re.sub(r"`[^`]*`|<!--.*?-->|<https?:[^>]*>", "", BLOCK.sub("", page.read_text()))
        assert not re.search(r"<(?!img )[A-Za-z/][^>\n]*>", prose), page


@pytest.mark.longer
def test_the_reference_knows_every_name_command_operation_and_schema(site):
    def anchors(page):
        return set(re.findall(r'<h\d id="([^"]+)"', (site / "reference" / page).read_text()))

    named = {name.lower() for name in dpmcmc.__all__} | {kind.__name__.lower() for kind in RETURNED}
    assert named | {"resultsummary", "budgetspent"} <= anchors("library.html")
    assert set(typer.main.get_command(app).commands) <= anchors("command_line.html")
    document = create_app().openapi()
    rest = (site / "reference" / "rest.html").read_text()
    assert all(path in rest for path in document["paths"])
    assert len(anchors("schemas.html")) > len(document["components"]["schemas"])


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1400, "light")])
def test_a_reader_finds_what_is_searched_without_a_server(site, browser, width, scheme):  # noqa: F811
    """Read from the disk: nothing is asked elsewhere, nothing is wider than the screen."""
    tab = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    asked, faults = [], []
    tab.on("request", lambda request: asked.append(request.url))
    tab.on("pageerror", lambda error: faults.append(str(error)))
    for page in LOOKED_AT:
        tab.goto((site / f"{page}.html").as_uri())
        wide = tab.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, page
        if page in CHECKED:
            found = Axe().run(tab, options=RULES).response["violations"]
            grave = [one["id"] for one in found if one["impact"] in ("serious", "critical")]
            assert not grave, page
    tab.goto((site / "tutorial.html").as_uri())
    tab.keyboard.press("Control+k")
    tab.keyboard.type("choose epsilon")
    first = tab.locator("a[href*='?h=choose+epsilon']").first
    expect(first).to_have_attribute("href", re.compile("choose_epsilon"))  # in order by then
    tab.keyboard.press("Enter")
    tab.wait_for_url("**/guides/choose_epsilon.html*")
    tab.close()
    assert not faults
    assert all(url.startswith((site.as_uri(), "data:", "blob:", "about:")) for url in asked)


def test_every_page_of_docs_is_in_the_site(site):
    for page in (ROOT / "docs").rglob("*.md"):
        built = site / page.relative_to(ROOT / "docs").with_suffix(".html")
        assert built.exists(), page
