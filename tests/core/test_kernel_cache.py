"""Machine code on disk belongs to the sources that it was made of."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import pytest

import dpmcmc
from dpmcmc.kernels import compiled as kernels

PACKAGE = Path(dpmcmc.__file__).parent
SOURCES = [path.relative_to(PACKAGE).as_posix() for path in sorted(PACKAGE.rglob("*.py"))]
COMPILED = [name for name in SOURCES if name.startswith("kernels/compiled/")]
compiled = pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT), reason="the kernels need the compiler"
)
SCRIPT = """
import numpy as np
from dpmcmc.formula.design import make_design
from dpmcmc.kernels.compiled.position_facts import log_prior_ratios
from dpmcmc.families import MODELS
from dpmcmc.inputs.options import DpPenaltyOptions
from dpmcmc.inputs.schema import NumberColumn, Schema
from dpmcmc.inputs.spec import JobSpec, ModelSpec, PrivacySpec
schema = Schema(columns=(NumberColumn(name="y", lower=0.0, upper=1.0),), rows=3)
model = ModelSpec(family="poisson", formula="y ~ 1")
spec = JobSpec(model=model, sampler=DpPenaltyOptions(), privacy=PrivacySpec(delta=1e-6, epsilon=1))
form = MODELS["poisson"].form(make_design(schema, model.formula), spec)
print(float(log_prior_ratios(form.public, np.zeros((1, 1)), np.ones((1, 1)))[0]))
print(sum(log_prior_ratios.stats.cache_hits.values()))
"""


@pytest.fixture
def copied(tmp_path):
    """A copy of the package, whose sources may be changed."""
    shutil.copytree(PACKAGE, tmp_path / "dpmcmc", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "dpmcmc"


@pytest.mark.parametrize(
    "name", [*COMPILED, "kernels/arithmetic/rules.py", "kernels/arithmetic/rounding.py"]
)
def test_one_character_of_a_source_gives_another_key(copied, name):
    before = kernels.key_of(copied)
    assert before == kernels.key_of(PACKAGE)
    path = copied / name
    path.write_text(path.read_text() + "#")
    assert kernels.key_of(copied) != before


@compiled
def test_every_source_of_a_compiled_function_is_in_the_key(repository):
    """Whatever is inlined, from whichever file."""
    from dpmcmc.kernels.compiled import batches, hmc_steps  # which import all others

    found = set()
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith("dpmcmc."):
            for value in vars(module).values():
                if isinstance(value, numba.core.registry.CPUDispatcher):
                    found.add(Path(value.py_func.__code__.co_filename).resolve())
    names = {path.relative_to(PACKAGE).as_posix() for path in found}
    assert {"kernels/arithmetic/rules.py", "kernels/arithmetic/rounding.py"} < names
    assert names <= set(SOURCES)
    assert batches.__file__
    assert hmc_steps.__file__


def test_another_version_of_the_compiler_gives_another_key(monkeypatch):
    before = kernels.key_of(PACKAGE)
    monkeypatch.setattr(numba, "__version__", "0")
    assert kernels.key_of(PACKAGE) != before


def ran(package, cache):
    """(what the kernel gave, how often it came from the cache)."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=package.parent,
        env={**os.environ, "NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(package.parent)},
        capture_output=True,
        text=True,
        check=True,
    )
    value, hits = done.stdout.split()
    return float(value), int(hits)


@pytest.mark.slow
@compiled
def test_a_change_of_an_inlined_function_is_compiled_anew(copied, tmp_path):
    """Of a file that is not the kernel's own, which Numba does not look at."""
    cache = tmp_path / "cache"
    first, hits = ran(copied, cache)
    assert hits == 0
    assert ran(copied, cache) == (first, 1)
    path = copied / "kernels" / "arithmetic" / "public.py"
    text = path.read_text()
    assert text.count("def log_prior_ratio(") == 1
    head, tail = text.split("def log_prior_ratio(")
    path.write_text(f"{head}def log_prior_ratio({tail.replace('return ', 'return 3.0 * ', 1)}")
    changed, hits = ran(copied, cache)
    assert hits == 0
    assert changed == pytest.approx(3.0 * first)


def test_old_versions_are_forgotten_but_for_a_few(monkeypatch, tmp_path):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    for age in range(8):
        old = tmp_path / f"{age:032x}"
        old.mkdir()
        os.utime(old, (1e9 - age, 1e9 - age))
    (tmp_path / "something else").mkdir()
    mine = kernels.cache_folder()
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {
        mine.name,
        "something else",
        *(f"{age:032x}" for age in range(kernels.CACHES_KEPT)),
    }


def test_a_folder_that_cannot_be_written_to_does_no_harm(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "file" / "below"))
    folder = kernels.cache_folder()
    assert folder.is_dir()
    folder.rmdir()


ONE_KERNEL = """
import resource, sys
from dpmcmc.kernels.compiled.maths import kernel
@kernel
def doubled(x):
    return 2.0 * x
if "full" in sys.argv:
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
print(doubled(21.0), sum(doubled.stats.cache_hits.values()))
"""


def called(folder, *words):
    """What a kernel of a file in this folder gave, and how often it came from the cache there."""
    path = folder / "one_kernel.py"
    path.write_text(ONE_KERNEL)
    ran = subprocess.run(
        [sys.executable, str(path), *words],
        env={**os.environ, "NUMBA_CACHE_DIR": str(folder), "PYTHONPATH": str(PACKAGE.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.split()


@compiled
def test_a_full_disk_does_not_end_the_call_that_compiles(tmp_path):
    """It may be one that has paid already."""
    assert called(tmp_path, "full") == ["42.0", "0"]
    assert called(tmp_path) == ["42.0", "0"]
    assert called(tmp_path, "full") == ["42.0", "1"]


@pytest.mark.longer
@compiled
@pytest.mark.parametrize("kind", ["nbi", "nbc"])
@pytest.mark.parametrize("left", [b"", b"not what was written", None])
def test_a_damaged_file_is_made_again(tmp_path, kind, left):
    assert called(tmp_path) == ["42.0", "0"]
    (path,) = tmp_path.rglob(f"*.{kind}")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2] if left is None else left)
    assert called(tmp_path) == ["42.0", "0"]
    assert called(tmp_path) == ["42.0", "1"]
