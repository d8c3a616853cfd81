"""The list of planted bugs suits the tree, and the runner counts nothing as caught that is not."""

import ast

import pytest

from tests.planted.bugs import BUGS
from tests.planted.runner import (
    ROOT,
    Bug,
    PlantError,
    Preloaded,
    check_sound,
    copy_tree,
    planted,
    tried,
)

FILE = "dpmcmc/base/private.py"
WITHIN, TEST_OF_IT = "Private.open", "permit.subject != self.__subject"
TEST = "tests/privacy/test_types.py::test_a_permit_for_another_dataset_opens_nothing"


def bug(new, caught_by=TEST, old=TEST_OF_IT, within=WITHIN, **others):
    return Bug("some bug", FILE, within, old, new, caught_by, **others)


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    return copy_tree(tmp_path_factory.mktemp("planted") / "tree")


@pytest.fixture(scope="module")
def runs():
    with Preloaded(compiled=False) as process:
        yield process


@pytest.mark.longer
@pytest.mark.parametrize("one", BUGS, ids=lambda one: one.name)
def test_every_bug_can_be_planted_and_names_a_test(one):
    source = (ROOT / one.file).read_text()
    changed = planted(source, one)
    assert changed != ast.unparse(ast.parse(source))
    ast.parse(changed)
    file, _, name = one.caught_by.partition("::")
    functions = {
        node.name for node in ast.parse((ROOT / file).read_text()).body if hasattr(node, "name")
    }
    assert name.partition("[")[0] in functions


def test_bugs_have_names_of_their_own():
    assert len({one.name for one in BUGS}) == len(BUGS) >= 30


@pytest.mark.parametrize(
    ("old", "within"),
    [
        ("permit.subject is gone", WITHIN),
        (TEST_OF_IT, "Private.__repr__"),
        (TEST_OF_IT, "Private.closed"),
        ("T", ""),
        ("self.__subject = subject\nself.__value = value", "Private"),
        ("self", WITHIN),
    ],
)
def test_code_that_was_moved_or_doubled_is_noticed(old, within):
    with pytest.raises(PlantError, match="occur"):
        planted((ROOT / FILE).read_text(), bug("nothing", old=old, within=within))


def test_a_bug_is_found_however_its_code_is_laid_out():
    source = (ROOT / FILE).read_text()
    spread = source.replace(TEST_OF_IT, "(  # of another\n permit.subject\n!=self.__subject)")
    assert spread != source
    assert planted(spread, bug("False")) == planted(source, bug("False"))


@pytest.mark.longer
@pytest.mark.parametrize(
    ("made", "survived"),
    [
        (bug("permit.subject is None"), ""),
        (bug("self.__subject != permit.subject"), "ended with 0"),
        (bug("nobody"), "not by an assertion"),
        (bug("permit.subject is None", error="ValueError"), "not by an assertion"),
        (bug("permit.subject is None", TEST + "_ever"), "said nothing"),
        (bug("T = nothing", old='T = TypeVar("T")', within=""), "said nothing"),
    ],
)
def test_only_a_named_test_that_fails_as_it_should_catches_a_bug(
    runs, tree, tmp_path, made, survived
):
    found = tried(runs, tree, tmp_path, made).survived
    assert survived in found
    assert bool(survived) == bool(found)


def test_a_tree_that_fails_a_named_test_without_a_bug_is_refused(runs, tree):
    with pytest.raises(PlantError, match=r"do not pass|not found"):
        check_sound(runs, tree, [bug("nobody", TEST + "_ever")])
