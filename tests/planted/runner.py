"""Plants one bug at a time in a copy of the tree and looks whether the named test sees it."""

import ast
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar
from xml.etree import ElementTree

T = TypeVar("T")
ROOT = Path(__file__).resolve().parent.parent.parent
AT_ONCE = 2
SECONDS = 300  # that a run of one test may take; one that hangs has seen nothing
ASSERTION = re.compile(r"assert |AssertionError|Failed: ")
FAILED, PASSED = 1, 0  # exit codes of pytest
ALONE = {
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


@dataclass(frozen=True, slots=True)
class Bug:
    """A mutation of an expression, or of statements that follow each other.

    within: the function or class of the file that holds it, qualified; all of the file where empty.
    old: its source, however it is laid out, which occurs once there; new: what takes its place.
    caught_by: the pytest node that must fail with it, by an assertion; or, where the first guard is
    gone and a second one holds, by this error. compiled: whether that test runs with compiled
    kernels, from an empty cache; otherwise the same sources run as plain Python.
    """

    name: str
    file: str
    within: str
    old: str
    new: str
    caught_by: str
    compiled: bool = False
    error: str = ""


@dataclass(frozen=True, slots=True)
class Case:
    """What pytest says of one test. wrong: the first line of its failure, empty if it passed."""

    name: str
    wrong: str
    skipped: bool


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a bug. survived: why it counts as not caught, empty if it was caught."""

    bug: Bug
    survived: str
    seconds: float


class PlantError(Exception):
    """The list does not suit the tree, or the tree without any bug does not pass."""


def planted(source: str, bug: Bug) -> str:
    """Return the source with the bug in it, laid out anew. Raises PlantError where old is not there
    once.
    """
    tree = ast.parse(source)
    part = _scope(tree, bug)
    old, new = ast.parse(bug.old).body, ast.parse(bug.new).body
    if isinstance(old[0], ast.Expr) and isinstance(new[0], ast.Expr):
        swap = _Swap(old[0].value, new[0].value)
        swap.visit(part)
        count = swap.count
    else:
        count = _replace_statements(part, old, new)
    if count != 1:
        place = f"{bug.within} of {bug.file}"
        raise PlantError(f"{bug.name}: {bug.old!r} occurs {count} times in {place}")
    return ast.unparse(tree)


def _scope(tree: ast.Module, bug: Bug) -> ast.AST:
    """Return the function or class that a bug is in."""
    found: ast.AST = tree
    for name in bug.within.split(".") if bug.within else ():
        named = [node for node in ast.walk(found) if getattr(node, "name", "") == name]
        if len(named) != 1:
            raise PlantError(f"{bug.name}: {len(named)} of {bug.within} occur in {bug.file}")
        found = named[0]
    return found


class _Swap(ast.NodeTransformer):
    """Puts an expression in the place of another, as often as that occurs."""

    def __init__(self, old: ast.expr, new: ast.expr) -> None:
        self.count, self._old, self._new = 0, ast.dump(old), new

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.expr) and ast.dump(node) == self._old:
            self.count += 1
            return self._new
        return self.generic_visit(node)


def _replace_statements(part: ast.AST, old: list[ast.stmt], new: list[ast.stmt]) -> int:
    """Put new in the place of old, which follow each other. Return how often they occur."""
    wanted = [ast.dump(one) for one in old]
    bodies = [
        value
        for node in ast.walk(part)
        for _, value in ast.iter_fields(node)
        if isinstance(value, list) and value and isinstance(value[0], ast.stmt)
    ]
    places = [
        (body, at)
        for body in bodies
        for at in range(len(body) - len(old) + 1)
        if [ast.dump(one) for one in body[at : at + len(old)]] == wanted
    ]
    for body, at in places:
        body[at : at + len(old)] = new
    return len(places)


def copy_tree(folder: Path) -> Path:
    """Copy what git knows, or would add, to a folder."""
    command = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout
    for name in sorted({part for part in listed.decode().split("\0") if part}):
        if (ROOT / name).is_file():  # else deleted, and git has not been told
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


class Preloaded:
    """A process of `preloaded`, from which runs of pytest are forked, one after the other."""

    def __init__(self, compiled: bool) -> None:
        self.compiled = compiled
        environment = {**os.environ, **ALONE, "NUMBA_DISABLE_JIT": "0" if compiled else "1"}
        for name in ("PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX"):
            environment.pop(name, None)
        self._process = subprocess.Popen(
            (sys.executable, "-W", "ignore", str(Path(__file__).with_name("preloaded.py"))),
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> "Preloaded":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def pytest(self, tree: Path, tests: list[str]) -> tuple[int, list[Case]]:
        """Run tests in a tree with an empty kernel cache. Return the exit code and what they said.

        Raises PlantError where pytest came to no end, subprocess.TimeoutExpired where it is late.
        """
        report = tree / "report.xml"
        words = ["-q", "-p", "pytest_timeout", "-p", "no:cacheprovider", f"--junitxml={report}"]
        if not self.compiled:  # machine code says nothing of numbers that overflow
            words += ["-W", "ignore::RuntimeWarning"]
        own = {"PYTHONPATH": str(tree), "NUMBA_CACHE_DIR": str(tree / "var" / "empty")}
        asked = {"tree": str(tree), "words": [*words, *tests], "environment": own}
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(asked | {"seconds": SECONDS}) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().strip()
        if answer == "late":
            raise subprocess.TimeoutExpired("pytest", SECONDS)
        if answer not in (str(PASSED), str(FAILED)):
            raise PlantError((tree / "said.txt").read_text()[-8000:] or "nothing was said")
        return int(answer), cases(report)


def cases(report: Path) -> list[Case]:
    """Read what pytest wrote."""
    found = []
    for case in ElementTree.parse(report).iter("testcase"):
        wrong = [part for part in case if part.tag in ("failure", "error")]
        said = wrong[0].get("message", "").splitlines() if wrong else [""]
        name = f"{case.get('classname')}::{case.get('name')}"
        found.append(
            Case(
                name,
                f"{wrong[0].tag}: {said[0]}" if wrong else "",
                case.find("skipped") is not None,
            )
        )
    return found


def is_case_of(case: Case, test: str) -> bool:
    """Whether this is the named test, or the named test with some parameters."""
    file, _, name = test.partition("::")
    whole = f"{file.removesuffix('.py').replace('/', '.')}::{name}"
    return case.name == whole or case.name.startswith(whole + "[")


def check_sound(runs: Preloaded, tree: Path, bugs: list[Bug]) -> None:
    """See that the tree passes all named tests, none skipped. Raises PlantError."""
    tests = sorted({bug.caught_by for bug in bugs if bug.compiled == runs.compiled})
    if not tests:
        return
    code, found = runs.pytest(tree, tests)
    bad = [
        f"{case.name}: {case.wrong or 'skipped'}" for case in found if case.wrong or case.skipped
    ]
    bad += [f"{test}: not there" for test in tests if not any(is_case_of(c, test) for c in found)]
    if code != PASSED or bad:
        raise PlantError("\n".join(["without a bug the named tests do not pass", *bad]))


def tried(runs: Preloaded, pristine: Path, folder: Path, bug: Bug) -> Verdict:
    """Plant a bug in a copy of the tree and run its test."""
    began = time.monotonic()
    tree = folder / bug.name.replace(" ", "-")
    unlike = shutil.ignore_patterns("var", "report.xml", "said.txt")
    shutil.copytree(pristine, tree, ignore=unlike, copy_function=os.link)
    file = tree / bug.file
    changed = planted(file.read_text(), bug)
    file.unlink()  # all other trees have it too
    file.write_text(changed)
    Path(cache_from_source(str(file))).unlink(missing_ok=True)  # it may look as old as the source
    try:
        survived = survival(bug, *runs.pytest(tree, [bug.caught_by]))
    except subprocess.TimeoutExpired:
        survived = f"its test did not end within {SECONDS} seconds"
    except PlantError as error:
        survived = f"pytest said nothing: {error}"
    shutil.rmtree(tree)
    return Verdict(bug, survived, time.monotonic() - began)


def survival(bug: Bug, code: int, found: list[Case]) -> str:
    """Return why a run did not catch the bug, or nothing: the named test failed by an assertion."""
    wrong = [case for case in found if case.wrong]
    if code != FAILED or not wrong:
        return f"pytest ended with {code}"
    for case in wrong:
        kind, _, said = case.wrong.partition(": ")
        expected = said.startswith(bug.error) if bug.error else ASSERTION.match(said)
        if kind != "failure" or not expected or not is_case_of(case, bug.caught_by):
            return f"not by an assertion of the named test: {case.name}: {case.wrong}"
    return ""


def run_all(bugs: list[Bug], folder: Path, tell: Callable[[Verdict], None]) -> list[Verdict]:
    """Try all bugs, AT_ONCE at a time, and tell of each. Raises PlantError before the first.

    Copies are made of a tree that was tried, so that Python has compiled what no bug is in.
    """
    plain, compiled = copy_tree(folder / "plain"), folder / "compiled"
    for bug in bugs:
        planted((plain / bug.file).read_text(), bug)
    shutil.copytree(plain, compiled)

    with contextlib.ExitStack() as stack, ThreadPoolExecutor(AT_ONCE) as pool:
        idle = {compiled: SimpleQueue[Preloaded]() for compiled in (False, True)}
        for kind, some in idle.items():
            for _ in range(AT_ONCE):
                some.put(stack.enter_context(Preloaded(kind)))

        def alone(work: Callable[..., T], kind: bool, *given: Any) -> T:
            runs = idle[kind].get()
            try:
                return work(runs, *given)
            finally:
                idle[kind].put(runs)

        def try_one(bug: Bug) -> Verdict:
            verdict = alone(tried, bug.compiled, plain, folder, bug)
            tell(verdict)
            return verdict

        sound = [
            pool.submit(alone, check_sound, kind, tree, bugs)
            for kind, tree in ((False, plain), (True, compiled))
        ]
        for one in sound:
            one.result()
        return list(pool.map(try_one, sorted(bugs, key=_longest_first)))


def _longest_first(bug: Bug) -> int:
    """Order bugs: first those whose test waits for what never comes, is compiled, or replays."""
    waits = bug.caught_by.startswith(("tests/worker/", "tests/api/"))
    return -4 * waits - 2 * bug.compiled - ("/audit/" in bug.caught_by)
