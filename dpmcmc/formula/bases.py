"""Polynomials and splines: their scale and knots follow from declared bounds, never from the data.

`poly(x, 3)`: Legendre polynomials on the bounds, orthogonal there and within [-1, 1];
`poly(x, 3, raw=True)`: powers. `bs(x, df=5)`: B-splines (de Boor), inner knots at even distances
between the bounds, or knots=(20, 40). `cr(x, df=4)`: natural cubic splines by their values at even
knots (Wood 2006, section 4.1.2), also written `ns(x, df=4)`. Of splines the first function is left
out, as they sum to 1. `s(x, k=10)`: a straight line, and curves from it whose size is estimated,
which are the directions of cubic B-splines that a penalty on second differences holds (Eilers and
Marx 1996), each with a largest value of 1. `rw(g)`: a step between each two neighbours of ordered
categories or whole numbers, whose sizes have an sd in common: a random walk of first order (Rue and
Held 2005, section 3.3.1).
"""

import ast
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmcmc.base.errors import near
from dpmcmc.formula.arithmetic import Call, Interval
from dpmcmc.formula.parse import CONSTANTS, written

Floats = NDArray[np.float64]
MAX_DEGREE, MAX_FUNCTIONS = 10, 50
SEARCH_POINTS = 4001  # points at which the largest norm of a spline's functions is searched for
LENGTH_MARGIN = 1.0 + 1e-6
BASES = ("poly", "bs", "cr", "ns", "s")
SMOOTH_FUNCTIONS = 6  # of s(x), where k is left out
LEAST_FUNCTIONS, MOST_SMOOTH_FUNCTIONS = 4, 20  # of s(x)
LEAST_WALK, MOST_WALK = 3, 30  # places of rw(g)
SMOOTH_SPLINES = 40  # of which its functions are sums


@dataclass(frozen=True, slots=True)
class Basis:
    """Functions of one column. knots: the outer ones are the declared bounds.

    lower, upper: of each function. square: largest sum of their squares in a row. sizes: of the
    functions of a smooth term but the line, sds of their coefficients where the curve that they add
    up to is 1 away from the line, root mean square over the bounds; 1 for each step of a walk;
    empty of other bases.
    """

    text: str
    columns: tuple[str, ...]
    kind: str
    degree: int
    knots: tuple[float, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    square: float
    sizes: tuple[float, ...] = ()

    def values(self, columns: Mapping[str, Floats]) -> Floats:
        """Return values (functions, n); the squares of a row add up to at most `square`."""
        functions = _values(self.kind, self.degree, self.knots, columns[self.columns[0]])
        length = np.einsum("kn,kn->n", functions, functions)
        return np.asarray(
            functions * np.sqrt(np.minimum(1.0, self.square / np.maximum(length, 1e-300)))
        )


def basis(call: Call, bounds: Mapping[str, Interval]) -> Basis:
    """Return the basis that a call names. Raises SpecError on a wrong column or option."""
    name = first_column(call)
    if call.name == "s":
        _check_smooth(call)
    if name not in bounds:
        raise call.refuse(f"{name!r} is no number column of the dataset{near(name, bounds)}")
    low, high = bounds[name]
    kind, degree, knots = _PARTS_OF[call.name](call, _options(call), low, high)
    return _bounded_basis(call.text, name, kind, degree, knots)


@lru_cache(maxsize=256)
def _bounded_basis(text: str, name: str, kind: str, degree: int, knots: tuple[float, ...]) -> Basis:
    """Return a basis with bounds of its functions and of the sum of their squares."""
    if kind == "poly":
        ones = (1.0,) * degree
        return Basis(
            text, (name,), kind, degree, knots, tuple(-bound for bound in ones), ones, degree
        )
    points = np.linspace(knots[0], knots[-1], SEARCH_POINTS)
    values = _values(kind, degree, knots, points)
    low, high = np.minimum(values.min(axis=1), 0.0), np.maximum(values.max(axis=1), 0.0)
    margin = (LENGTH_MARGIN - 1.0) * (high - low)
    square = LENGTH_MARGIN * float((values**2).sum(axis=0).max())
    lower, upper = tuple((low - margin).tolist()), tuple((high + margin).tolist())
    sizes = tuple(_penalised(degree)[1].tolist()) if kind == "s" else ()
    return Basis(text, (name,), kind, degree, knots, lower, upper, square, sizes)


def _values(kind: str, degree: int, knots: tuple[float, ...], x: Floats) -> Floats:
    """Return the functions (k, n) of a basis at x (n,), clamped to its bounds."""
    from scipy.interpolate import BSpline, CubicSpline

    low, high = knots[0], knots[-1]
    x = np.fmin(np.fmax(x, low), high)
    if kind == "rw":
        return np.ascontiguousarray((x >= np.array(knots[1:])[:, None] - 0.5) * 1.0)
    if kind == "poly":
        middle, half = 0.5 * low + 0.5 * high, 0.5 * high - 0.5 * low
        t = np.clip((x - middle) / half, -1.0, 1.0)
        return np.ascontiguousarray(np.polynomial.legendre.legvander(t, degree).T[1:])
    if kind == "s":
        t = np.clip((x - low) / (high - low), 0.0, 1.0)
        curves = _penalised(degree)[0] @ _even_splines(t)
        return np.ascontiguousarray(np.vstack((2.0 * t - 1.0, curves)))
    if kind == "bs":
        padded_knots = np.concatenate(([low] * degree, knots, [high] * degree))
        count = len(padded_knots) - degree - 1
        return np.ascontiguousarray(BSpline(padded_knots, np.eye(count), degree)(x).T[1:])
    spline = CubicSpline(np.array(knots), np.eye(len(knots)), bc_type="natural")
    return np.ascontiguousarray(spline(x).T[1:])


def walk(call: Call, column: str, places: Sequence[float]) -> Basis:
    """Return the steps of rw(column) between neighbouring places. Raises SpecError.

    places: the numbers of categories, or whole numbers, in their order.
    """
    if len(call.arguments) != 1 or call.options:
        raise call.refuse(f"it has no options: write rw({written(column)})")
    if not LEAST_WALK <= len(places) <= MOST_WALK:
        raise call.refuse(
            f"{column!r} has {len(places)} values, and a random walk {LEAST_WALK} to {MOST_WALK}:"
            f" write {'C' if len(places) < LEAST_WALK else 's'}({written(column)})"
        )
    ones = (1.0,) * (len(places) - 1)
    zeros = (0.0,) * len(ones)
    knots = tuple(float(place) for place in places)
    return Basis(call.text, (column,), "rw", len(ones), knots, zeros, ones, len(ones), ones)


def _even_splines(t: Floats) -> Floats:
    """Return (SMOOTH_SPLINES, n) cubic B-splines at even knots, at t within [0, 1]."""
    from scipy.interpolate import BSpline

    pieces = SMOOTH_SPLINES - 3
    knots = np.arange(-3, pieces + 4) / pieces
    return np.asarray(BSpline(knots, np.eye(SMOOTH_SPLINES), 3)(t).T)


@lru_cache(maxsize=64)
def _penalised(curves: int) -> tuple[Floats, Floats]:
    """Return weights (curves, SMOOTH_SPLINES) of B-splines, and sizes (curves,): see Basis.

    Of all cubic splines with even knots those that a penalty on second differences of the
    coefficients holds least, a straight line aside, at right angles to it and to one another over
    the bounds (Demmler and Reinsch 1975), each with a largest value of 1. A prior under which their
    coefficients have these sds, times one number, is that of the penalty (Ruppert, Wand and Carroll
    2003, section 4.9).
    """
    from scipy.linalg import eigh

    splines = _even_splines(np.linspace(0.0, 1.0, SEARCH_POINTS))
    differences = np.diff(np.eye(SMOOTH_SPLINES), 2, axis=0)
    values, ways = eigh(differences.T @ differences, splines @ splines.T / SEARCH_POINTS)
    values, weights = values[2 : curves + 2], ways[:, 2 : curves + 2].T
    sds = (values / values[0]) ** -0.5
    functions = weights @ splines
    ends = functions[range(curves), np.abs(functions).argmax(axis=1)]
    sizes = sds * np.abs(ends) / math.sqrt(float((sds**2).sum()))
    return weights / ends[:, None], sizes


BasisParts = tuple[str, int, tuple[float, ...]]
Options = Mapping[str, Any]
# the options of each function, in the order in which they may stand without their names
_OPTIONS = {
    "poly": ("degree", "raw"),
    "bs": ("df", "knots", "degree"),
    "cr": ("df",),
    "ns": ("df",),
    "s": ("k",),
}


def _poly(call: Call, options: Options, low: float, high: float) -> BasisParts:
    """Return kind, degree and knots of poly."""
    return "poly", _degree(call, options, 1), (low, high)


def _bs(call: Call, options: Options, low: float, high: float) -> BasisParts:
    """Return kind, degree and knots of bs. Raises SpecError."""
    degree, knots = _degree(call, options, 3), options.get("knots")
    if knots is None:
        df = _whole(call, "df", options.get("df", degree), degree, MAX_FUNCTIONS)
        inner = np.linspace(low, high, df - degree + 2)[1:-1].tolist()
    elif "df" in options:
        raise call.refuse("takes df or knots, not both")
    else:
        inner = _knots(call, knots, low, high)
    return "bs", degree, (low, *inner, high)


def _cr(call: Call, options: Options, low: float, high: float) -> BasisParts:
    """Return kind, degree and knots of cr or ns. Raises SpecError."""
    if call.name == "ns" and "df" not in options:  # R's default is a straight line
        raise call.refuse(
            f"give the number of its functions: ns({written(first_column(call))}, df=4)"
        )
    df = _whole(call, "df", options.get("df", 3), 2, MAX_FUNCTIONS)
    return "cr", 3, tuple(np.linspace(low, high, df + 1).tolist())


def _s(call: Call, options: Options, low: float, high: float) -> BasisParts:
    """Return kind, number of functions beyond a line, and ends of s. Raises SpecError."""
    k = options.get("k", SMOOTH_FUNCTIONS)
    count = _whole(call, "k", k, LEAST_FUNCTIONS, MOST_SMOOTH_FUNCTIONS)
    return "s", count - 2, (low, high)


_PARTS_OF = {"poly": _poly, "bs": _bs, "cr": _cr, "ns": _cr, "s": _s}
# what s(x) takes in other software, and what to write here
_OF_OTHER_SMOOTHS = {
    "by": "one curve for all rows: ns({0}, df=4):g has one for each category of g",
    "bs": "its basis is a penalised B-spline: leave it out, or write cr({0}, df=5); rw({0}) is a"
    " random walk, (1 | g) an effect of groups",
    "fx": "without a penalty write ns({0}, df=4)",
    "m": "its penalty is on second differences: leave it out",
    "sp": "how smooth it is follows from the rows: give sd(s({0})) a prior",
    "knots": "knots are at even distances between the declared bounds: leave it out",
    "id": "each curve has an sd of its own: leave it out",
    "pc": "its mean over the declared bounds is 0: leave it out",
    "xt": "leave it out",
}


def powers(call: Call) -> list[str] | None:
    """Return the factors x, x^2, ... of poly(x, 3, raw=True); None for any other call."""
    if call.name != "poly":
        return None
    options = _options(call)
    raw, degree = options.get("raw", False), _degree(call, options, 1)
    if type(raw) is not bool:
        raise call.refuse("raw must be True or False")
    if not raw:
        return None
    name = written(first_column(call))
    return [f"I({name})", *(f"I({name} ** {k})" for k in range(2, degree + 1))]


def first_column(call: Call) -> str:
    """Return the column that is a call's first argument. Raises SpecError where it is none."""
    name = call.column(call.arguments[0]) if call.arguments else None
    if name is None:
        raise call.refuse("its first argument must be a column")
    return name


def _options(call: Call) -> dict[str, Any]:
    """Return the values of the given options by name. Raises SpecError on an unknown option."""
    option_names = _OPTIONS[call.name]
    if len(call.arguments) > 1 + len(option_names):
        signature = f"a column and {', '.join(option_names)}"
        raise call.refuse(f"has too many arguments: {call.name} takes {signature}")
    nodes = dict(zip(option_names, call.arguments[1:], strict=False))
    for name, node in call.options.items():
        if name not in option_names:
            guess, allowed = near(name, option_names), ", ".join(option_names)
            reason = f"{name} is no option of {call.name}{guess}; its options are {allowed}"
            raise call.refuse(f"{reason}: knots follow from the declared bounds")
        if name in nodes:
            raise call.refuse(f"{name} is given twice")
        nodes[name] = node
    values = {name: _value(call, node) for name, node in nodes.items()}
    absent = [name for name in ("df", "knots") if name in values and values[name] is None]
    return {name: value for name, value in values.items() if name not in absent}


def _check_smooth(call: Call) -> None:
    """Refuse what s(x) takes in other software, with what to write."""
    name = written(first_column(call))
    for option in call.options:
        if option in _OF_OTHER_SMOOTHS:
            raise call.refuse(f"{option}: {_OF_OTHER_SMOOTHS[option].format(name)}")
    columns = [call.column(node) for node in call.arguments]
    if len(columns) > 1 and None not in columns:
        terms = " + ".join(f"s({written(column)})" for column in columns if column is not None)
        raise call.refuse(f"smooths of several columns are not available: write {terms}")


def _value(call: Call, node: ast.expr) -> Any:
    """Return the value of an option, of any type; a name that is no constant as a text."""
    name = call.names.get(node.id) if isinstance(node, ast.Name) else None
    if name is not None:
        return CONSTANTS.get(name, name)
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return ast.unparse(node)


def _degree(call: Call, options: Options, default: int) -> int:
    return _whole(call, "degree", options.get("degree", default), 1, MAX_DEGREE)


def _whole(call: Call, name: str, value: Any, least: int, most: int) -> int:
    """Return a whole number within its limits. Raises SpecError."""
    if type(value) is not int or not least <= value <= most:
        example = f"such as {name}={max(least, 3)}"
        raise call.refuse(f"{name} must be a whole number from {least} to {most}, {example}")
    return value


def _knots(call: Call, value: Any, low: float, high: float) -> list[float]:
    """Return inner knots, which increase between the declared bounds. Raises SpecError."""
    knots = list(value) if isinstance(value, tuple | list) else [value]
    if not all(type(knot) in (int, float) for knot in knots) or len(knots) > MAX_FUNCTIONS:
        raise call.refuse(f"knots must be at most {MAX_FUNCTIONS} numbers: knots=(20, 40)")
    if any(b <= a for a, b in zip([low, *knots], [*knots, high], strict=True)):
        raise call.refuse("knots must increase, strictly between the declared bounds")
    return [float(knot) for knot in knots]
