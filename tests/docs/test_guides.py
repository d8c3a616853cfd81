"""The guides that build a family, a sampler and a release: their own code is what is run."""

import re
import subprocess
import sys
from dataclasses import fields

import pytest

from dpmcmc.families import MODELS
from dpmcmc.samplers.algorithms import ALGORITHMS
from tests.docs.pages import ROOT, blocks, built, kind_of, name_of

MOST_LINES = 150


def line_of(guide):
    """The line that it adds to a registry."""
    (text,) = blocks(guide, "diff")
    return text.removeprefix("+").rstrip("\n")


def test_the_family_of_the_guide_is_the_one_that_is_served():
    code = (ROOT / "dpmcmc/families/student_t.py").read_text()
    assert built("add_a_family.md") == code
    assert len(code.splitlines()) <= MOST_LINES
    registry = (ROOT / "dpmcmc/families/__init__.py").read_text()
    assert line_of("add_a_family.md") in registry.splitlines()


PRIORS = {
    "dpmcmc/posterior/plots.py",
    "dpmcmc/posterior/free/priors.py",
    "dpmcmc/inputs/written_priors.py",
    "app/api/questions.py",
}


@pytest.mark.parametrize(
    ("family", "others"), [("student_t", PRIORS), ("negative_binomial", frozenset())]
)
def test_no_other_file_of_the_product_names_the_family(family, others):
    """But the option's own line, where the registry imports it, priors of the same name, and what
    other software calls it."""
    words = re.compile(f"{family}|{family.replace('_', '')}\\b", re.I)
    named = {
        str(path.relative_to(ROOT))
        for folder in ("dpmcmc", "app", "worker")
        for path in (ROOT / folder).rglob("*.py")
        if words.search(path.read_text())
    }
    own = {f"dpmcmc/families/{family}.py", "dpmcmc/families/__init__.py"}
    assert named - others == own | {"dpmcmc/inputs/spec.py", "dpmcmc/inputs/published.py"}
    assert family in MODELS


def python(*words):
    """Run a Python of its own at the root."""
    return subprocess.run(
        [sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_the_family_of_the_guide_is_used_as_it_says():
    (code,) = blocks("add_a_family.md", "python", run=True)
    ran = python("-c", code)
    assert ran.returncode == 0, ran.stderr
    assert "eliable" in ran.stdout  # of sound releases one in a hundred is called unreliable
    assert ", 90 % from " in ran.stdout


def used(guide, name):
    """What is printed where the page's file and line are there, and its example is run."""
    (code,) = blocks(guide, "python", run=True)
    ran = python("-c", f"import tests.docs.added\nfrom {name_of(name)} import *\n{code}")
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_the_sampler_of_the_guide_says_what_is_not_known_of_it():
    said = used("add_a_sampler.md", "dp_langevin")
    assert said.startswith("None False")
    for part in ("nothing is known of how dp_langevin mixes", "Unreliable", "not exact"):
        assert part in said


def test_the_release_of_the_guide_gives_the_posterior_that_it_promises():
    said = used("add_a_release.md", "whole_mean")
    assert 1.0 < float(said.split()[0]) < 1.2
    assert "eliable" in said
    assert "height  17" in said


@pytest.mark.longer
@pytest.mark.parametrize(
    ("guide", "name", "tests"),
    [
        ("add_a_sampler.md", "dp_langevin", ("samplers", "own_noise", "noise")),
        ("add_a_release.md", "whole_mean", ("releases", "own_noise")),
    ],
)
def test_registration_brings_the_conformance_tests(guide, name, tests):
    assert len(built(guide).splitlines()) <= MOST_LINES
    assert "replacing one row" in blocks(guide, "markdown")[0]
    assert line_of(guide).strip() == f"{name}.{kind_of(guide).upper()},"
    files = [f"tests/conformance/test_{part}.py" for part in tests]
    ran = python("-m", "pytest", "-p", "tests.docs.added", "-q", "-n0", "-k", name, *files)
    assert ran.returncode == 0, ran.stdout
    assert int(re.search(r"(\d+) passed", ran.stdout).group(1)) >= 6


def test_table_of_algorithms_is_the_registry():
    """Every algorithm has a line, and the options that it names are there."""
    page = (ROOT / "docs/guides/choose_algorithm.md").read_text()
    lines = re.findall(r"^\| `(\w+)` \|[^|]*\|[^|]*\| (.*) \|$", page, re.M)
    assert [name for name, _ in lines] == list(ALGORITHMS)
    for name, own in lines:
        known = {field.name for field in fields(ALGORITHMS[name].options)}
        assert set(re.findall(r"`(\w+)`", own)) <= known
