"""Priors in text form: `normal(0, 0.02)`, `student_t(3, 0, 1)`, `horseshoe()`.

The numbers are in the units of the columns, as results are: of age, per year of age. Those of
horseshoe, spike_and_slab and r2d2, which are of several coefficients, are of standardised ones.
"""

import ast
from typing import Any

from dpmcmc.base.errors import SpecError, is_number, near

FIELDS = {
    "normal": ("loc", "scale"),
    "laplace": ("loc", "scale"),
    "cauchy": ("loc", "scale"),
    "student_t": ("df", "loc", "scale"),
    "uniform": ("lower", "upper"),
    "horseshoe": ("scale", "slab_sd"),
    "spike_and_slab": ("inclusion", "slab_sd"),
    "r2d2": ("mean_r2", "prec_r2", "cons_d2"),
}
SPELLINGS = {"R2D2": "r2d2", "mean_R2": "mean_r2", "prec_R2": "prec_r2", "cons_D2": "cons_d2"}
BOUNDED = ("normal", "laplace", "cauchy", "student_t")
LONGEST = 200
RIGHT = 'such as "normal(0, 0.02)", "student_t(3, 0, 1)" or "horseshoe()"'


def read_prior(text: str, pointer: str) -> tuple[str, dict[str, float]]:
    """Return the kind of a prior and its numbers by name. Raises SpecError."""
    call = _call(text)
    if call is None or not isinstance(call.func, ast.Name):
        raise SpecError(pointer, f"is no prior as one writes it, {RIGHT}")
    kind = SPELLINGS.get(call.func.id, call.func.id)
    if kind not in FIELDS:
        raise SpecError(pointer, f"must be one of {', '.join(FIELDS)}{near(kind, FIELDS)}")
    names = FIELDS[kind] + (("lower", "upper") if kind in BOUNDED else ())
    if len(call.args) > len(FIELDS[kind]):
        raise SpecError(pointer, f"has too many numbers: {kind}({', '.join(FIELDS[kind])})")
    nodes: dict[str | None, ast.expr] = dict(zip(FIELDS[kind], call.args, strict=False))
    for keyword in call.keywords:
        name = SPELLINGS.get(keyword.arg or "", keyword.arg)
        if name not in names or name in nodes:
            raise SpecError(pointer, f"has what {kind} does not take: {kind}({', '.join(names)})")
        nodes[name] = keyword.value
    numbers: dict[str, float] = {}
    for field, node in nodes.items():
        value: Any = None
        try:
            value = ast.literal_eval(node)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            value = None
        if not is_number(value):
            raise SpecError(pointer, f"must have a number for {field}, {RIGHT}")
        numbers[str(field)] = float(value)
    return kind, numbers


def is_alone(prior: object) -> bool:
    """Return whether JSON is one prior, and not an object of priors by parameter."""
    kind = prior.get("kind") if isinstance(prior, dict) else None
    return isinstance(kind, str) and "(" not in kind


def _call(text: str) -> ast.Call | None:
    """Return a text parsed as a function call; None where it is none."""
    if len(text) > LONGEST:
        return None
    try:
        body = ast.parse(text.strip(), mode="eval").body
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    return body if isinstance(body, ast.Call) else None
