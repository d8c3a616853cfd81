"""Every public name says what it takes, gives and raises, and shows how it is called."""

import ast
import inspect
import re
from typing import Literal, get_args, get_origin, get_type_hints

import pytest

import dpmcmc

RAISES_NOTHING = {"CoefficientPrior", "Counts", "JobSpec", "Mean", "ModelOptions", "ModelSpec"}
RAISES_NOTHING |= {"NormalPrior", "PrivacySpec", "Quantiles", "UpTo"}  # records that a call checks


def sections(doc: str) -> dict[str, str]:
    """Section -> text of a NumPy-style docstring."""
    parts = re.split(r"^(\w+)\n-+$", doc, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def names(text: str) -> set[str]:
    """What a section of parameters or attributes describes."""
    heads = re.findall(r"^(\w[\w, ]*)$", text, re.M)
    return {name for head in heads for name in head.split(", ")}


def wanted(name: str) -> set[str]:
    """Sections that a public name must have."""
    thing = getattr(dpmcmc, name)
    if inspect.isclass(thing) and issubclass(thing, Exception):
        return {"Attributes"}
    if inspect.isclass(thing):
        return {"Parameters", "Examples"} | (set() if name in RAISES_NOTHING else {"Raises"})
    return {"Parameters", "Returns", "Raises", "Examples"}


@pytest.mark.parametrize("name", dpmcmc.__all__)
def test_a_public_name_has_the_sections_of_numpy_style(name: str) -> None:
    doc = inspect.getdoc(getattr(dpmcmc, name)) or ""
    given = sections(doc)
    assert not re.match(r"\w+\n-", doc), "a summary comes first"
    assert wanted(name) <= given.keys()
    assert all(text.strip() for text in given.values())


@pytest.mark.parametrize("name", [n for n in dpmcmc.__all__ if "Parameters" in wanted(n)])
def test_every_parameter_is_described_and_none_that_is_not_there(name: str) -> None:
    thing = getattr(dpmcmc, name)
    described = names(sections(inspect.getdoc(thing) or "")["Parameters"])
    parameters = inspect.signature(thing).parameters
    hints = get_type_hints(thing) if inspect.isclass(thing) else {}
    literals = {name: get_args(hint) for name, hint in hints.items() if get_origin(hint) is Literal}
    fixed = {name for name, values in literals.items() if len(values) == 1}
    assert described == set(parameters) - fixed  # a field that can have one value is never given


@pytest.mark.parametrize("name", [n for n in dpmcmc.__all__ if "Examples" in wanted(n)])
def test_an_example_is_python_that_names_what_it_shows(name: str) -> None:
    text = sections(inspect.getdoc(getattr(dpmcmc, name)) or "")["Examples"]
    lines = re.findall(r"^(?:>>>|\.\.\.) ?(.*)$", text, re.M)
    tree = ast.parse("\n".join(lines))
    used = {getattr(node, "id", getattr(node, "attr", "")) for node in ast.walk(tree)}
    assert name in used
