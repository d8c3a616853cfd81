import copy
import json
import pickle

import pytest

from dpmcmc.privacy.types import Permit, PermitError, Private, Released

SECRET = "13.73-secret"


@pytest.fixture
def private():
    return Private([SECRET], subject="d1")


def test_rows_open_with_a_permit_for_their_dataset(private):
    assert private.open(Permit(subject="d1", event_digest="e")) == [SECRET]


def test_a_permit_for_another_dataset_opens_nothing(private):
    with pytest.raises(PermitError) as caught:
        private.open(Permit(subject="d2", event_digest="e"))
    assert SECRET not in str(caught.value)


def test_private_shows_nothing_of_itself(private):
    assert SECRET not in repr(private) + str(private)
    assert not hasattr(private, "__dict__")


@pytest.mark.parametrize(
    "look",
    [
        bool,
        len,
        iter,
        hash,
        json.dumps,
        pickle.dumps,
        copy.copy,
        copy.deepcopy,
        lambda p: p[0],
        lambda p: p == p,
        lambda p: p != 0,
        lambda p: p < p,
        lambda p: f"{p:s}",
        lambda p: f"{p}",
        lambda p: SECRET in p,
        lambda p: p.__array__(),
    ],
)
def test_private_refuses_every_other_way_in(private, look):
    with pytest.raises(TypeError) as caught:
        look(private)
    assert SECRET not in str(caught.value)


def test_a_released_value_may_be_shown():
    assert repr(Released(3.0)) == "Released(value=3.0)"
    assert Released(3.0) == Released(3.0)
