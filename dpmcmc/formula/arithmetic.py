"""Arithmetic on columns, and its public bounds by interval arithmetic from the declared ones.

Sums, differences, products, quotients, constant powers and the functions below. Python's parser
makes a syntax tree of an expression, and this module evaluates it: no text is ever executed.
"""

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpmcmc.base.errors import SpecError, near
from dpmcmc.formula.parse import POINTER, Token, named, unwritten, with_stand_ins

Floats = NDArray[np.float64]
MAX_EXPONENT = 64.0


class Interval(NamedTuple):
    """An interval that contains a value."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Function:
    """An increasing function. above: the lower end of its domain; closed: which belongs to it."""

    of: Callable[[Any], Any]
    above: float = -np.inf
    closed: bool = True


FUNCTIONS = {
    "log": Function(np.log, 0.0, closed=False),
    "log2": Function(np.log2, 0.0, closed=False),
    "log10": Function(np.log10, 0.0, closed=False),
    "log1p": Function(np.log1p, -1.0, closed=False),
    "exp": Function(np.exp),
    "expm1": Function(np.expm1),
    "sqrt": Function(np.sqrt, 0.0),
}
STANDARDISED = ("center", "scale", "standardize")
DATA_DEPENDENT_FUNCTIONS = frozenset({*STANDARDISED, "lag", "rank", "hashed", "lookup"})
LEFT = {  # calls of the left side, and what to write there
    "trials": "cases | trials(n)",
    "surv": "surv(time, event)",
    "cbind": "cbind(cases, others)",
}
NAMES = ("I", "C", "poly", "bs", "cr", "ns", "s", "rw", "offset", "abs", *FUNCTIONS)
_SMOOTH = "smooths of several columns are not available: write s(x) + s(z)"
# functions of other software, and what to write here for f(x)
NOT_AVAILABLE = {
    **dict.fromkeys(("te", "t2", "ti"), _SMOOTH),
    "gp": "write s({})",
    "f": "write rw({0}) for a random walk, s({0}) for a curve, (1 | {0}) for groups",
    "mo": "monotonic effects are not available: write C({0}), or s({0}) where it is a number",
    "ordered": "declare the categories in their order, and write {}",
    **dict.fromkeys(("re", "Error"), "write (1 | {}) for effects of groups"),
    "strata": "write {0} for a level of each category, or (1 | {0}) for effects of groups",
    "cluster": "whose rows belong together is declared by the schema: its privacy_unit",
    "interaction": "write {}:h for categories crossed",
    "mi": "missing values are left out: declare missing codes of {0}, and write {0}",
    "me": "columns measured with error have no model: write {}",
    "se": "known errors have no model: weights={} beside a formula multiply a likelihood",
    **dict.fromkeys(("rate", "exposure"), "write + offset(log({})) on the right side"),
    **dict.fromkeys(("mvbind", "mvbrmsformula"), "a model has one response: fit one for each"),
    "rcs": "write cr({}, df=4)",
    **dict.fromkeys(("pspline", "lo", "loess"), "write s({})"),
    **dict.fromkeys(
        ("pmax", "pmin", "hinge"), "write bs({}, knots=(...), degree=1) for a line with bends"
    ),
    **dict.fromkeys(
        ("as_integer", "round", "floor"), "compute it before the upload, or declare categories"
    ),
    "pow": "write I({}^2)",
    **dict.fromkeys(("gr", "mm"), "write (1 | {})"),
    **dict.fromkeys(("cs", "cc"), "write cr({}, df=4)"),
    "weights": "weights are named beside a formula: weights={}",
    "trunc": "truncated responses are not available: declare bounds",
    "bernoulli": "the family is named beside a formula: family='bernoulli'",
    "cut": "declare a column of categories, or write bs({}, knots=(...), degree=1)",
    "cens": "write surv(time, event) ~ x, where event is 1 of rows that are not censored",
    "ifelse": "conditions are not available: declare a column of categories",
}


@dataclass(frozen=True, slots=True)
class Call:
    """A call in a formula. names: of columns as the formula writes them, by stand-in identifier."""

    text: str
    name: str
    arguments: tuple[ast.expr, ...]
    options: Mapping[str, ast.expr]
    names: Mapping[str, str]

    def refuse(self, reason: str) -> SpecError:
        """Return an error about this term of the formula."""
        return SpecError(POINTER, f"{self.text}: {reason}")

    def column(self, node: ast.expr) -> str | None:
        """Return the column that a node names; None where the node is something else."""
        written_name = self.names.get(node.id) if isinstance(node, ast.Name) else None
        return None if written_name is None else unwritten(written_name)

    def tokens(self) -> tuple[Token, ...]:
        """Return its arguments as factors of their own; arithmetic as I(...)."""
        tokens = []
        for node in self.arguments:
            column, text = self.column(node), named(ast.unparse(node), self.names)
            call = text if isinstance(node, ast.Call) else f"I({text})"
            tokens.append(Token(call, True) if column is None else Token(column, False))
        return tuple(tokens)


def read_call(text: str) -> Call:
    """Return the call that a factor is. Raises SpecError where it is none, or unknown."""
    python_text, names = with_stand_ins(text)
    try:
        tree = ast.parse(python_text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise SpecError(POINTER, f"{text}: cannot be parsed") from None
    if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name):
        raise SpecError(POINTER, f"{text}: write arithmetic as I(...)")
    name = names.get(tree.func.id, tree.func.id)
    if name in DATA_DEPENDENT_FUNCTIONS:
        reason = "it is computed from the data: compute it before the upload"
        if name in STANDARDISED:
            column = _first(tree, names)
            reason = (
                f"it is computed from the data: write {column}; numbers are standardised by their"
                f" declared bounds, or by numbers of your own: I(({column} - 50) / 10)"
            )
        raise SpecError(POINTER, f"{text}: {reason}")
    if name in NOT_AVAILABLE:
        raise SpecError(POINTER, f"{text}: {NOT_AVAILABLE[name].format(_first(tree, names))}")
    if name not in NAMES and name not in LEFT:
        raise SpecError(POINTER, f"{text}: {_unknown(name)}")
    options: dict[str, ast.expr] = {}
    for key in tree.keywords:
        option = "**" if key.arg is None else names.get(key.arg, key.arg)
        if option in options:
            raise SpecError(POINTER, f"{text}: {option} is given twice")
        options[option] = key.value
    return Call(text, name, tuple(tree.args), options, names)


def _first(call: ast.Call, names: Mapping[str, str]) -> str:
    """Return the column that is a call's first argument as a formula writes it; else x."""
    node = call.args[0] if call.args else None
    return names.get(node.id, "x") if isinstance(node, ast.Name) else "x"


def _unknown(name: str) -> str:
    return f"{name} is not known; there are {'(), '.join(NAMES)}(){near(name, NAMES)}"


@dataclass(frozen=True, slots=True)
class Expression:
    """Arithmetic on number columns. tree: ast.dump of it; bounds: of its values."""

    text: str
    columns: tuple[str, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]

    @property
    def square(self) -> float:
        """Largest sum of squares of its values in a row."""
        return float(max(self.lower[0] ** 2, self.upper[0] ** 2))

    def values(self, columns: Mapping[str, Floats]) -> Floats:
        """Return values (1, n), not yet clamped to the bounds."""
        call = read_call(self.text)
        with np.errstate(all="ignore"):
            walk = _Walk(call, lambda name: columns[name])
            computed = np.asarray(walk.value(_body(call)), np.float64)
        return np.broadcast_to(computed, (1, *computed.shape[-1:]))


def expression(call: Call, bounds: Mapping[str, Interval]) -> Expression:
    """Return the expression with its bounds, which follow from those of the columns.

    Raises SpecError where it has no column, is constant, or has no finite bounds.
    """
    walk = _Walk(call, lambda name: _bounds_of(call, bounds, name))
    with np.errstate(all="ignore"):
        low, high = walk.interval(_body(call))
    if not walk.columns:
        raise call.refuse("names no column")
    if not -np.inf < low < high < np.inf:
        reason = "is constant" if low == high else "is not bounded by the declared bounds"
        raise call.refuse(reason)
    return Expression(call.text, tuple(walk.columns), (float(low),), (float(high),))


def _body(call: Call) -> ast.expr:
    """Return the expression to compute: the argument of I(...), or the call itself."""
    if len(call.arguments) != 1 or call.options:
        raise call.refuse(f"{call.name} takes one argument and no options{_instead(call.name)}")
    if call.name in ("I", "offset"):
        return call.arguments[0]
    return ast.Call(ast.Name(call.name), list(call.arguments), [])


def _instead(name: str) -> str:
    """Return a hint for those who want another base of a logarithm; else an empty text."""
    return "; log2 and log10 have the bases 2 and 10" if name.startswith("log") else ""


def _bounds_of(call: Call, bounds: Mapping[str, Interval], name: str) -> Interval:
    if name not in bounds:
        raise call.refuse(f"{name!r} is no number column of the dataset{near(name, bounds)}")
    return bounds[name]


class _Walk:
    """Evaluates a syntax tree, on intervals or on values. columns: those that it has read."""

    def __init__(self, call: Call, column: Callable[[str], Any]) -> None:
        self._call, self._column = call, column
        self.columns: dict[str, None] = {}

    def _name(self, node: ast.Name) -> Any:
        name = self._call.column(node) or node.id
        self.columns[name] = None
        return self._column(name)

    def _number(self, node: ast.expr) -> float | None:
        """Return the value of a constant; None where the node is no constant."""
        sign = 1.0
        while isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            sign, node = (-sign if isinstance(node.op, ast.USub) else sign), node.operand
        value = node.value if isinstance(node, ast.Constant) else None
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        try:
            return sign * float(value)
        except OverflowError:
            raise self._call.refuse("has a number that is too large") from None

    def _exponent(self, node: ast.BinOp) -> float:
        """Return the exponent of a power. Raises SpecError where it is no number or too large."""
        power = self._number(node.right)
        if power is None or not 0.0 < abs(power) <= MAX_EXPONENT:
            raise self._call.refuse(f"an exponent must be a number, at most {MAX_EXPONENT:g}")
        return power

    def _function(self, node: ast.Call) -> str:
        """Return the name of a function that is called with one argument. Raises SpecError."""
        identifier = node.func.id if isinstance(node.func, ast.Name) else ""
        name = self._call.names.get(identifier, identifier)
        if name not in FUNCTIONS and name not in ("I", "abs"):
            raise self._call.refuse(_unknown(name or "that"))
        if len(node.args) != 1 or node.keywords:
            raise self._call.refuse(f"{name} takes one argument and no options{_instead(name)}")
        return name

    def interval(self, node: ast.expr) -> Interval:
        """Return an interval that contains all values of a tree. Raises SpecError."""
        number = self._number(node)
        if number is not None:
            return Interval(number, number)
        match node:
            case ast.Name():
                bounds: Interval = self._name(node)
                return bounds
            case ast.UnaryOp(op=ast.USub()):
                low, high = self.interval(node.operand)
                return Interval(-high, -low)
            case ast.UnaryOp(op=ast.UAdd()):
                return self.interval(node.operand)
            case ast.BinOp(op=ast.Pow()):
                return self._power(self.interval(node.left), self._exponent(node))
            case ast.BinOp():
                return self._combined(node.op, self.interval(node.left), self.interval(node.right))
            case ast.Call():
                return self._applied(self._function(node), self.interval(node.args[0]))
        raise self._call.refuse("only + - * / ** and functions of columns may be in it")

    def _combined(self, sign: ast.operator, left: Interval, right: Interval) -> Interval:
        """Return the interval of a sum, difference, product or ratio. Raises SpecError."""
        if isinstance(sign, ast.Add):
            return Interval(left.low + right.low, left.high + right.high)
        if isinstance(sign, ast.Sub):
            return Interval(left.low - right.high, left.high - right.low)
        if isinstance(sign, ast.Div):
            if right.low <= 0.0 <= right.high:
                raise self._call.refuse("the declared bounds allow a division by 0")
            right = Interval(float(np.float64(1) / right.high), float(np.float64(1) / right.low))
        elif not isinstance(sign, ast.Mult):
            raise self._call.refuse("only + - * / ** and functions of columns may be in it")
        ends = [np.float64(a) * b for a in left for b in right]
        return self._finite(min(ends), max(ends))

    def _power(self, base: Interval, power: float) -> Interval:
        """Return the interval of a power. Raises SpecError where it has no bounds."""
        integral = power == round(power)
        if base.low < 0.0 and not integral:
            raise self._call.refuse("the declared bounds allow a root of a negative number")
        if power < 0.0 and base.low <= 0.0 <= base.high:
            raise self._call.refuse("the declared bounds allow a division by 0")
        ends = [np.float64(end) ** power for end in base]
        if integral and power % 2 == 0 and base.low < 0.0 < base.high:
            ends.append(np.float64(0.0))
        return self._finite(min(ends), max(ends))

    def _applied(self, name: str, inner: Interval) -> Interval:
        """Return the interval of a function's values. Raises SpecError where it has no bounds."""
        if name == "I":
            return inner
        if name == "abs":
            ends = [abs(inner.low), abs(inner.high)]
            return Interval(0.0 if inner.low < 0.0 < inner.high else min(ends), max(ends))
        function = FUNCTIONS[name]
        defined = inner.low >= function.above if function.closed else inner.low > function.above
        if not defined:
            relation = "at least" if function.closed else "above"
            raise self._call.refuse(
                f"{name} is not bounded: its argument must be {relation} {function.above:g},"
                f" and the declared bounds allow {inner.low:g}"
            )
        return self._finite(float(function.of(inner.low)), float(function.of(inner.high)))

    def _finite(self, low: float, high: float) -> Interval:
        """Return the interval of a result. Raises SpecError where an end is not finite."""
        if not -np.inf < low <= high < np.inf:
            raise self._call.refuse("the declared bounds allow numbers that are too large")
        return Interval(float(low), float(high))

    def value(self, node: ast.expr) -> Any:
        """Return the values of a tree whose interval is known."""
        number = self._number(node)
        if number is not None:
            return number
        match node:
            case ast.Name():
                return self._name(node)
            case ast.UnaryOp(op=ast.USub()):
                return -self.value(node.operand)
            case ast.UnaryOp():
                return self.value(node.operand)
            case ast.BinOp(op=ast.Pow()):
                return self.value(node.left) ** self._exponent(node)
            case ast.BinOp(op=sign):
                left, right = self.value(node.left), self.value(node.right)
                return OPERATORS[type(sign)](left, right)
            case ast.Call():
                inner, name = self.value(node.args[0]), self._function(node)
                if name in FUNCTIONS:
                    return FUNCTIONS[name].of(inner)
                return np.abs(inner) if name == "abs" else inner
        raise self._call.refuse("only + - * / ** and functions of columns may be in it")


OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
}
