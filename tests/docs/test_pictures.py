"""The guide shows every page of the dashboard, as `./dev pictures` made it."""

import re

from tests.docs.pages import GUIDES, ROOT
from tests.e2e.test_pictures import KEPT, PAGES, file_of

MOST_BYTES = 4_000_000
AWAY = {"onwards"}  # leads to another page at once


def test_every_page_that_exists_is_pictured():
    templates = (ROOT / "app/web/templates").glob("*.html")
    pages = {path.stem for path in templates if 'extends "board.html"' in path.read_text()}
    assert {shown.template for shown in PAGES.values()} == pages - AWAY


def test_the_guide_shows_every_picture_and_no_other_is_kept():
    kept = {path.name: path for path in (GUIDES / "pictures").iterdir()}
    assert set(kept) == {file_of(name, *size) for name in PAGES for size in KEPT}
    assert all(path.read_bytes()[8:12] == b"WEBP" for path in kept.values())
    assert sum(path.stat().st_size for path in kept.values()) < MOST_BYTES
    shown = re.findall(r"pictures/([\w-]+\.webp)", (GUIDES / "pages.md").read_text())
    assert sorted(shown) == sorted(kept)
