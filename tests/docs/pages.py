"""What the guides show: the files that they build, block by block."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GUIDES = ROOT / "docs" / "guides"
BLOCK = re.compile(r"^```(\w+)( run)?\n(.*?)^```$", re.M | re.S)
PAGES = {"dp_langevin": "add_a_sampler.md", "whole_mean": "add_a_release.md"}


def blocks(guide, kind, run=False):
    """What the guide shows of one language; run: of what it says to run."""
    found = BLOCK.findall((GUIDES / guide).read_text())
    return [text for word, how, text in found if word == kind and bool(how) == run]


def built(guide):
    """The file that the guide builds, from its blocks."""
    return "\n\n\n".join(text.strip("\n") for text in blocks(guide, "python")) + "\n"


def kind_of(guide):
    """Return sampler or release."""
    return guide.removeprefix("add_a_").removesuffix(".md")


def name_of(name):
    """Return the module that the guide's file would be."""
    return f"dpmcmc.{kind_of(PAGES[name])}s.{name}"
