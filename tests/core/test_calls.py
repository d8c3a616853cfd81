"""What a call of the library refuses, it refuses before the budget is touched."""

import inspect
import io
import random
import re
import warnings
from dataclasses import fields, replace
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest

import dpmcmc
from dpmcmc import (
    Budget,
    Counts,
    JobSpec,
    Mean,
    ModelOptions,
    ModelSpec,
    NormalPrior,
    PrivacySpec,
    Quantiles,
    Schema,
    SpecError,
    check_fit,
    describe,
    plan,
    release_in_two_stages,
    release_statistic,
    sample,
    synthesise,
)
from dpmcmc.privacy.noise import SystemRandom
from dpmcmc.privacy.promises import MOST_DELTA, too_likely
from dpmcmc.queries.statistics.populations import NormalMean
from dpmcmc.queries.tasks import StatisticTask, SummariesTask, SyntheticTask, TaskSpec, plan_task
from dpmcmc.samplers.algorithms import ALGORITHMS
from tests.sources import Seeded

ROWS = 100
rng = np.random.default_rng(1)
DATA = {
    "x": rng.uniform(0, 1, ROWS),
    "y": rng.choice(["no", "yes"], ROWS),
    "z": rng.choice(["a", "b", "c"], ROWS),
}
SCHEMA = Schema.from_frame(DATA, {"x": (0, 2), "y": ("no", "yes"), "z": ("a", "b", "c")})
MODEL = ModelSpec(family="logistic", formula="y ~ x")

CALLS = {
    "sample": (
        sample,
        {
            "formula": "y ~ x",
            "data": DATA,
            "schema": SCHEMA,
            "epsilon": 1.0,
            "accept_low_quality": True,  # so that whatever is not refused pays
        },
    ),
    "describe": (
        describe,
        {"data": DATA, "statistics": [Mean(column="x")], "schema": SCHEMA, "epsilon": 1.0},
    ),
    "synthesise": (
        synthesise,
        {
            "data": DATA,
            "schema": SCHEMA,
            "epsilon": 30.0,
            "columns": ["y"],
            "tables": 2,
            "moves": 20,
        },
    ),
    "release_statistic": (
        release_statistic,
        {"data": DATA, "column": "x", "schema": SCHEMA, "epsilon": 1.0},
    ),
    "release_in_two_stages": (
        release_in_two_stages,
        {
            "data": DATA,
            "column": "x",
            "population": NormalMean(sd=1.0),
            "schema": SCHEMA,
            "first_rows": 50,
            "thetas": (0.2, 0.5),
            "powers": (1.0, 2.0),
            "epsilon": 1.0,
            "noise": "gaussian",
        },
    ),
    "check_fit": (
        check_fit,
        {
            "fit": sample("y ~ x", DATA, SCHEMA, epsilon=9, accept_low_quality=True),
            "data": DATA,
            "schema": SCHEMA,
            "epsilon": 1.0,
        },
    ),
}


@pytest.mark.parametrize(
    ("delta", "rows", "is_likely"),
    [
        (0.01, 100, True),
        (0.0099, 100, False),
        (1 / 49, 49, True),  # the product is below 1
        (np.nextafter(1 / 49, 0), 49, False),
        (0.9, 1, False),
        (1e-20, 10**20, True),
        (1e-21, 10**20, False),
        (0.5, 0, False),
    ],
)
def test_a_delta_of_one_in_the_rows_is_no_promise(delta, rows, is_likely):
    assert too_likely(float(delta), rows) == is_likely


@pytest.mark.parametrize("delta", [0.9, 0.1, 0.05, 1 / ROWS])
@pytest.mark.parametrize("whose", ["call", "budget"])
@pytest.mark.parametrize("name", CALLS)
def test_no_call_takes_a_delta_of_one_in_the_rows(name, whose, delta):
    call, given = CALLS[name]
    if whose == "budget" and delta > MOST_DELTA:
        with pytest.raises(ValueError, match="delta must be at most"):
            Budget(100.0, delta)
        return
    budget = Budget(100.0, delta if whose == "budget" else 1e-6)
    asked = {"delta": delta if whose == "call" else 1e-6, "budget": budget}
    with pytest.raises(SpecError) as found:
        call(**given | asked)
    assert (budget.spent, budget.calls) == (0.0, 0)
    assert re.search("/delta$", found.value.pointer)
    if delta <= 0.1:  # larger ones are refused whatever the rows
        assert f"with {ROWS} rows" in found.value.message


def test_no_plan_has_a_delta_of_one_in_the_rows():
    privacy = PrivacySpec(epsilon=1.0, delta=1 / ROWS)
    with pytest.raises(SpecError, match=f"with {ROWS} rows"):
        plan(SCHEMA, JobSpec(model=MODEL, privacy=privacy))
    tasks = (
        SummariesTask(statistics=(Mean(column="x"),)),
        StatisticTask(column="x"),
        SyntheticTask(columns=("y",)),
    )
    for task in tasks:
        with pytest.raises(SpecError, match=f"with {ROWS} rows"):
            plan_task(SCHEMA, TaskSpec(task=task, privacy=privacy))


def test_a_delta_below_one_in_the_rows_is_taken():
    for name, (call, given) in CALLS.items():
        budget = Budget(100.0, 0.009)
        call(**given | {"delta": 0.009, "budget": budget})
        assert budget.calls == 1, name


# --- whatever is wrong with an argument is told before the call is paid for

WRONG = (
    *(None, True, False, 0, -1, 2, 1.5, float("nan"), float("inf"), 10**400, 1j, Decimal("1")),
    *("x", "", b"x", (), [], [1], ["x"], [None], [[]], {}, {"x": 1}, {"x": "y"}, {1}, object()),
    *(int, len, np.array([1.0, 2.0]), np.float64(2.0), np.int64(3), Fraction(1, 3)),
    *(np.timedelta64(3), Mean(column="x"), Mock()),
)


class Count(IntEnum):
    ONE = 1


OTHER_NUMBERS = (np.float16(1), np.float32(0.5), np.longdouble(1), np.int8(1), Count.ONE)
NOT_NAMES = (np.array("x"), np.array(["x"]), np.zeros((2, 2)), pd.DataFrame({"x": ["a\nb"]}))
SOURCES = {
    "a generator of NumPy": np.random.default_rng(1),
    "an old one": np.random.RandomState(1),
    "NumPy's module": np.random,
    "Python's": random.Random(1),
    "Python's module": random,
    "a seed": 1,
    "a class": SystemRandom,
    "a stand-in": Mock(),
}


def untouched_or_done(name, given, what):
    """Call, with a budget: either the call succeeds, or nothing is spent and one line says why."""
    budget = Budget(100.0, 1e-6, failure_share=0.2)
    refused = None
    try:
        CALLS[name][0](**given | {"budget": budget})
    except (ValueError, TypeError) as error:
        refused = str(error)
    assert budget.calls == (refused is None), (what, refused)
    assert refused is None or "\n" not in refused, what
    return refused is None


def arguments():
    for name, (call, _) in CALLS.items():
        yield from ((name, one) for one in inspect.signature(call).parameters if one != "budget")


@pytest.mark.parametrize(("name", "argument"), list(arguments()))
def test_a_wrong_argument_costs_nothing(name, argument):
    given = dict(CALLS[name][1])
    if argument == "model":
        del given["formula"]
    if argument == "noise_multiplier":
        del given["epsilon"]
    assert untouched_or_done(name, CALLS[name][1], "as it is")
    for value in WRONG:
        untouched_or_done(name, given | {argument: value}, f"{argument}={value!r}")


@pytest.mark.parametrize("argument", inspect.signature(plan).parameters)
def test_a_wrong_argument_of_a_plan_is_told_in_one_line(argument):
    given = {"formula": "y ~ x", "schema": SCHEMA, "epsilon": 1.0}
    if argument == "model":
        del given["formula"]
    if argument == "noise_multiplier":
        del given["epsilon"]
    for value in WRONG:
        refused = ""
        try:
            plan(**given | {argument: value})
        except (ValueError, TypeError) as error:
            refused = str(error)
        assert "\n" not in refused, (argument, value)


def parts():
    """Things that calls are given, with where they go: (name, what, how the call is given it)."""
    yield "sample", MODEL, lambda one: {"formula": None, "model": one}
    yield "sample", NormalPrior(), lambda one: {"prior": one}
    yield "sample", NormalPrior(), lambda one: {"prior": {"x": one}}
    options = ModelOptions()
    yield "sample", options, lambda one: {"formula": None, "model": replace(MODEL, options=one)}
    for algorithm in ALGORITHMS.values():  # chains of few steps, where that is open
        short = algorithm.options(num_steps=20, num_chains=1)
        yield "sample", short, lambda one: {"sampler": one, "epsilon": 20.0}
    for statistic in (Mean(column="x"), Quantiles(column="x"), Counts(columns=("y", "x"))):
        yield "describe", statistic, lambda one: {"statistics": [one]}
    yield "release_in_two_stages", NormalMean(sd=1.0), lambda one: {"population": one}


@pytest.mark.parametrize(("name", "what", "given"), list(parts()))
def test_a_wrong_field_of_an_argument_costs_nothing(name, what, given):
    for field in fields(what):
        for value in ("x", -1, float("nan"), 10**400, Fraction(1, 3), np.ones(2), Mock()):
            try:
                changed = replace(what, **{field.name: value})
            except (ValueError, TypeError):
                continue  # refused where it is written
            told = f"{type(what).__name__}.{field.name}={value!r}"
            untouched_or_done(name, CALLS[name][1] | given(changed), told)


@pytest.mark.parametrize("number", OTHER_NUMBERS, ids=repr)
def test_numbers_of_numpy_and_of_enumerations_are_numbers(number):
    given = CALLS["sample"][1] | {"sampler": "sufficient_statistics", "formula": "x ~ y"}
    for name in ("dp_penalty", "dp_hmc"):
        clipped = ALGORITHMS[name].options(num_steps=20, num_chains=1, clip_bound=number)
        assert untouched_or_done("sample", CALLS["sample"][1] | {"sampler": clipped}, name)
    assert untouched_or_done("sample", given | {"epsilon": number}, "epsilon")
    noise = given | {"epsilon": None, "noise_multiplier": number}
    assert untouched_or_done("sample", noise, "noise_multiplier")
    for name in ("describe", "release_statistic", "release_in_two_stages"):
        assert untouched_or_done(name, CALLS[name][1] | {"epsilon": number}, name)
    assert untouched_or_done(
        "release_statistic", CALLS["release_statistic"][1] | {"a": number}, "a"
    )
    privacy = PrivacySpec(epsilon=number, delta=1e-6)
    plain = plan(SCHEMA, JobSpec(model=MODEL, privacy=replace(privacy, epsilon=float(number))))
    assert plan(SCHEMA, JobSpec(model=MODEL, privacy=privacy)) == plain


@pytest.mark.parametrize("wrong", NOT_NAMES, ids=lambda one: type(one).__name__)
def test_what_is_no_name_of_a_column_costs_nothing(wrong):
    for name in ("release_statistic", "release_in_two_stages"):
        for field in ("column", "kind", "noise", "form"):
            if field in inspect.signature(CALLS[name][0]).parameters:
                given = CALLS[name][1] | {field: wrong}
                assert not untouched_or_done(name, given, field)
    assert not untouched_or_done("sample", CALLS["sample"][1] | {"sampler": wrong}, "sampler")
    for field in ("bins", "marginals"):
        assert not untouched_or_done("synthesise", CALLS["synthesise"][1] | {field: wrong}, field)


LISTS = {
    "quantiles": ("describe", lambda v: {"statistics": [Quantiles(column="x", at=(v,))]}),
    "bins": ("describe", lambda v: {"statistics": [Counts(columns=("x",), bins={"x": v})]}),
    "edges": ("describe", lambda v: {"statistics": [Counts(columns=("x",), bins={"x": (v,)})]}),
    "counted": ("describe", lambda v: {"statistics": [Counts(columns=(v,))]}),
    "synthetic bins": ("synthesise", lambda v: {"columns": ["x"], "bins": {"x": v}}),
    "columns": ("synthesise", lambda v: {"columns": ["y", v]}),
    "marginals": ("synthesise", lambda v: {"marginals": [["y", v]]}),
    "impossible": ("synthesise", lambda v: {"impossible": [v]}),
    "levels": ("synthesise", lambda v: {"impossible": [{"y": v}]}),
    "a level": ("synthesise", lambda v: {"impossible": [{"y": [v]}]}),
    "thetas": ("release_in_two_stages", lambda v: {"thetas": (v, 0.5)}),
    "powers": ("release_in_two_stages", lambda v: {"powers": (v,)}),
    "a column of the data": ("sample", lambda v: {"data": DATA | {"x": v}}),
    "a value of the data": ("sample", lambda v: {"data": DATA | {"x": [v, *DATA["x"][1:]]}}),
    "a word of the data": ("sample", lambda v: {"data": DATA | {"y": [v, *DATA["y"][1:]]}}),
}


@pytest.mark.parametrize("what", LISTS)
def test_a_wrong_member_of_a_list_costs_nothing(what):
    name, given = LISTS[what]
    for value in WRONG:
        untouched_or_done(name, CALLS[name][1] | given(value), f"{what}: {value!r}")


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("name", CALLS)
def test_another_source_of_randomness_is_refused(name, source):
    given = CALLS[name][1] | {"random": SOURCES[source]}
    assert not untouched_or_done(name, given, source)


@pytest.mark.parametrize("name", CALLS)
def test_sources_of_the_library_and_of_tests_are_taken(name):
    for source in (None, SystemRandom(), Seeded(1)):
        assert untouched_or_done(name, CALLS[name][1] | {"random": source}, repr(source))


def test_every_public_call_that_takes_a_budget_is_tried():
    every = {name: getattr(dpmcmc, name) for name in dpmcmc.__all__}
    takes = {
        name
        for name, call in every.items()
        if inspect.isfunction(call) and "budget" in inspect.signature(call).parameters
    }
    assert takes == set(CALLS)


# --- whatever NumPy and Python are told to do about odd numbers, what is paid for is given

SLOW = ("dp_barker", "dp_penalty_subsampled")  # to plan
SHORT = {
    name: one.options(num_steps=20, num_chains=1)
    for name, one in ALGORITHMS.items()
    if name not in SLOW
}
FORMULAS = ("y ~ x + z", "x ~ y", "z ~ x", "y ~ poly(x, 2)", "y ~ bs(x, df=4)")
ODD = {
    "as they are": {},
    "one value": {"x": np.ones(ROWS)},
    "one word": {"y": np.repeat("yes", ROWS)},
    "at a bound": {"x": np.zeros(ROWS)},
    "far beyond a bound": {"x": np.full(ROWS, 1.7e308)},
    "subnormal": {"x": np.full(ROWS, 5e-324)},
    "the largest of a type": {"x": np.full(ROWS, 2**64 - 1, np.uint64)},
    "big-endian": {"x": DATA["x"].astype(">f4"), "y": DATA["y"].astype(">U3")},
    "read-only": {"x": np.broadcast_to(1.5, ROWS)},
    "not contiguous": {name: np.repeat(values, 2)[::2] for name, values in DATA.items()},
    "a subclass": {"x": np.rec.fromarrays([DATA["x"]], names="x").x},
}


def paying(algorithms):
    """Every call, and `sample` with kinds of model, and with every algorithm where so asked."""
    for name, (_, given) in CALLS.items():
        yield name, given
    hopeless = {"data": DATA, "schema": SCHEMA, "epsilon": 2.0, "accept_low_quality": True}
    for formula in FORMULAS:
        yield "sample", hopeless | {"formula": formula}
    for short in SHORT.values() if algorithms else ():
        yield "sample", hopeless | {"formula": "y ~ x", "sampler": short}
        yield "sample", hopeless | {"formula": "x ~ y", "sampler": short}


@pytest.mark.longer
@pytest.mark.parametrize("odd", ODD)
def test_odd_rows_cost_nothing_or_give_a_result_where_errors_are_raised(odd):
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        for name, given in paying(algorithms=odd == "at a bound"):
            told = f"{name}, {given.get('formula')}, {given.get('sampler')}"
            untouched_or_done(name, given | {"data": DATA | ODD[odd]}, told)


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_few_rows_cost_nothing_or_give_a_result_where_errors_are_raised(rows):
    data = {name: values[:rows] for name, values in DATA.items()}
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        for name, given in paying(algorithms=rows == 1):
            told = f"{name}, {given.get('formula')}, {given.get('sampler')}"
            few = {"data": data, "schema": replace(SCHEMA, rows=rows)}
            untouched_or_done(name, given | few, told)


class Closed:
    """A stderr that is gone."""

    def isatty(self):
        return True

    def write(self, _):
        raise BrokenPipeError

    def flush(self):
        raise BrokenPipeError


@pytest.mark.parametrize(
    "stream", [None, Closed(), io.StringIO()], ids=["none", "broken", "closed"]
)
@pytest.mark.parametrize("progress", [None, True])
def test_a_bar_that_cannot_be_drawn_ends_no_call(monkeypatch, stream, progress):
    if isinstance(stream, io.StringIO):
        stream.close()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setattr("dpmcmc.fit.local.LEAST_SECONDS", 0.0)
    given = CALLS["sample"][1] | {"sampler": SHORT["dp_penalty"], "progress": progress}
    assert untouched_or_done("sample", given, "a bar")


class OddHash(str):
    """A word that is a key only until a call has paid, as far as the call may know."""

    __slots__ = ()

    def __hash__(self):
        raise RuntimeError("no key")


class OddFloat(float):
    """A number that is another one each time, or none."""

    def __float__(self):
        raise RuntimeError("no number")

    __truediv__ = __rtruediv__ = __mul__ = __rmul__ = __sub__ = __rsub__ = __float__


class OwnOptions:
    algorithm = "dp_penalty"


def test_words_and_numbers_of_odd_classes_cost_nothing():
    stages, statistic = CALLS["release_in_two_stages"][1], CALLS["release_statistic"][1]
    odd = [
        ("release_statistic", statistic | {"column": OddHash("x")}),
        ("release_statistic", statistic | {"noise": OddHash("laplace")}),
        ("release_in_two_stages", stages | {"column": OddHash("x")}),
        ("release_in_two_stages", stages | {"population": NormalMean(sd=OddFloat(1.0))}),
        ("release_in_two_stages", stages | {"thetas": (OddFloat(0.2), 0.5)}),
        ("release_in_two_stages", stages | {"powers": (OddFloat(1.0), 2.0)}),
    ]
    for name, given in odd:
        budget, done = Budget(100.0, 1e-6), True
        try:
            CALLS[name][0](**given | {"budget": budget})
        except (RuntimeError, ValueError, TypeError):
            done = False
        assert budget.calls == done, given
    for wrong in (OwnOptions(), Mock(algorithm="dp_hmc")):
        given = CALLS["sample"][1] | {"sampler": wrong}
        assert not untouched_or_done("sample", given, "options of one's own")


@pytest.mark.parametrize("column", ["x", "y"])
def test_a_decimal_that_signals_is_a_missing_value(column):
    given = DATA | {column: [Decimal("sNaN"), *list(DATA[column])[1:]]}
    assert not untouched_or_done("sample", CALLS["sample"][1] | {"data": given}, "sNaN")


class TooFew:
    """A column that gives fewer values than its length says."""

    def __len__(self):
        return ROWS

    def __iter__(self):
        return iter(DATA["x"][:10])

    def __getitem__(self, row):
        if row >= 10:
            raise IndexError
        return DATA["x"][row]

    def __array__(self, *_, **__):
        return DATA["x"][:10]


@pytest.mark.parametrize("name", CALLS)
def test_a_column_of_fewer_values_than_its_length_says_costs_nothing(name):
    given = CALLS[name][1]
    if name == "synthesise":
        given = given | {"columns": ["x", "y"], "bins": {"x": 2}}
    assert not untouched_or_done(name, given | {"data": DATA | {"x": TooFew()}}, "too few")
    numbered = dict(enumerate(DATA.values()))
    assert not untouched_or_done(name, given | {"data": numbered}, "numbers as names")
