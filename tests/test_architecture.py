"""The layers of the core are those of docs/architecture.md, and no imports make a circle."""

import ast
import re
import tomllib
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "architecture.md"
WAYS = ("a job's spec", "a cost", "a row", "a draw")
MOST_STAYS = 10


def modules(package):
    """Name -> path of every module."""
    found = {}
    for path in sorted((ROOT / package).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts).removesuffix(".__init__")] = path
    return found


def parents(name):
    """Packages that Python imports before a module."""
    parts = name.split(".")
    return {".".join(parts[:k]) for k in range(1, len(parts))}


@cache
def statements(source):
    """All imports of a source: at its top, in functions and for types alone."""
    every = ast.walk(ast.parse(source))
    return [node for node in every if isinstance(node, ast.Import | ast.ImportFrom)]


def imported(source, known):
    """What a module names in imports."""
    for node in statements(source):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        else:
            assert not node.level, "imports are absolute"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in known else node.module


def imports(packages, sources=None):
    """Module -> modules that it imports, with packages around those that are not around itself."""
    known = {name: path for package in packages for name, path in modules(package).items()}
    found = {}
    for name, path in known.items():
        source = (sources or {}).get(name) or path.read_text()
        named = {other for other in imported(source, known) if other in known}
        around = set().union(*(parents(other) for other in named)) & set(known)
        found[name] = (named | around) - parents(name) - {name}
        found[name] |= {other for other in named if other in parents(name)}
    return found


def drawn():
    """The picture: sets of modules, from the top."""
    block = re.search(r"```layers\n(.*?)```", PAGE.read_text(), re.S)
    lines = [re.match(r"\w+(?: \| \w+)*", line) for line in block[1].splitlines()]
    return [set(line[0].split(" | ")) for line in lines]


def levels():
    """Name of each direct child of dpmcmc -> its height."""
    return {name: -k for k, line in enumerate(drawn()) for name in line}


def against(found):
    """Imports inside the core that do not go down."""
    height = levels()
    wrong = []
    for name, others in found.items():
        for other in others:
            if name.count(".") == 0:
                continue
            own, its = name.split(".")[1], (*other.split("."), "")[1]
            if not its or (own != its and height[own] <= height[its]):
                wrong.append(f"{name} -> {other}")
    return wrong


def circle(found):
    try:
        tuple(TopologicalSorter(found).static_order())
    except CycleError as error:
        return error.args[1]
    return None


def test_the_picture_names_every_module_of_the_core_once():
    named = [name for line in drawn() for name in line]
    there = {path.stem for path in (ROOT / "dpmcmc").glob("*.py")} - {"__init__"}
    there |= {path.parent.name for path in (ROOT / "dpmcmc").glob("*/__init__.py")}
    assert len(named) == len(set(named))
    assert set(named) == there


def test_the_contract_is_the_picture():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    assert not contracts.get("exclude_type_checking_imports", False)
    own = [one for one in contracts["contracts"] if one.get("containers") == ["dpmcmc"]]
    assert len(own) == 1
    assert own[0]["exhaustive"]
    assert not own[0].get("ignore_imports")
    assert [set(line.split(" | ")) for line in own[0]["layers"]] == drawn()


def test_every_import_of_the_core_goes_down():
    found = imports(["dpmcmc"])
    assert sum(map(len, found.values())) > 400
    assert not against(found)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("dpmcmc.inputs.spec", "from dpmcmc.samplers import SAMPLERS"),
        ("dpmcmc.kernels.compiled.penalty_steps", "from dpmcmc.privacy import discrete"),
        ("dpmcmc.inputs.schema", "import dpmcmc.privacy.events"),
        ("dpmcmc.families.base", "from dpmcmc.fit import run"),
        ("dpmcmc.formula.design", "def later():\n    from dpmcmc.families import MODELS"),
        (
            "dpmcmc.formula.variables",
            "if TYPE_CHECKING:\n    from dpmcmc.families.base import Model",
        ),
    ],
)
def test_an_import_that_goes_up_or_aside_is_found(name, line):
    source = modules("dpmcmc")[name].read_text()
    assert against(imports(["dpmcmc"], {name: f"{source}\n{line}\n"}))


@pytest.mark.parametrize("package", ["dpmcmc", "app", "worker"])
def test_no_import_goes_round_in_a_circle(package):
    assert circle(imports([package])) is None


def test_a_circle_of_two_files_is_found():
    name = "dpmcmc.posterior.free.priors"
    source = modules("dpmcmc")[name].read_text() + "\nfrom dpmcmc.posterior.free import posterior\n"
    assert set(circle(imports(["dpmcmc"], {name: source}))) > {
        name,
        "dpmcmc.posterior.free.posterior",
    }


def stays(way):
    """Names at the numbered stays of a way."""
    part = re.search(rf"## The way of {way}\n(.*?)(?:\n## |\Z)", PAGE.read_text(), re.S)
    return re.findall(r"^\d+\. `([\w.]+)`", part[1], re.M)


def defined(name):
    """Whether a source defines this function, or this method."""
    parts = name.split(".")
    known = modules(parts[0])
    cut = max(k for k in range(len(parts)) if ".".join(parts[:k]) in known)
    body = ast.parse(known[".".join(parts[:cut])].read_text()).body
    for part in parts[cut:]:
        same = [node for node in body if getattr(node, "name", None) == part]
        if not same:
            return False
        body = same[0].body
    return isinstance(same[0], ast.FunctionDef | ast.AsyncFunctionDef)


@pytest.mark.parametrize("way", WAYS)
def test_every_stay_of_a_way_is_a_function_that_exists(way):
    names = stays(way)
    assert 3 < len(names) <= MOST_STAYS
    assert [name for name in names if not defined(name)] == []
