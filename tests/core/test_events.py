"""The vocabulary is closed, states its relation, and has one canonical form."""

import json

import pytest
from pydantic import TypeAdapter

from dpmcmc.base.private import Neighbouring
from dpmcmc.privacy.event_json import as_dict, digest, from_dict
from dpmcmc.privacy.events import (
    MAX_DEPTH,
    Barker,
    Compose,
    Event,
    EventError,
    Gaussian,
    Laplace,
    Parallel,
    PoissonSampled,
    PureEpsilon,
    Repeat,
    SmoothLaplace,
    WithoutReplacement,
)

ADD = Neighbouring.ADD_REMOVE
ONE_OF_EACH: list[Event] = [
    Gaussian(2.0),
    Laplace(3.0),
    PureEpsilon(0.5),
    SmoothLaplace(0.5, 1e-6),
    WithoutReplacement(Gaussian(2.0), 10, 100),
    PoissonSampled(Gaussian(2.0, ADD), 0.01),
    Barker(100, 1000),
    Repeat(Gaussian(2.0), 7),
    Compose((Gaussian(2.0), Laplace(3.0))),
    Parallel((Gaussian(2.0), Laplace(3.0))),
]


@pytest.mark.parametrize("event", ONE_OF_EACH, ids=lambda event: event.kind)
def test_an_event_survives_json_by_itself_and_by_the_boundary(event: Event) -> None:
    text = json.dumps(as_dict(event))
    assert from_dict(json.loads(text)) == event
    read = TypeAdapter(Event).validate_json(text)
    assert read == event
    assert digest(read) == digest(event)


def test_digests_differ_where_events_do() -> None:
    assert len({digest(event) for event in ONE_OF_EACH}) == len(ONE_OF_EACH)
    assert digest(Gaussian(2)) == digest(Gaussian(2.0)) != digest(Gaussian(2.0000000000000004))
    assert digest(Gaussian(2.0)) != digest(Gaussian(2.0, ADD))


def test_every_event_states_its_relation() -> None:
    assert [event.neighbouring for event in ONE_OF_EACH].count(ADD) == 1
    assert Repeat(ONE_OF_EACH[5], 3).neighbouring == ADD


def test_events_of_different_relations_do_not_compose() -> None:
    with pytest.raises(EventError, match="relations"):
        Compose((Gaussian(2.0), Gaussian(2.0, ADD)))
    with pytest.raises(EventError, match="replace_one"):
        Parallel((Gaussian(2.0, ADD), Gaussian(2.0, ADD)))
    with pytest.raises(EventError, match="replace_one"):
        WithoutReplacement(Gaussian(2.0, ADD), 1, 10)
    with pytest.raises(EventError, match="add_remove"):
        PoissonSampled(Gaussian(2.0), 0.1)


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf"), 1e200, True, "2", None])
def test_impossible_numbers_are_refused(value: object) -> None:
    for kind in (Gaussian, Laplace, PureEpsilon):
        with pytest.raises(EventError):
            kind(value)  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [0, -1, 1.5, True, "3", 10**18 + 1])
def test_impossible_counts_are_refused(count: object) -> None:
    with pytest.raises(EventError):
        Repeat(Gaussian(1.0), count)  # type: ignore[arg-type]
    with pytest.raises(EventError):
        WithoutReplacement(Gaussian(1.0), count, 100)  # type: ignore[arg-type]


def test_a_batch_larger_than_the_rows_is_refused() -> None:
    with pytest.raises(EventError, match="batch"):
        WithoutReplacement(Gaussian(1.0), 11, 10)


@pytest.mark.parametrize(
    "values",
    [
        {"kind": "exponential", "epsilon": 1.0},
        {"epsilon": 1.0},
        {"kind": ["gaussian"]},
        {"kind": "gaussian"},
        {"kind": "gaussian", "noise_multiplier": 1.0, "noise": False},
        {"kind": "gaussian", "noise_multiplier": 1.0, "neighbouring": "bounded"},
        {"kind": "repeat", "event": {"kind": "magic"}, "count": 2},
        {"kind": "repeat", "event": 3, "count": 2},
        {"kind": "compose", "events": []},
        {"kind": "compose", "events": 3},
    ],
)
def test_what_is_not_in_the_vocabulary_is_refused(values: dict[str, object]) -> None:
    with pytest.raises(EventError):
        from_dict(values)


def test_a_stranger_inside_an_event_is_refused() -> None:
    with pytest.raises(EventError, match="vocabulary"):
        Repeat("gaussian", 2)  # type: ignore[arg-type]
    with pytest.raises(EventError, match="vocabulary"):
        digest("gaussian")  # type: ignore[arg-type]


def test_nesting_is_bounded() -> None:
    event: Event = Gaussian(1.0)
    for _ in range(MAX_DEPTH):
        event = Repeat(event, 1)
    with pytest.raises(EventError, match="deep"):
        Repeat(event, 1)
    values: dict[str, object] = as_dict(event)
    for _ in range(5000):
        values = {"kind": "repeat", "event": values, "count": 1}
    with pytest.raises(EventError, match="deep"):
        from_dict(values)
