"""Requests from the declared schemas: hypothesis strategies, and the ends of what is admitted.

Types come from the JSON schema of the options' dataclasses, those that the API publishes. Ends come
from asking the planner: which magnitudes does it admit, and where exactly does that stop?
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

Schema = Mapping[str, Any]
Path = tuple[str, ...]
POWERS = (
    -300,
    -100,
    -50,
    -20,
    -15,
    -12,
    -9,
    -6,
    -3,
    -2,
    -1,
    0,
    1,
    2,
    3,
    6,
    9,
    12,
    15,
    20,
    100,
    300,
)
PROBED = tuple(sorted([*(10.0**k for k in POWERS), 0.5]))  # what is asked for first
WHOLE = (1, 2, 5, 10, 100, 1000, 10**6, 10**9, 10**12, 10**18)


@dataclass(frozen=True)
class Ends:
    """The least and the largest positive number that is admitted; mirrored: their negatives too."""

    low: float
    high: float
    mirrored: bool = False


def resolved(schema: Schema, defs: Schema) -> Schema:
    """Return what a reference stands for."""
    while "$ref" in schema:
        schema = defs[schema["$ref"].rsplit("/", 1)[-1]]
    return schema


def numbers(schema: Schema, defs: Schema, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Return where a schema has numbers, and of what type. A list is passed through by "*"."""
    schema = resolved(schema, defs)
    for one in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        yield from numbers(one, defs, path)
    for name, one in schema.get("properties", {}).items():
        yield from numbers(one, defs, (*path, name))
    if schema.get("type") == "array" and "items" in schema:
        yield from numbers(schema["items"], defs, (*path, "*"))
    if schema.get("type") in ("number", "integer"):
        yield path, schema["type"]


def put(request: dict[str, Any], path: Path, value: Any) -> dict[str, Any]:
    """Return a copy with the value at this place; a list gets this one element."""
    if path[0] == "*":
        raise ValueError("a list stands in an object")
    if len(path) > 1 and path[1] == "*":
        return {**request, path[0]: [value]}
    if len(path) == 1:
        return {**request, path[0]: value}
    return {**request, path[0]: put(dict(request.get(path[0]) or {}), path[1:], value)}


def ends(admits: Callable[[float], bool], whole: bool) -> Ends | None:
    """Return the ends of the positive numbers that are admitted; None where none was found."""
    tried = WHOLE if whole else PROBED
    found = [k for k, value in enumerate(tried) if admits(value)]
    if not found:
        return None
    first, last = found[0], found[-1]
    if whole:
        low = _last_whole(admits, int(tried[first]), 0)
        return Ends(low, _last_whole(admits, int(tried[last]), 10**19))
    low = _last(admits, tried[first], tried[first - 1]) if first else tried[0]
    high = _last(admits, tried[last], tried[last + 1]) if last + 1 < len(tried) else tried[-1]
    return Ends(low, high, admits(-tried[first]))


def _last(admits: Callable[[float], bool], inside: float, outside: float) -> float:
    """Return the last number that is admitted, to the bit where it is round."""
    for _ in range(16):
        middle = 10.0 ** (0.5 * (math.log10(inside) + math.log10(outside)))
        inside, outside = (middle, outside) if admits(middle) else (inside, middle)
    lower, upper = sorted((inside, outside))
    for digits in range(1, 8):
        rounded = float(f"{0.5 * (lower + upper):.{digits}g}")
        if lower * (1 - 1e-12) <= rounded <= upper * (1 + 1e-12) and admits(rounded):
            return rounded
    return inside


def _last_whole(admits: Callable[[float], bool], inside: int, outside: int) -> int:
    if admits(outside):
        return outside
    while abs(outside - inside) > 1:
        middle = (inside + outside) // 2
        inside, outside = (middle, outside) if admits(middle) else (inside, middle)
    return inside


def extreme(known: Ends | None, whole: bool) -> st.SearchStrategy[Any]:
    """Return the ends alone, where they are known."""
    if known is None:
        return any_number(None, whole)
    low, high = (int(known.low), int(known.high)) if whole else (known.low, known.high)
    return st.sampled_from([low, high, -low, -high] if known.mirrored else [low, high])


def any_number(known: Ends | None, whole: bool) -> st.SearchStrategy[Any]:
    """Return numbers at and around the ends, and of every magnitude in between."""
    if whole:
        low, high = (int(known.low), int(known.high)) if known else (0, 10**7)
        small = st.integers(low, min(high, low + 8))
        return st.one_of(small, st.sampled_from([low, high]), st.integers(low - 1, high + 1))
    if known is None:
        return st.one_of(st.sampled_from([0.0, 1.0]), st.floats(-12.0, 12.0).map(_power))
    between = st.floats(math.log10(known.low), math.log10(known.high)).map(_power)
    inside = between.map(lambda value: min(max(value, known.low), known.high))
    at = st.sampled_from([known.low, known.high])
    around = st.sampled_from([math.nextafter(known.low, 0.0), 2.0 * known.high, 0.0])
    kinds = [at, inside, inside, around] if known.low > 0 else [inside]
    if known.mirrored:
        kinds += [inside.map(lambda value: -value), at.map(lambda value: -value)]
    return st.one_of(*kinds)


def _power(exponent: float) -> float:
    return 10.0**exponent


NAMES = ("Intercept", "x")  # of parameters: most requests have them
Numbers = Callable[[Ends | None, bool], st.SearchStrategy[Any]]


def values(
    schema: Schema,
    defs: Schema,
    known: Mapping[Path, Ends | None],
    path: Path = (),
    number: Numbers = any_number,
) -> st.SearchStrategy[Any]:
    """Return JSON values of a schema. known: ends by place."""
    schema = resolved(schema, defs)
    several = (*schema.get("anyOf", ()), *schema.get("oneOf", ()))
    if several:
        some = [one for one in several if resolved(one, defs).get("type") != "null"]
        return st.one_of(*(values(one, defs, known, path, number) for one in some))
    if "const" in schema:
        return st.just(schema["const"])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    kind = schema.get("type")
    if kind == "object":
        return _objects(schema, defs, known, path, number)
    if kind == "array":
        each = values(schema["items"], defs, known, (*path, "*"), number)
        return st.lists(each, min_size=1, max_size=4)
    if kind == "boolean":
        return st.booleans()
    if kind in ("number", "integer"):
        return number(known.get(path), kind == "integer")
    return st.just("x")


def _objects(
    schema: Schema,
    defs: Schema,
    known: Mapping[Path, Ends | None],
    path: Path,
    number: Numbers,
) -> st.SearchStrategy[Any]:
    if isinstance(each := schema.get("additionalProperties"), dict):  # by name, which are few
        held = values(each, defs, known, (*path, "*"), number)
        return st.dictionaries(st.sampled_from(NAMES), held, min_size=1, max_size=2)
    fields = {
        name: values(one, defs, known, (*path, name), number)
        for name, one in schema.get("properties", {}).items()
    }
    constant = {name for name, one in schema["properties"].items() if "const" in one}
    needed = set(schema.get("required", ())) | constant
    must = {name: one for name, one in fields.items() if name in needed}
    may = {name: one for name, one in fields.items() if name not in needed}
    return st.fixed_dictionaries(must, optional=may)
