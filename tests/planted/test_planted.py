"""The list of planted bugs suits the tree, and the runner counts nothing as caught that is not."""

import ast

import pytest

from tests.planted.bugs import BUGS
from tests.planted.runner import ROOT, Bug, PlantError, check_sound, copy_tree, planted, tried

FILE = "dpmcmc/privacy/types.py"
LINE = "if permit.subject != self.__subject:"
TEST = "tests/privacy/test_types.py::test_a_permit_for_another_dataset_opens_nothing"


def bug(new, caught_by=TEST, old=LINE, **others):
    return Bug("some bug", FILE, old, new, caught_by, **others)


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    return copy_tree(tmp_path_factory.mktemp("planted") / "tree")


@pytest.mark.parametrize("one", BUGS, ids=lambda one: one.name)
def test_every_bug_can_be_planted_and_names_a_test(one):
    changed = planted((ROOT / one.file).read_text(), one)
    assert changed != (ROOT / one.file).read_text()
    ast.parse(changed)
    file, _, name = one.caught_by.partition("::")
    functions = {
        node.name for node in ast.parse((ROOT / file).read_text()).body if hasattr(node, "name")
    }
    assert name.partition("[")[0] in functions


def test_bugs_have_names_of_their_own():
    assert len({one.name for one in BUGS}) == len(BUGS) >= 30


def test_a_line_that_was_moved_or_doubled_is_noticed():
    for old in ("if permit.subject is gone:", "return"):
        with pytest.raises(PlantError, match="occurs"):
            planted((ROOT / FILE).read_text(), bug("pass", old=old))


@pytest.mark.parametrize(
    ("made", "survived"),
    [
        (bug("if permit.subject is None:"), ""),
        (bug(LINE + "  # the same"), "ended with 0"),
        (bug("if nobody:"), "not by an assertion"),
        (bug("if permit.subject is None:", error="ValueError"), "not by an assertion"),
        (bug("if permit.subject is None:", TEST + "_ever"), "said nothing"),
        (bug("if:"), "said nothing"),
    ],
)
def test_only_a_named_test_that_fails_as_it_should_catches_a_bug(tree, tmp_path, made, survived):
    found = tried(tree, tmp_path, made).survived
    assert survived in found
    assert bool(survived) == bool(found)


def test_a_tree_that_fails_a_named_test_without_a_bug_is_refused(tree, tmp_path):
    with pytest.raises(PlantError, match=r"do not pass|not found"):
        check_sound(tree, [bug("pass", TEST + "_ever")], False)
