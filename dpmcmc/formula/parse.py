"""The text of a formula becomes terms. Nothing in it is ever evaluated."""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from dpmcmc.errors import SpecError

POINTER = "/model/formula"
RIGHT = "write it as response ~ covariate + covariate"
MAX_LENGTH = 2000
MAX_TERMS = 2000  # before those that are the same are taken together
MAX_FACTORS = 5  # of a term
MAX_POWER = 5  # of a sum of terms
_QUOTED = re.compile(r"`[^`]+`")
_PLAIN = re.compile(r"[\w\s~+\-*:/^().,=]*")


@dataclass(frozen=True, slots=True)
class Token:
    """A factor as it is written: a column's name, or a call such as log(x)."""

    text: str
    call: bool


Term = tuple[Token, ...]


@dataclass(frozen=True, slots=True)
class Parsed:
    """response: None where there is none. terms: the intercept is the one without factors."""

    response: Token | None
    terms: tuple[Term, ...]


@lru_cache(maxsize=256)  # a job's formula is read when it is planned, submitted, run and answered
def parse(formula: str) -> Parsed:
    """Return the terms of `y ~ a + C(b) + a:b + c*d + e/f + (g + h)**2 - 1`. Raises SpecError."""
    _check_form(formula)
    from formulaic.errors import FormulaicError
    from formulaic.parser import DefaultFormulaParser

    try:
        parser = DefaultFormulaParser()
        if _count(parser.get_ast(formula)) > MAX_TERMS:
            raise SpecError(POINTER, f"it expands to more than {MAX_TERMS} terms")
        sides = parser.get_terms(formula)._to_dict()
    except (FormulaicError, AttributeError, SyntaxError, TypeError, ValueError, RecursionError):
        raise SpecError(POINTER, f"cannot be parsed: {RIGHT}") from None
    if set(sides) == {"root"}:
        return Parsed(None, _terms(sides["root"]))
    if set(sides) != {"lhs", "rhs"} or len(sides["lhs"]) != 1:
        raise SpecError(POINTER, RIGHT)
    response = _terms(sides["lhs"])[0]
    if len(response) != 1:
        raise SpecError(POINTER, "the response must be one column")
    return Parsed(response[0], _terms(sides["rhs"]))


def _check_form(formula: str) -> None:
    """Refuse, before any parser sees it, what no formula needs."""
    if not isinstance(formula, str):
        raise SpecError(POINTER, RIGHT)
    if len(formula) > MAX_LENGTH:
        raise SpecError(POINTER, f"longer than {MAX_LENGTH} characters")
    bare = _QUOTED.sub("c", formula)
    if not _PLAIN.fullmatch(bare) or bare.count("~") != 1:
        signs = "~ + - * : / ** ( )"
        told = "columns, calls such as log(x) or C(g), numbers and the signs"
        raise SpecError(POINTER, f"only one ~, {told} {signs} may be in it")


def _count(node: Any) -> int:
    """Return how many terms a formula expands to, at most."""
    arguments = getattr(node, "args", None)
    if arguments is None:
        return 1
    sign = str(getattr(node.operator, "symbol", node.operator))
    if sign in ("**", "^"):
        power = int(str(arguments[1]))
        if not 1 <= power <= MAX_POWER:
            raise SpecError(POINTER, f"a power of terms must be between 1 and {MAX_POWER}")
        count: int = _count(arguments[0]) ** power
        return count
    counts = [_count(argument) for argument in arguments]
    if len(counts) == 2 and sign in (":", "*"):
        left, right = counts
        return left * right + (left + right if sign == "*" else 0)
    return sum(counts)


def _terms(side: Any) -> tuple[Term, ...]:
    terms = []
    for term in side:
        tokens = tuple(token for factor in term.factors if (token := _token(factor)) is not None)
        if len(tokens) > MAX_FACTORS:
            raise SpecError(POINTER, f"a term crosses more than {MAX_FACTORS} columns")
        terms.append(tokens)
    return tuple(terms)


def _token(factor: Any) -> Token | None:
    """Return a factor as it is written, None for the intercept."""
    text, method = str(factor.expr), str(getattr(factor.eval_method, "value", ""))
    if method == "literal" and text == "1":
        return None
    if method == "literal":
        raise SpecError(POINTER, f"{text}: of numbers only 0 and 1 may be terms; write I({text}*x)")
    return Token(text, method == "python")
