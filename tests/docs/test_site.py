"""The documentation as a site: it builds without a warning, asks nobody, and its blocks run."""

import contextlib
import io
import re
import subprocess
import sys

import pytest
import typer

import dpmcmc
from docs.reference import RETURNED
from dpmcmc_service.client.cli import app
from dpmcmc_service.main import create_app
from tests.docs.pages import BLOCK, ROOT
from tests.e2e.conftest import browser  # noqa: F401 - a fixture

FOREIGN = re.compile(r'<(?:script|img|link|iframe)[^>]+(?:src|href)="(?:https?:)?//([^/"]+)')


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site. A warning of the generator, such as a broken link, would have failed it."""
    place = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "docs.site", str(place)]
    made = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stdout + made.stderr
    return place / "site"


def test_no_page_loads_anything_from_elsewhere(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 60
    for page in pages:
        hosts = set(FOREIGN.findall(page.read_text())) - {"localhost"}
        assert not hosts, page
        assert "```" not in page.read_text(), page


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


@pytest.mark.parametrize("width", [360, 1400])
def test_a_reader_finds_what_is_searched_without_a_server(site, browser, width):  # noqa: F811
    """Read from the disk: nothing is asked elsewhere, nothing is wider than the screen."""
    tab = browser.new_page(viewport={"width": width, "height": 900})
    asked, faults = [], []
    tab.on("request", lambda request: asked.append(request.url))
    tab.on("pageerror", lambda error: faults.append(str(error)))
    for page in sorted(site.rglob("*.html")):
        tab.goto(page.as_uri())
        wide = tab.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, page
    tab.goto((site / "tutorial.html").as_uri())
    tab.keyboard.press("Control+k")
    tab.keyboard.type("choose epsilon")
    tab.get_by_text("Choose epsilon", exact=True).first.wait_for()
    tab.keyboard.press("Enter")
    tab.wait_for_url("**/guides/choose_epsilon.html*")
    tab.close()
    assert not faults
    assert all(url.startswith((site.as_uri(), "data:", "blob:", "about:")) for url in asked)


def test_every_page_of_docs_is_in_the_site(site):
    for page in (ROOT / "docs").rglob("*.md"):
        built = site / page.relative_to(ROOT / "docs").with_suffix(".html")
        assert built.exists(), page


@pytest.mark.parametrize(
    ("page", "told"),
    [
        (
            "tutorial.md",
            [
                "eliable",  # of sound releases one in a hundred is called unreliable
                "\n  dose  ",
                "reliable\n",
                "1.00 of 2 spent",
                "is left of the budget",
                "False",
            ],
        ),
        ("guides/choosing.md", ["500 [", "50000 ["]),
    ],
)
def test_the_blocks_of_a_page_run_one_after_the_other(page, told):
    blocks = BLOCK.findall((ROOT / "docs" / page).read_text())
    assert all(run for word, run, _ in blocks if word == "python")
    code = "\n".join(text for word, _, text in blocks if word == "python")
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(code, page, "exec"), {"__name__": "page"})
    for words in told:
        assert words in said.getvalue(), said.getvalue()
