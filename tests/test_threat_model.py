"""The threat model names tests that exist, and a test for every promise."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "docs" / "threat-model.md").read_text()


def existing() -> set[str]:
    return {
        node.name
        for path in (ROOT / "tests").rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def test_every_test_that_is_named_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", TEXT))
    assert len(named) > 50
    assert not named - existing()


def test_every_promise_names_a_test() -> None:
    promises = TEXT.split("## Promises", 1)[1].split("## What is not", 1)[0]
    rows = [line for line in promises.splitlines() if re.match(r"\| [^-]", line)]
    rows = [line for line in rows if not line.startswith("| promise |")]
    assert len(rows) > 25
    assert not [line for line in rows if not re.search(r"`test_\w+`", line)]
