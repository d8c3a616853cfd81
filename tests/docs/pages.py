"""What pages show, block by block. A block is told by its language and what is said beside it."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GUIDES = ROOT / "docs" / "guides"
BLOCK = re.compile(r"^```(\w+)(?: ([^\n`]+))?\n(.*?)^```$", re.M | re.S)
PAGES = {"dp_langevin": "add_a_sampler.md", "whole_mean": "add_a_release.md"}


def all_pages():
    """README and the pages of docs, by their path from the root."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page.relative_to(ROOT).as_posix() for page in pages]


def blocks_of(page):
    """Language, what is said beside it ("" for nothing) and text of every block of a page."""
    return BLOCK.findall((ROOT / page).read_text())


def blocks(guide, kind, run=False):
    """What the guide shows of one language; run: of what it says to run."""
    found = blocks_of(f"docs/guides/{guide}")
    return [text for word, how, text in found if word == kind and (how == "run") == run]


def built(guide):
    """The file that the guide builds, from its blocks."""
    return "\n\n\n".join(text.strip("\n") for text in blocks(guide, "python")) + "\n"


def kind_of(guide):
    """Return sampler or release."""
    return guide.removeprefix("add_a_").removesuffix(".md")


def name_of(name):
    """Return the module that the guide's file would be."""
    return f"dpmcmc.{kind_of(PAGES[name])}s.{name}"
