"""The documentation as a site: it builds without a warning, asks nobody, and its blocks run."""

import contextlib
import io
import re
import subprocess
import sys

import pytest

import dpmcmc
from dpmcmc_service.main import create_app
from tests.docs.pages import BLOCK, ROOT

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


def test_the_reference_knows_every_name_and_operation(site):
    library = (site / "reference" / "library" / "index.html").read_text()
    assert all(f'id="{name.lower()}"' in library for name in dpmcmc.__all__)
    rest = (site / "reference" / "rest" / "index.html").read_text()
    paths = create_app().openapi()["paths"]
    assert all(path in rest for path in paths)


def test_every_page_of_docs_is_in_the_site(site):
    for page in (ROOT / "docs").rglob("*.md"):
        built = site / page.relative_to(ROOT / "docs").with_suffix("") / "index.html"
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
