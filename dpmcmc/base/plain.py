"""Numbers of NumPy and of enumerations as the numbers of Python that they stand for, and words.

Compiled kernels know few types, and each anew takes them seconds to compile; sums of short floats
overflow or lose digits. So what a caller gives is made plain where a call begins. A word of a class
of its own becomes a plain one: it must not do something else after a call has paid than before.
"""

from dataclasses import fields, is_dataclass, replace
from functools import lru_cache
from typing import Any, TypeVar, get_args, get_type_hints

import numpy as np

from dpmcmc.base.errors import is_number

T = TypeVar("T")
DEPTH = 5  # of lists and dataclasses within one another, of which a job has fewer


def plain(value: T, *, to_float: bool = False, depth: int = DEPTH) -> T:
    """Return a value with each number in it as an int or a float of Python, each word as a str.

    Looks into tuples, lists, dictionaries and dataclasses; fields of these that are declared as
    floats hold floats. What is neither stays as it is. to_float: whether whole numbers become
    floats as well.
    """
    result: Any = value
    if is_number(value):
        integral = isinstance(value, int | np.integer) and not to_float
        result = int(result) if integral else float(result)
    elif isinstance(value, str):
        result = str.__str__(value)
    elif depth > 0 and type(value) in (tuple, list):
        items = [plain(item, to_float=to_float, depth=depth - 1) for item in result]
        result = items if isinstance(value, list) else tuple(items)
    elif depth > 0 and type(value) is dict:
        result = {
            key: plain(item, to_float=to_float, depth=depth - 1) for key, item in result.items()
        }
    elif depth > 0 and is_dataclass(value) and not isinstance(value, type):
        floats = _float_fields(type(value))
        values = {field.name: getattr(value, field.name) for field in fields(value) if field.init}
        changed = {
            name: plain(item, to_float=name in floats, depth=depth - 1)
            for name, item in values.items()
        }
        result = replace(result, **changed)
    return result  # type: ignore[no-any-return]


@lru_cache(maxsize=256)
def _float_fields(kind: type) -> frozenset[str]:
    """Return the names of a dataclass's fields that are declared as floats, or lists of them."""
    leaves = {name: _leaves(hint) for name, hint in get_type_hints(kind).items()}
    return frozenset(name for name, types in leaves.items() if float in types and int not in types)


def _leaves(hint: Any) -> set[Any]:
    """Return the types that a hint is made of."""
    inner = get_args(hint)
    return set().union(*map(_leaves, inner)) if inner else {hint}
