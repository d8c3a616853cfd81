"""Every name in the guide from the theses is of something that exists."""

import importlib
import re
from dataclasses import fields
from typing import Any, get_args

import pytest

from dpmcmc.inputs.options import SumsMethod
from dpmcmc.inputs.spec import ModelOptions, ModelSpec, PrivacySpec
from dpmcmc.queries.statistics.inference import AlgorithmName
from dpmcmc.queries.statistics.mechanisms import StatisticKind
from dpmcmc.queries.tasks import TASKS
from dpmcmc.samplers.algorithms import ALGORITHMS

HELD = {"model": ModelSpec, "model.options": ModelOptions, "privacy": PrivacySpec}
PLAIN = {
    *get_args(SumsMethod),
    *get_args(AlgorithmName),
    *get_args(StatisticKind),
    *(task.__dataclass_fields__["kind"].default for task in TASKS),
    *ALGORITHMS,
}
NO_NAMES = {"a", "sampler"}  # an argument of a call, and a member of a job's body


def named(text: str) -> list[str]:
    """What stands between backticks in the tables, formulas of examples left out."""
    return [word for word in re.findall(r"`([^`]+)`", text) if "(" not in word and "{" not in word]


def reached(path: str) -> Any:
    """What a dotted path of the library leads to."""
    parts = path.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            found = found.__dataclass_fields__[part] if part == "holders" else getattr(found, part)
        return found
    raise AssertionError(path)


def exists(repository: Any, word: str) -> bool:
    """Whether a name is a file, something in the library, an option, or a registered word."""
    head, _, last = word.rpartition(".")
    if word.startswith("experiments/"):
        return bool((repository / word).is_file())
    if word.startswith("dpmcmc"):
        return reached(word) is not None
    if head in HELD:
        return last in {field.name for field in fields(HELD[head])}
    if head in ALGORITHMS:
        return last in {field.name for field in fields(ALGORITHMS[head].options)}
    return word in PLAIN | NO_NAMES


def test_every_name_is_of_something_that_exists(repository: Any) -> None:
    guide = (repository / "docs" / "guides" / "from_the_theses.md").read_text()
    words = named(guide)
    assert len(words) > 60
    assert [word for word in words if not exists(repository, word)] == []


@pytest.mark.parametrize(
    "word", ["dp_hmc.leapfrog", "experiments/none.py", "mcmc_fixed", "model.options.c", "tau"]
)
def test_a_name_of_nothing_would_be_found(repository: Any, word: str) -> None:
    assert not exists(repository, word)


NUMBERED = {
    "A": ("Algorithm 1", "Algorithm 2", "Algorithm 3", "Figure 2.1", "Figure 7.1", "Figure 7.2"),
    "B": (
        *(f"Algorithm {number}" for number in range(1, 19)),
        *(f"Figure 4.{number}" for number in range(1, 5)),
        "Figure 5.1",
        *(f"Figure 6.{number}" for number in range(1, 6)),
        *(f"Figure 7.{number}" for number in range(1, 4)),
        *("Table 6.1", "Table 6.2", "Table 7.1", "Table 7.2"),
    ),
}


def numbered(text: str) -> set[str]:
    """Every algorithm, figure and table that a text names, "Figures 6.1 to 6.5" in full."""
    found = set()
    pattern = r"(Algorithm|Figure|Table)s? ([\d.]+)(?: (to|and) ([\d.]+))?"
    for kind, first, word, last in re.findall(pattern, text):
        chapter, _, start = first.rpartition(".")
        ends = [int(start), int(last.rpartition(".")[2] if last else start)]
        between = range(ends[0], ends[1] + 1) if word == "to" else ends
        found |= {f"{kind} {chapter}.{n}" if chapter else f"{kind} {n}" for n in between}
    return found


@pytest.mark.parametrize("thesis", NUMBERED)
def test_every_algorithm_figure_and_table_has_its_line(repository: Any, thesis: str) -> None:
    guide = (repository / "docs" / "guides" / "from_the_theses.md").read_text()
    told = guide.partition("## Figures")[2].partition("## Symbols")[0]
    lines = [line for line in told.splitlines() if line.startswith(f"| {thesis}, ")]
    algorithms = guide.partition(f"## Algorithms of thesis {thesis}")[2].partition("\n## ")[0]
    found = numbered("\n".join([*lines, algorithms]))
    assert set(NUMBERED[thesis]) - found == set()


def test_every_symbol_and_method_has_its_line(repository: Any) -> None:
    guide = (repository / "docs" / "guides" / "from_the_theses.md").read_text()
    symbols = ("tau ", "tau_g", "L, ", "b_l", "b_g", "n_0", "kappa", "Lambda")
    assert [symbol for symbol in symbols if symbol not in guide] == []
    assert set(get_args(SumsMethod)) <= set(named(guide))
    assert {name for name in ALGORITHMS if name.startswith("dp_")} - {"dp_vi"} <= set(named(guide))
