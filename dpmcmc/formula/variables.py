"""The variables of a formula: its names and calls, resolved with the columns of a schema."""

import ast
import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Literal

from dpmcmc.base.errors import SpecError, near
from dpmcmc.formula.arithmetic import LEFT, Call, Interval, expression, read_call
from dpmcmc.formula.bases import BASES, basis, first_column, powers, walk
from dpmcmc.formula.columns import Variable
from dpmcmc.formula.parse import POINTER, TRIALS, Term, Token, written
from dpmcmc.inputs.schema import BinaryColumn, CategoryColumn, Column, NumberColumn, Schema


def column_of(schema: Schema, name: str) -> Column:
    """Return the column of this name. Raises SpecError where there is none."""
    for column in schema.columns:
        if column.name == name:
            return column
    guess = near(name, [column.name for column in schema.columns])
    raise SpecError(POINTER, f"the dataset has no column {name!r}{guess}")


def is_offset(term: Term) -> bool:
    """Whether a term of the formula is offset(...)."""
    return len(term) == 1 and term[0].call and term[0].text.startswith("offset(")


def offset_of(schema: Schema, token: Token) -> Variable:
    """Return the variable that offset(...) adds to the linear predictor. Raises SpecError."""
    return _computed(schema, read_call(token.text))


def response_variable(schema: Schema, token: Token) -> Variable:
    """Return the response: a column, or arithmetic on columns. Raises SpecError on others."""
    if token.call and token.text.startswith("mo("):
        inside = token.text[3:].rstrip(") ")
        message = f"{token.text}: write {inside} on the left side, family ordinal"
        raise SpecError(POINTER, message)
    answer = _variable(schema, token)
    same = bool(answer.categories) and not answer.reference  # such as factor(y)
    computed = answer.source is not None or same
    if (token.call and not computed) or (len(answer.parts) > 1 and not answer.categories):
        raise SpecError(POINTER, "the response must be one column, or arithmetic on some")
    return answer


def of_response(
    schema: Schema, token: Token, beside: Token | None
) -> tuple[Variable, Literal["", "trials", "event"], Variable | None]:
    """Return the response, what stands beside it (see Design), and that. Raises SpecError."""
    call = read_call(token.text) if token.call and token.text.startswith(_PAIRED) else None
    if call is not None and call.name == "surv" and beside is None:
        time, event = _pair(call)
        return response_variable(schema, time), "event", _variable(schema, event)
    if call is not None and call.name == "cbind" and beside is None:
        all_trials = _trials_less_cases(call)
        if all_trials is not None:
            cases = call.tokens()[0]
            return response_variable(schema, cases), "trials", _variable(schema, all_trials)
        token, others = _pair(call)
        if token.call or others.call:
            raise call.refuse(f"give two columns: {LEFT['cbind']}")
        beside = Token(f"trials({written(token.text)} + {written(others.text)})", True)
    if beside is None:
        return response_variable(schema, token), "", None
    behind = read_call(beside.text)
    if behind.name != "trials" or len(behind.arguments) != 1 or behind.options:
        raise SpecError(POINTER, TRIALS)
    node = behind.arguments[0]
    if isinstance(node, ast.Constant) and type(node.value) is int:
        ends = (float(node.value),)
        alike = Variable(str(node.value), (), (str(node.value),), (), ends, ends)
        return response_variable(schema, token), "trials", alike
    return response_variable(schema, token), "trials", _variable(schema, behind.tokens()[0])


_PAIRED = ("surv(", "cbind(")


def _pair(call: Call) -> tuple[Token, Token]:
    """Return the two arguments of a call. Raises SpecError.

    Those of surv may have their names, time and event.
    """
    named = [key for key in ("time", "event") if call.name == "surv" and key in call.options]
    given = [*call.arguments, *(call.options[key] for key in named)]
    if len(given) != 2 or len(named) < len(call.options) or named == ["time"]:
        raise call.refuse(f"write {LEFT[call.name]}")
    first, second = replace(call, arguments=tuple(given)).tokens()
    return first, second


def _trials_less_cases(call: Call) -> Token | None:
    """Return the column n of cbind(k, n - k), as R's glm takes cases among trials; else None."""
    if len(call.arguments) != 2 or call.options:
        return None
    cases, others = call.arguments
    if isinstance(others, ast.Call) and isinstance(others.func, ast.Name) and others.args:
        name = call.names.get(others.func.id, others.func.id)
        others = others.args[0] if name == "I" else others
    if not (isinstance(others, ast.BinOp) and isinstance(others.op, ast.Sub)):
        return None
    trials, taken = call.column(others.left), call.column(others.right)
    if trials is None or taken is None or taken != call.column(cases):
        return None
    return Token(trials, False)


def expanded_powers(terms: list[Term]) -> list[Term]:
    """Return the terms, with each poly(x, k, raw=True) expanded to its k powers."""
    expanded: list[Term] = []
    for term in terms:
        powers_of = [(powers(read_call(t.text)) if t.call else None) for t in term]
        choices = [
            [t] if factors is None else [Token(text, True) for text in factors]
            for t, factors in zip(term, powers_of, strict=True)
        ]
        expanded += product(*choices)
    return expanded


def check_response(answer: Variable, terms: list[list[Variable]]) -> None:
    """Raise SpecError where a column of the response is also one of a covariate."""
    read = {column for term in terms for variable in term for column in variable.columns}
    if read & set(answer.columns):
        raise SpecError(POINTER, "the response cannot be a covariate as well")


def check_terms(terms: list[list[Variable]]) -> None:
    """Raise SpecError where a term has a variable twice, or a formula a term twice."""
    named = [frozenset(term) for term in terms]
    repeated = any(len(names) < len(term) for names, term in zip(named, terms, strict=True))
    if repeated or len(set(named)) < len(named):
        raise SpecError(POINTER, "a term names a column twice, or stands in the formula twice")


def variables_of(schema: Schema, term: Term) -> list[Variable]:
    """Return the variables whose product a term is. Raises SpecError."""
    return [_variable(schema, token) for token in term]


def _variable(schema: Schema, token: Token) -> Variable:
    """Return the variable of one factor. Raises SpecError."""
    if not token.call:
        return _plain(column_of(schema, token.text))
    call = read_call(token.text)
    if call.name == "offset":
        raise call.refuse("an offset is a term of its own")
    if call.name in LEFT:
        raise call.refuse(f"stands on the left side of ~: {LEFT[call.name]} ~ x")
    if call.name == "C":
        return _categories(schema, call)
    name = _only_column(call)
    if call.name == "I" and name is not None:
        return _plain(column_of(schema, name), call)
    return _computed(schema, call)


TREATMENT = 'give a column and, where it is not the first declared one, its reference: ref="b"'


def _categories(schema: Schema, call: Call) -> Variable:
    """Return the variable of C(g), C(g, ref="b") or C(g, Treatment("b")). Raises SpecError."""
    name = call.column(call.arguments[0]) if call.arguments else None
    references = [*call.arguments[1:], *(call.options[key] for key in call.options if key == "ref")]
    if name is None or len(references) > 1 or set(call.options) - {"ref"}:
        raise call.refuse(f"{TREATMENT}; there are no other contrasts")
    column = column_of(schema, name)
    if isinstance(column, NumberColumn):
        message = f"C() needs a column of categories, {column.name!r} is a number: write"
        raise SpecError(POINTER, f"{message} {written(column.name)}, or declare its categories")
    variable, reference = _plain(column), _reference(call, references)
    if reference is None:
        return variable
    if reference not in column.categories:
        guess = near(reference, column.categories)
        raise call.refuse(f"{reference!r} is no category of {column.name!r}{guess}")
    return _compared_with(variable, column.categories.index(reference))


def _reference(call: Call, references: list[ast.expr]) -> str | None:
    """Return the category that is named as the reference; None for the first declared one."""
    node = references[0] if references else None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        values = [*node.args, *(key.value for key in node.keywords)]
        named = all(key.arg in ("reference", "ref", "base") for key in node.keywords)
        if call.names.get(node.func.id, node.func.id) == "Treatment" and named and len(values) < 2:
            node = values[0] if values else None
    if isinstance(node, ast.Name) and call.column(node) == "Treatment":
        node = None
    if node is None:
        return None
    if not isinstance(node, ast.Constant) or isinstance(node.value, bool | float | None):
        raise call.refuse(f"{TREATMENT}; there are no other contrasts")
    return str(node.value)


def _compared_with(variable: Variable, reference: int) -> Variable:
    """Return a column's categories, compared with another one than the first."""
    others = [k for k in range(len(variable.categories)) if k != reference]
    parts = tuple(f"{variable.label}[{variable.categories[k]}]" for k in others)
    return replace(variable, parts=parts, reference=reference)


def with_one_reference(terms: Sequence[Sequence[Variable]]) -> list[list[Variable]]:
    """Return terms in which each column is compared with one category, wherever it stands.

    Raises SpecError where a formula names two.
    """
    references: dict[str, int] = {}
    for variable in (variable for term in terms for variable in term):
        known = references.get(variable.label, 0)
        if known and variable.reference and known != variable.reference:
            raise SpecError(POINTER, f"{variable.label!r} has two references: name one")
        if variable.categories:
            references[variable.label] = known or variable.reference
    return [
        [_compared_with(v, references[v.label]) if references.get(v.label) else v for v in term]
        for term in terms
    ]


def _only_column(call: Call) -> str | None:
    """Return the column of a call that has one column as its only argument; else None."""
    if len(call.arguments) != 1 or call.options:
        return None
    return call.column(call.arguments[0])


def _plain(column: Column, call: Call | None = None) -> Variable:
    """Return the variable of a column as it stands. call: one that takes numbers alone."""
    name = column.name
    if isinstance(column, CategoryColumn | BinaryColumn):
        if call is not None:
            raise call.refuse(f"{name!r} is no number column of the dataset")
        parts = tuple(f"{name}[{category}]" for category in column.categories[1:])
        return Variable(name, (name,), parts, column.categories)
    return Variable(name, (name,), (name,), (), (column.lower,), (column.upper,))


def _walk(schema: Schema, call: Call) -> Variable:
    """Return the variable of rw(g). Raises SpecError where g has no order of few values."""
    name = first_column(call)
    column = column_of(schema, name)
    if isinstance(column, NumberColumn):
        if not column.integer:
            raise call.refuse(
                f"{name!r} is no column of categories or whole numbers: write s({written(name)})"
            )
        values = range(math.ceil(column.lower), math.floor(column.upper) + 1)
        steps, labels = walk(call, name, values), [str(value) for value in values]
    else:
        labels = list(column.categories)
        steps = walk(call, name, range(len(labels)))
    parts = tuple(f"{call.text}[{label}]" for label in labels[1:])
    ends = steps.lower, steps.upper
    return Variable(
        call.text, (name,), parts, lower=ends[0], upper=ends[1], square=steps.square, source=steps
    )


def _computed(schema: Schema, call: Call) -> Variable:
    """Return the variable of a basis or of an expression. Raises SpecError."""
    bounds = {}
    for column in schema.columns:
        if isinstance(column, NumberColumn):
            bounds[column.name] = Interval(column.lower, column.upper)
    text = call.text
    if call.name == "rw":
        return _walk(schema, call)
    if call.name in BASES:
        functions = basis(call, bounds)
        parts = tuple(f"{text}[{k}]" for k in range(1, len(functions.lower) + 1))
        return Variable(
            text,
            functions.columns,
            parts,
            lower=functions.lower,
            upper=functions.upper,
            square=functions.square,
            source=functions,
        )
    arithmetic = expression(call, bounds)
    return Variable(
        text, arithmetic.columns, (text,), (), arithmetic.lower, arithmetic.upper, source=arithmetic
    )
