import copy
import json
import pickle
import sys
import threading
from contextlib import suppress

import pytest

from dpmcmc.base.private import Permit, PermitError, Private, Released

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


def test_a_permit_opens_once(private):
    permit = Permit(subject="d1", event_digest="e")
    with pytest.raises(PermitError):
        Private([SECRET], subject="d2").open(permit)  # a refusal does not use it up
    private.open(permit)
    for rows in (private, Private([SECRET], subject="d1")):
        with pytest.raises(PermitError, match="used before"):
            rows.open(permit)


def test_of_many_threads_one_opens_with_a_permit(private):
    sys_interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    opened = []

    def look(permit):
        with suppress(PermitError):
            opened.append(private.open(permit))

    try:
        for _ in range(50):
            permit = Permit(subject="d1", event_digest="e")
            threads = [threading.Thread(target=look, args=(permit,)) for _ in range(8)]
            for one in threads:
                one.start()
            for one in threads:
                one.join()
    finally:
        sys.setswitchinterval(sys_interval)
    assert len(opened) == 50


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_permit_has_no_copies(copied):
    with pytest.raises(TypeError):
        copied(Permit(subject="d1", event_digest="e"))


def test_a_permit_is_not_changed_to_another():
    permit = Permit(subject="d1", event_digest="e")
    for name in ("subject", "event_digest"):
        with pytest.raises(AttributeError):
            setattr(permit, name, "other")
    assert not hasattr(permit, "__dict__")


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
