"""What `pip install .` brings: the library, which needs few packages, and nothing beside it."""

import json
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

import dpmcmc

ROOT = Path(__file__).resolve().parent.parent
SHIPPED = ("dpmcmc", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE")
HELD = {"dpmcmc"}
BESIDE = {
    "app",
    "worker",
    "migrations",
    "tests",
    "clients",
}  # in a checkout: no names for site-packages
MOST_PACKAGES = 22
SDIST = "import sys; from setuptools.build_meta import build_sdist; build_sdist(sys.argv[1])"
RELEASE = """
import importlib.util, json
import numpy as np
import dpmcmc
from dpmcmc import BinaryColumn, ModelSpec, NumberColumn, Schema, sample

random = np.random.default_rng(1)
dose = random.uniform(0, 10, 1000)
cured = np.where(random.random(1000) < 1 / (1 + np.exp(2 - 0.5 * dose)), "yes", "no")
columns = (
    NumberColumn(name="dose", lower=0, upper=10),
    BinaryColumn(name="cured", categories=("no", "yes")),
)
result = sample(
    {"dose": dose, "cured": cured},
    schema=Schema(columns=columns, rows=1000),
    model=ModelSpec(family="logistic", formula="cured ~ dose"),
    epsilon=2.0,
    delta=1e-6,
    sampler="noisy_quadratic",
)
print(json.dumps({
    "from": dpmcmc.__file__,
    "version": dpmcmc.__version__,
    "epsilon": result.cost.epsilon,
    "names": list(result.to_datatree()["posterior"].data_vars),
    "rows": len(result.summary()),
    "found": [n for n in ("app", "worker", "migrations", "tests", "fastapi", "sqlalchemy")
              if importlib.util.find_spec(n)],
}))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the sdist of a copy, with the environment's own setuptools, offline."""
    source, into = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in SHIPPED:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, source / name)
    for other in sorted(BESIDE):  # they would be taken along if they were asked for
        (source / other).mkdir()
        (source / other / "__init__.py").touch()
        (source / other / "test_nothing.py").touch()  # setuptools packs tests/test*.py unasked
    sdist = [sys.executable, "-c", SDIST, into]
    subprocess.run(sdist, cwd=source, check=True, timeout=240, capture_output=True)
    (packed,) = into.glob("*.tar.gz")
    with tarfile.open(packed) as content:
        folders = {Path(name).parts[1] for name in content.getnames() if "/" in name}
    assert not folders & BESIDE
    pip("wheel", "--no-build-isolation", "--no-deps", "--no-index", "-w", into, packed)
    (built,) = into.glob("*.whl")
    return built


def pip(*words: object) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", *map(str, words)]
    subprocess.run(command, check=True, timeout=240, capture_output=True)


def needed(item: Requirement) -> Iterator[Distribution]:
    """What a requirement of the core installs, here: the distribution, and what that requires."""
    found = distribution(item.name)
    assert found.version in item.specifier
    yield found
    for inner in map(Requirement, found.requires or ()):
        extras = item.extras or {""}
        if inner.marker is None or any(inner.marker.evaluate({"extra": e}) for e in extras):
            yield from needed(inner)


def required(wheel: Path) -> dict[str, Distribution]:
    """All that the wheel itself says it needs, without extras, by name."""
    with zipfile.ZipFile(wheel) as content:
        (metadata,) = (name for name in content.namelist() if name.endswith("/METADATA"))
        lines = content.read(metadata).decode().splitlines()
    wanted = [line.partition(": ")[2] for line in lines if line.startswith("Requires-Dist: ")]
    core = [item for item in map(Requirement, wanted) if item.marker is None]
    return {found.name: found for item in core for found in needed(item)}


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment of the wheel and what it requires, linked from that of the tests."""
    home = tmp_path_factory.mktemp("clean") / "venv"
    venv.create(home, symlinks=True)
    (site,) = (home / "lib").glob("python3*/site-packages")
    for found in required(wheel).values():
        for top in {file.parts[0] for file in found.files or () if file.parts[0] != ".."}:
            (site / top).symlink_to(Path(str(found.locate_file(top))))
    pip("--python", home / "bin" / "python", "install", "--no-deps", "--no-index", wheel)
    return home / "bin" / "python"


def test_the_wheel_holds_the_library_and_all_its_files(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as content:
        names = content.namelist()
    folders = {name.split("/")[0] for name in names}
    assert {f for f in folders if not f.endswith(".dist-info")} == HELD
    shipped = {
        str(path.relative_to(ROOT))
        for path in (p for name in HELD for p in (ROOT / name).rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {name for name in names if name.split("/")[0] in HELD} == shipped


def test_the_core_needs_few_packages(wheel: Path) -> None:
    names = {name.lower() for name in required(wheel)}
    assert {"numpy", "scipy", "numba", "cryptography"} <= names
    assert len(names) <= MOST_PACKAGES


@pytest.mark.longer
def test_an_installed_wheel_samples_with_nothing_else_at_hand(python: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [python, "-I", "-c", RELEASE],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"NUMBA_CACHE_DIR": str(tmp_path / "kernels"), "HOME": str(tmp_path)},
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert Path(told["from"]).is_relative_to(python.parent.parent)
    assert told["version"] == dpmcmc.__version__
    assert 1.9 < told["epsilon"] <= 2.0
    assert told["names"] == ["Intercept", "dose"]
    assert told["rows"] == 2
    assert told["found"] == []


def test_the_command_says_what_it_needs(python: Path) -> None:
    command = python.parent / "dpmcmc"
    done = subprocess.run([command], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "pip install 'dpmcmc[client]'" in done.stderr
    assert "Traceback" not in done.stderr
    told = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
    assert told.stdout == f"dpmcmc {dpmcmc.__version__}\n"


def test_one_version_is_told_everywhere() -> None:
    version = dpmcmc.__version__
    released = re.findall(r"^## (\d\S*)", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert released[0] == version
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    images = {one["image"] for one in compose["services"].values()}
    images |= {
        image
        for path in (ROOT / "deploy" / "kubernetes").glob("*.yaml")
        for image in re.findall(r"image: (\S+)", path.read_text())
    }
    assert {i for i in images if i.startswith("dpmcmc:")} == {f"dpmcmc:{version}"}
    cluster = yaml.safe_load((ROOT / "deploy/kubernetes/kustomization.yaml").read_text())
    assert {str(one["newTag"]) for one in cluster["images"]} == {version}
    chart = yaml.safe_load((ROOT / "deploy/helm/Chart.yaml").read_text())
    assert {chart["version"], chart["appVersion"]} == {version}
    assert "version" in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dynamic"]
