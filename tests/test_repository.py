"""The repository keeps its own promises: pins, hashes, no foreign host, doors that stay shut."""

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
SHIPPED = ("dpmcmc", "app", "worker", "migrations")
LOCKED = (
    "requirements.txt",
    "requirements-dev.txt",
    "requirements-uv.txt",
    "requirements-bench.txt",
    "requirements-dask.txt",
)
LOCK_FILES = {"uv.lock", "pylock.toml", "poetry.lock", "Pipfile.lock", "package-lock.json"}
SET_UP = (*LOCKED, "pyproject.toml", "dev", ".ci/run", "Dockerfile", "docker-compose.yml")
CITATION = re.compile(
    r"\b([A-Z]\w{2,})(?:(?:, [A-Z]\w+)*,? (?:&|and) [A-Z]\w+| et al\.)?,? ((?:19|20)\d\d)\b"
)
JOURNALS = {"JMLR"}
URL = re.compile(r"https?://(?!127\.0\.0\.1|localhost)")


def tracked() -> list[Path]:
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    found = [ROOT / name for name in listing.split("\0") if name and (ROOT / name).is_file()]
    assert ROOT / "README.md" in found
    return found


def text_files() -> Iterator[tuple[Path, str]]:
    for path in tracked():
        try:
            yield path, path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def sources(*folders: str) -> Iterator[tuple[str, ast.Module]]:
    for folder in folders:
        paths = sorted((ROOT / folder).rglob("*.py"))
        assert paths, f"no sources in {folder}"
        for path in paths:
            yield str(path.relative_to(ROOT)), parsed(path)


def holds_here(item: Requirement) -> bool:
    """Whether a requirement is one of this Python."""
    return item.marker is None or item.marker.evaluate()


def pins(name: str) -> dict[str, str]:
    """Versions by name, of what this Python is given."""
    lines = re.findall(r"^[a-zA-Z0-9._-]+==[^\\\n]+", (ROOT / name).read_text(), re.M)
    here = filter(holds_here, map(Requirement, lines))
    return {item.name: str(item.specifier).removeprefix("==") for item in here}


def declared() -> dict[str, list[str]]:
    whole = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project, groups = whole["project"], whole["dependency-groups"]
    return {"core": project["dependencies"], **project["optional-dependencies"], **groups}


def test_no_lock_file_that_names_a_registry_is_committed() -> None:
    assert not [path for path in tracked() if path.name in LOCK_FILES]


@pytest.mark.parametrize("name", SET_UP)
def test_no_set_up_file_names_a_foreign_host_or_an_index(name: str) -> None:
    content = (ROOT / name).read_text()
    assert not URL.search(content)
    assert "index-url" not in content


@pytest.mark.parametrize("name", LOCKED)
def test_every_locked_requirement_is_pinned_and_hashed(name: str) -> None:
    lines = (ROOT / name).read_text().replace("\\\n", " ").splitlines()
    requirements = [line for line in lines if line and not line.lstrip().startswith("#")]
    assert requirements
    assert not [line for line in requirements if "==" not in line or "--hash=sha256:" not in line]


def test_every_declared_dependency_says_from_which_version_on() -> None:
    assert not [
        item
        for group in declared().values()
        for item in group
        if not re.search(r"(>=|==)[\d.]+", item)
    ]


@pytest.mark.parametrize(
    ("name", "groups"),
    [
        ("requirements.txt", ("core", "client", "service")),
        ("requirements-dev.txt", ("core", "client", "service", "plots", "dev")),
        ("requirements-bench.txt", ("bench",)),
        ("requirements-dask.txt", ("core", "client", "service", "dask")),
    ],
)
def test_the_locked_files_hold_what_the_project_declares(
    name: str, groups: tuple[str, ...]
) -> None:
    locked = pins(name)
    for item in (Requirement(one) for group in groups for one in declared()[group]):
        if not holds_here(item):
            continue
        assert locked.get(item.name, "0") in item.specifier, f"run ./dev lock: {item} in {name}"


def test_runtime_and_development_environments_agree_on_every_version() -> None:
    development = pins("requirements-dev.txt")
    for name in ("requirements.txt", "requirements-dask.txt"):
        assert {k: v for k, v in pins(name).items() if development.get(k) != v} == {}


def test_dev_script_needs_the_standard_library_only() -> None:
    tree = ast.parse((ROOT / "dev").read_text())
    imported = {
        name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [a.name for a in node.names]
        )
    }
    assert imported <= sys.stdlib_module_names


def test_dev_script_refuses_an_unknown_command() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "dev", "nonsense"], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "./dev test" in done.stderr


def test_the_fast_lane_touches_every_area_and_names_what_exists() -> None:
    lines = (ROOT / "tests" / "fast.txt").read_text().split()
    assert lines == sorted(set(lines))
    assert not [line for line in lines if not (ROOT / line.partition("::")[0]).is_file()]
    touched = {Path(line).parts[1] for line in lines}
    assert {"privacy", "core", "conformance", "ledger", "storage"} <= touched
    assert {"api", "worker", "client", "e2e"} <= touched


def test_shipped_code_has_no_assert() -> None:
    found = [
        f"{name}:{node.lineno}"
        for name, tree in sources(*SHIPPED)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assert)
    ]
    assert not found


def test_only_the_ledger_and_the_owners_own_run_make_a_permit() -> None:
    makers = {
        name
        for name, tree in sources(*SHIPPED)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "Permit"
    }
    outside = {name for name in makers if not name.startswith("app/ledger/")}
    assert outside == {"dpmcmc/fit/local.py"}


def test_only_the_ledger_names_the_ledgers_tables() -> None:
    named = set()
    for name, tree in sources(*SHIPPED):
        for node in ast.walk(tree):
            word = getattr(node, "id", "") or getattr(node, "attr", "") or getattr(node, "name", "")
            if isinstance(word, str) and re.fullmatch(r"Ledger\w*Row", word):
                named.add(name)
    assert {n for n in named if not n.startswith("app/ledger/")} == {"app/storage/rows.py"}


def test_nobody_below_the_use_cases_commits() -> None:
    below = sources("app/ledger", "dpmcmc")
    found = [
        f"{name}:{node.lineno}"
        for name, tree in below
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in ("commit", "rollback")
    ]
    assert not found


def test_no_error_text_is_put_into_a_string_by_the_api() -> None:
    """`f"{exc}"` and `str(exc)` of a caught exception can carry a row's value to a caller."""
    found = []
    for name, tree in sources("app/api", "app/services", "worker"):
        for handler in ast.walk(tree):
            if not (isinstance(handler, ast.ExceptHandler) and handler.name):
                continue
            if getattr(handler.type, "id", "") in ("KeyFileError", "NewerSchemaError"):
                continue  # told where a process starts
            for node in ast.walk(handler):
                formatted = isinstance(node, ast.FormattedValue) and node.value
                called = (
                    isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Name)
                    and node.func.id in ("str", "repr")
                    and node.args
                    and node.args[0]
                )
                value = formatted or called
                if isinstance(value, ast.Name) and value.id == handler.name:
                    found.append(f"{name}:{node.lineno}")
    assert not found


def test_importing_the_api_loads_no_compiler_and_no_plotting() -> None:
    """Numba, SciPy's statistics, ArviZ and matplotlib cost seconds and belong to the worker."""
    heavy = ("numba", "scipy.stats", "arviz", "arviz_stats", "matplotlib", "xarray", "pandas")
    script = f"import sys, app.main; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.strip() == "[]"


def test_every_setting_is_documented() -> None:
    from app.settings import table

    assert table() in (ROOT / "docs" / "settings.md").read_text()


def test_links_between_documents_lead_somewhere() -> None:
    broken = [
        f"{path.name}: {target}"
        for path, text in text_files()
        if path.suffix == ".md"
        for target in re.findall(r"\]\(([^)#\s]+)\)", text)
        if "://" not in target and not (path.parent / target).exists()
    ]
    assert not broken


def cited() -> set[tuple[str, str]]:
    """First author and year of the works that the core and its proofs name by these."""
    found = set()
    for path in [*(ROOT / "dpmcmc").rglob("*.py"), *(ROOT / "docs/proofs").glob("*.md")]:
        text = " ".join(path.read_text(encoding="utf-8").split())
        found |= set(re.findall(CITATION, text))
    return {(author, year) for author, year in found if author not in JOURNALS}


def test_every_work_that_is_cited_is_in_the_bibliography() -> None:
    entries = (ROOT / "docs" / "bibliography.md").read_text()
    works = cited()
    assert {("Karney", "2016"), ("Dong", "2022"), ("Heikkilä", "2019")} <= works
    missing = [
        f"{author} {year}"
        for author, year in sorted(works)
        if not re.search(rf"^- {author}\b.*\({year}\)", entries, re.M)
    ]
    assert not missing
    for short in ("thesis A", "thesis B", "the blog", "CKS", "WBK19"):
        assert f"**{short}**" in entries


def test_vendored_files_lie_beside_their_licence() -> None:
    vendor = ROOT / "app" / "web" / "static" / "vendor"
    folders = [folder for folder in vendor.iterdir() if folder.is_dir()]
    assert folders
    assert not [f.name for f in folders if not any(p.stem == "LICENSE" for p in f.iterdir())]


def test_pages_name_no_foreign_host() -> None:
    web = ROOT / "app" / "web"
    places = ("templates/*.html", "static/*.js", "static/*.css")
    own = [path for place in places for path in web.glob(place)]
    assert {path.suffix for path in own} == {".html", ".js", ".css"}
    assert not [path.name for path in own if URL.search(path.read_text())]


def test_demo_data_keeps_to_its_metadata() -> None:
    import csv
    import gzip

    data = ROOT / "experiments" / "data"
    declared = json.loads((data / "randhie.json").read_text())
    columns, unit = declared["columns"], declared["privacy_unit"]
    with gzip.open(data / "randhie.csv.gz", "rt") as lines:
        rows = list(csv.DictReader(lines))
    assert len(rows) == 20_190
    assert list(rows[0]) == [unit["column"], *(column["name"] for column in columns)]
    for column in columns:
        values = {row[column["name"]] for row in rows}
        if "categories" in column:
            assert values <= set(column["categories"])
        else:
            inside = [
                column["lower"] <= float(row[column["name"]]) <= column["upper"] for row in rows
            ]
            assert sum(inside) > 0.9 * len(rows)
