"""Polynomials and splines whose places and knots follow from declared bounds, never from the data.

`poly(x, 3)`: Legendre polynomials on the bounds, orthogonal there and within [-1, 1];
`poly(x, 3, raw=True)`: powers. `bs(x, df=5)`: B-splines (de Boor), inner knots at even distances
between the bounds, or knots=(20, 40). `cr(x, df=4)`: natural cubic splines by their values at even
knots (Wood 2006, section 4.1.2). Of splines the first function is left out, as they sum to 1.
"""

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmcmc.formula.arithmetic import Call, Interval

Floats = NDArray[np.float64]
MAX_DEGREE, MAX_FUNCTIONS = 10, 50
SEARCH_POINTS = 4001  # points, at which a spline's largest length is looked for
LENGTH_MARGIN = 1.0 + 1e-6
BASES = ("poly", "bs", "cr")


@dataclass(frozen=True, slots=True)
class Basis:
    """Functions of one column. knots: the outer ones are the declared bounds.

    lower, upper: of each function. square: largest sum of their squares in a row.
    """

    text: str
    columns: tuple[str, ...]
    kind: str
    degree: int
    knots: tuple[float, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    square: float

    def values(self, columns: Mapping[str, Floats]) -> Floats:
        """Return (functions, n). No row is longer than square allows."""
        found = _values(self.kind, self.degree, self.knots, columns[self.columns[0]])
        length = np.einsum("kn,kn->n", found, found)
        return np.asarray(
            found * np.sqrt(np.minimum(1.0, self.square / np.maximum(length, 1e-300)))
        )


def basis(call: Call, bounds: Mapping[str, Interval]) -> Basis:
    """Return the basis. Raises SpecError."""
    name = _column(call, bounds)
    low, high = bounds[name]
    kind, degree, knots = _FORMS[call.name](call, low, high)
    return _made(call.text, name, kind, degree, knots)


@lru_cache(maxsize=256)
def _made(text: str, name: str, kind: str, degree: int, knots: tuple[float, ...]) -> Basis:
    if kind == "poly":
        ones = (1.0,) * degree
        return Basis(text, (name,), kind, degree, knots, tuple(-one for one in ones), ones, degree)
    points = np.linspace(knots[0], knots[-1], SEARCH_POINTS)
    found = _values(kind, degree, knots, points)
    low, high = np.minimum(found.min(axis=1), 0.0), np.maximum(found.max(axis=1), 0.0)
    wide = (LENGTH_MARGIN - 1.0) * (high - low)
    square = LENGTH_MARGIN * float((found**2).sum(axis=0).max())
    lower, upper = tuple((low - wide).tolist()), tuple((high + wide).tolist())
    return Basis(text, (name,), kind, degree, knots, lower, upper, square)


def _values(kind: str, degree: int, knots: tuple[float, ...], x: Floats) -> Floats:
    from scipy.interpolate import BSpline, CubicSpline

    low, high = knots[0], knots[-1]
    x = np.fmin(np.fmax(x, low), high)
    if kind == "poly":
        middle, half = 0.5 * low + 0.5 * high, 0.5 * high - 0.5 * low
        t = np.clip((x - middle) / half, -1.0, 1.0)
        return np.ascontiguousarray(np.polynomial.legendre.legvander(t, degree).T[1:])
    if kind == "bs":
        every = np.concatenate(([low] * degree, knots, [high] * degree))
        count = len(every) - degree - 1
        return np.ascontiguousarray(BSpline(every, np.eye(count), degree)(x).T[1:])
    spline = CubicSpline(np.array(knots), np.eye(len(knots)), bc_type="natural")
    return np.ascontiguousarray(spline(x).T[1:])


Form = tuple[str, int, tuple[float, ...]]


def _poly(call: Call, low: float, high: float) -> Form:
    return "poly", _whole(call, _option(call, 1, "degree", 1), 1, MAX_DEGREE), (low, high)


def _bs(call: Call, low: float, high: float) -> Form:
    degree = _whole(call, _option(call, 3, "degree", 3), 1, MAX_DEGREE)
    told = _option(call, 2, "knots", None)
    if told is None:
        df = _whole(call, _option(call, 1, "df", degree), degree, MAX_FUNCTIONS)
        inner = np.linspace(low, high, df - degree + 2)[1:-1].tolist()
    else:
        inner = _knots(call, told, low, high)
    return "bs", degree, (low, *inner, high)


def _cr(call: Call, low: float, high: float) -> Form:
    df = _whole(call, _option(call, 1, "df", 3), 2, MAX_FUNCTIONS)
    return "cr", 3, tuple(np.linspace(low, high, df + 1).tolist())


_FORMS = {"poly": _poly, "bs": _bs, "cr": _cr}
_OPTIONS = {"poly": {"degree", "raw"}, "bs": {"df", "knots", "degree"}, "cr": {"df"}}


def powers(call: Call) -> list[str] | None:
    """Return the powers that poly(x, 3, raw=True) stands for, as factors; None for other calls."""
    raw = call.options.get("raw")
    if call.name != "poly" or not isinstance(raw, ast.Constant) or raw.value is not True:
        return None
    degree = _whole(call, _option(call, 1, "degree", 1), 1, MAX_DEGREE)
    name = _written(call)
    return [f"I({name})", *(f"I({name} ** {k})" for k in range(2, degree + 1))]


def _written(call: Call) -> str:
    """Return the column as a formula writes it."""
    if not call.arguments or not isinstance(call.arguments[0], ast.Name):
        raise call.refuse("its first argument must be a column")
    name = call.arguments[0].id
    return f"`{call.names[name]}`" if name in call.names else name


def _column(call: Call, bounds: Mapping[str, Interval]) -> str:
    name = _written(call).strip("`")
    if name not in bounds:
        raise call.refuse(f"{name!r} is no number column of the dataset")
    unknown = set(call.options) - _OPTIONS[call.name]
    if unknown or len(call.arguments) > 2:
        allowed = ", ".join(sorted(_OPTIONS[call.name]))
        raise call.refuse(f"its options are {allowed}: knots follow from the declared bounds")
    return name


def _option(call: Call, place: int, name: str, default: Any) -> Any:
    if len(call.arguments) > place:
        return _constant(call, call.arguments[place])
    return _constant(call, call.options[name]) if name in call.options else default


def _constant(call: Call, node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        raise call.refuse("its options must be numbers") from None


def _whole(call: Call, value: Any, least: int, most: int) -> int:
    if type(value) is not int or not least <= value <= most:
        raise call.refuse(f"needs a whole number from {least} to {most}")
    return value


def _knots(call: Call, told: Any, low: float, high: float) -> list[float]:
    knots = list(told) if isinstance(told, tuple) else [told]
    if not all(type(knot) in (int, float) for knot in knots) or len(knots) > MAX_FUNCTIONS:
        raise call.refuse("knots must be numbers: knots=(20, 40)")
    if any(b <= a for a, b in zip([low, *knots], [*knots, high], strict=True)):
        raise call.refuse("knots must increase, strictly between the declared bounds")
    return [float(knot) for knot in knots]
