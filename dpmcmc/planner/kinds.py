"""Fields of a job that hold something of another kind than they say, as callers from Python can."""

from collections.abc import Sequence
from dataclasses import is_dataclass
from numbers import Integral
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from dpmcmc.base.errors import SpecError, is_number, near

WORDS = {
    float: "a number",
    int: "a whole number",
    bool: "True or False",
    str: "a word",
    tuple: "several values in a tuple",
    dict: "a dictionary",
}


def check_kinds(told: Any, pointer: str, known: Sequence[str] = ()) -> None:
    """Refuse a field of a dataclass, or of one in it, that holds another kind of thing.

    known: names of fields that are checked elsewhere. Raises SpecError at the field.
    """
    for name, hint in get_type_hints(type(told)).items():
        value, place = getattr(told, name), f"{pointer}/{name}"
        if name in known:
            continue
        kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
        if is_dataclass(value) and not isinstance(value, type):
            check_kinds(value, place)
        if not any(_is(value, kind) for kind in kinds):
            raise SpecError(place, _right(value, kinds))


def _is(value: object, kind: Any) -> bool:
    origin = get_origin(kind) or kind
    if origin is Literal:
        return isinstance(value, str) and value in get_args(kind)
    if origin in (float, int):
        return is_number(value) and (origin is float or isinstance(value, Integral))
    if origin is tuple:
        return isinstance(value, Sequence) and not isinstance(value, str)
    return not isinstance(origin, type) or isinstance(value, origin)


def _right(value: object, kinds: Sequence[Any]) -> str:
    """Return what would be right."""
    words: list[str] = []
    for kind in kinds:
        origin = get_origin(kind) or kind
        if origin is Literal:
            names = get_args(kind)
            return f"must be one of {', '.join(names)}{near(str(value), names)}"
        if origin is not NoneType:
            words.append(WORDS.get(origin) or f"{origin.__name__}(...)")
    return f"must be {' or '.join(words)}"
