"""The parser of formulas: from a text to terms. No part of the text is executed."""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from dpmcmc.base.errors import SpecError
from dpmcmc.base.loading import loaded

POINTER = "/model/formula"
REMEDY = "write it as response ~ covariate + covariate"
MAX_LENGTH = 2000
MAX_TERMS = 2000  # before equal terms are merged
MAX_FACTORS = 5  # of a term
MAX_POWER = 5  # of a sum of terms
# `name` or Q("name"), a string, a number, or a name without quotes: a letter, then whatever may
# follow in a word; and R's sign of powers, which Python reads otherwise
_WORDS = re.compile(
    r"""`(?P<quoted>[^`]+)`|Q\(\s*(?P<mark>['"])(?P<q>[^`'"]+)(?P=mark)\s*\)|'[^']*'|"[^"]*\""""
    r"""|\.?\d[\w.]*|(?P<bare>[^\W\d](?:[\w.]|[^\x00-\x7f\s])*)|\^"""
)
_DOTS = re.compile(rf"{_WORDS.pattern}|\.")
_OTHERS = re.compile(r"[\w\s~+\-*:/^().,=\[\]]*")  # all that is in a formula beside them
_FOLLOWED = re.compile(r"\s*(?:\(|=(?!=))")  # the name of a function, or of an option
_BRMS = re.compile(r"\s*(?:bf|brmsformula|lf|mvbf)\s*\(")
_PART = r"((?:`[^`]*`|\([^()|`]*\)|[^()|`])*)"
_GROUPED = re.compile(
    rf"(\+)?\s*\(\s*{_PART}(\|{{1,2}}){_PART}\)(?(1)|\s*\+?)"
)  # (1 | ward), and the sign before it, or else behind it
_UNQUOTED = r"(?=(?:[^`]*`[^`]*`)*[^`]*$)"  # behind a sign that is in no name
_PACKAGES = re.compile(rf"\b(?:base|brms|lme4|mgcv|rms|splines|stats|survival)::{_UNQUOTED}")
_COLON, _SLASH = re.compile(f":{_UNQUOTED}"), re.compile(f"/{_UNQUOTED}")
_PARTS = ("L", "M", "N")  # Unicode categories of what a name consists of
_JOINERS = "_.\u200c\u200d"
# names of functions as R and NumPy spell them
SPELLINGS = {
    **dict.fromkeys(("factor", "as.factor", "relevel"), "C"),
    "Surv": "surv",
    **dict.fromkeys(("as.numeric", "as.double"), "I"),
    "as.integer": "as_integer",
    "as.ordered": "ordered",
    **{
        f"{module}.{name}": name
        for module in ("np", "numpy")
        for name in ("log", "log2", "log10", "log1p", "exp", "expm1", "sqrt", "abs")
    },
}
CONSTANTS = {
    **dict.fromkeys(("True", "TRUE", "T"), True),
    **dict.fromkeys(("False", "FALSE", "F"), False),
    **dict.fromkeys(("None", "NULL"), None),
}


@dataclass(frozen=True, slots=True)
class Token:
    """A factor as it is written: a column's name, or a call such as log(x)."""

    text: str
    call: bool


Term = tuple[Token, ...]


@dataclass(frozen=True, slots=True)
class Parsed:
    """A parsed formula. response: or None. terms: one without factors is the intercept.

    groups: what stands before the bar of each (1 | ward), the bar or two, and what stands after it.
    beside: what stands behind | on the left side, such as trials(n); None where nothing does.
    """

    response: Token | None
    terms: tuple[Term, ...]
    groups: tuple[tuple[str, str, str], ...] = ()
    beside: Token | None = None


def with_stand_ins(text: str) -> tuple[str, dict[str, str]]:
    """Return a formula with a stand-in for every column's name, and the names by stand-in.

    Python's parser changes names (NFKC), and refuses keywords and some letters; so it sees
    identifiers such as _name0_. The names are returned as the formula writes them, see `written`.
    ASCII names of functions and options have none; SPELLINGS of functions become their names here.
    """
    names: dict[str, str] = {}

    def stand_in(match: re.Match[str]) -> str:
        quoted, bare = match["quoted"] or match["q"], match["bare"]
        if quoted is None and bare is None:
            return "**" if match[0] == "^" else match[0]
        if bare is not None:
            if bare.isascii() and _FOLLOWED.match(text, match.end()):
                return SPELLINGS.get(bare, bare)
            _check_letters(bare)
        stand_in_name = f"_name{len(names)}_"
        names[stand_in_name] = bare or written(quoted)
        return stand_in_name

    return _WORDS.sub(stand_in, text), names


def written(name: str) -> str:
    """Return a column's name as a formula writes it, in backticks where it needs them."""
    match = _WORDS.fullmatch(name)
    plain = match is not None and match["bare"] is not None and name not in CONSTANTS
    return name if plain and _is_plain(name) else f"`{name}`"


def _with_all_columns(formula: str, columns: Sequence[str]) -> str:
    """Return a formula with `.` on its right side replaced by all columns that its left has not."""
    left, tilde, right = formula.partition("~")
    if not tilde or all(match[0] != "." for match in _DOTS.finditer(right)):
        return formula
    words = [match for match in _WORDS.finditer(left) if not _FOLLOWED.match(left, match.end())]
    taken = {match["bare"] or match["quoted"] or match["q"] for match in words}
    others = " + ".join(written(column) for column in columns if column not in taken)
    if not others:
        raise SpecError(POINTER, ". stands for all other columns, and there is none")
    return left + tilde + _DOTS.sub(lambda m: f"({others})" if m[0] == "." else m[0], right)


def crossed(text: str) -> list[str]:
    """Return the columns of g:h as they are written, one or more."""
    return [part.strip() for part in _COLON.split(text)]


def slashed(text: str) -> list[str]:
    """Return what g/h consists of as it is written, one part or more."""
    return [part.strip() for part in _SLASH.split(text)]


def unwritten(text: str) -> str:
    """Return a column's name without backticks."""
    return text[1:-1] if text.startswith("`") else text


def named(python_text: str, names: Mapping[str, str]) -> str:
    """Return a text with stand-ins replaced by the names that the formula writes."""
    return _WORDS.sub(lambda match: names.get(match[0], match[0]), python_text)


def _check_letters(name: str) -> None:
    if not _is_plain(name):
        raise SpecError(POINTER, _ALLOWED)


def _is_plain(name: str) -> bool:
    """Whether a name consists of letters, their marks and digits."""
    return all(c in _JOINERS or unicodedata.category(c)[0] in _PARTS for c in name)


@lru_cache(maxsize=256)  # a job's formula is read when it is planned, submitted, run and answered
def parse(formula: str, columns: tuple[str, ...] = ()) -> Parsed:
    """Return the terms of `y ~ a + C(b) + a:b + c*d + e/f + (g + h)**2 - 1`. Raises SpecError.

    columns: all that there are, which `.` stands for on the right side.
    """
    if not isinstance(formula, str):
        raise SpecError(POINTER, REMEDY)
    if len(formula) > MAX_LENGTH:
        raise SpecError(POINTER, f"longer than {MAX_LENGTH} characters")
    formula, groups = _without_groups(_PACKAGES.sub("", formula))
    _check_form(formula)
    if not formula.partition("~")[2].strip():
        raise SpecError(POINTER, f"nothing stands behind ~: {CONSTANT}")
    parts = [part for *_, name in groups for part in slashed(name)]
    taken = {unwritten(column) for part in parts for column in crossed(part)}
    others = tuple(column for column in columns if column not in taken)
    whole, beside = _split_beside(_with_all_columns(formula, others))
    python_text, names = with_stand_ins(whole)
    sides = _sides(python_text)
    if groups and set(sides) == {"root"}:
        raise SpecError(POINTER, f"groups need a response: {REMEDY} + (1 | group)")
    if set(sides) == {"root"}:
        if beside is not None:
            raise SpecError(POINTER, REMEDY)
        return Parsed(None, _remaining_terms(sides["root"], "root", python_text, names))
    if set(sides) != {"lhs", "rhs"}:
        raise SpecError(POINTER, REMEDY)
    response = _terms(sides["lhs"], names)[0] if len(sides["lhs"]) == 1 else ()
    if len(response) != 1:
        raise SpecError(POINTER, ONE_RESPONSE)
    terms = _remaining_terms(sides["rhs"], "rhs", python_text, names)
    if not terms and not groups:
        raise SpecError(POINTER, f"it has no terms: {CONSTANT}")
    return Parsed(response[0], terms, groups, beside)


def _without_groups(formula: str) -> tuple[str, tuple[tuple[str, str, str], ...]]:
    """Return a formula without its (1 | ward), and what is before, on and after each bar."""
    left, tilde, right = formula.partition("~")
    groups: list[tuple[str, str, str]] = []

    def taken(match: re.Match[str]) -> str:
        groups.append((match[2].strip(), match[3], match[4].strip()))
        return ""

    right = _GROUPED.sub(taken, right)
    if groups and not right.strip():
        right = " 1"
    return left + tilde + right, tuple(groups)


def _split_beside(formula: str) -> tuple[str, Token | None]:
    """Return a formula without what stands behind | on its left side, and that."""
    left, tilde, right = formula.partition("~")
    at = _WORDS.sub(lambda match: "c" * len(match[0]), left).find("|")
    if at < 0:
        return formula, None
    return left[:at] + tilde + right, Token(left[at + 1 :].strip(), True)


def _sides(python_text: str) -> dict[str, Any]:
    """Return the terms of a formula by side. Raises SpecError."""
    parsers, formulaic_error = loaded("formulaic.parser"), loaded("formulaic.errors").FormulaicError
    try:
        parser = parsers.DefaultFormulaParser()
        if _count(parser.get_ast(python_text)) > MAX_TERMS:
            raise SpecError(POINTER, f"it expands to more than {MAX_TERMS} terms")
        sides: dict[str, Any] = parser.get_terms(python_text)._to_dict()
    except (
        formulaic_error,
        AttributeError,
        SyntaxError,
        TypeError,
        ValueError,
        RecursionError,
    ) as error:
        if isinstance(error, SpecError):
            raise
        raise SpecError(POINTER, f"cannot be parsed: {REMEDY}") from None
    return sides


def _remaining_terms(
    side: Any, key: str, python_text: str, names: dict[str, str]
) -> tuple[Term, ...]:
    """Return the terms that are left after those that `-` takes away.

    A name has a stand-in for each place, so that x:x and x + x can be refused: no term equals
    another, and none is taken away. With one stand-in for each name they are.
    Raises SpecError where a name is taken away that no term has.
    """
    terms = _terms(side, names)
    if "-" not in python_text:
        return terms
    columns = {stand_in: unwritten(name) for stand_in, name in names.items()}
    factors = " ".join(str(factor.expr) for term in side for factor in term.factors)
    mentioned = {columns.get(match[0]) for match in _WORDS.finditer(factors)}
    for match in _WORDS.finditer(python_text.partition("~")[2]):
        name = columns.get(match[0])
        if name is not None and name not in mentioned:
            raise SpecError(POINTER, f"{name} is taken away, and no term has it: leave it out")
    first = {name: stand_in for stand_in, name in reversed(columns.items())}
    merged = _WORDS.sub(lambda match: first.get(columns.get(match[0], ""), match[0]), python_text)
    kept = set(map(_unquoted, _terms(_sides(merged)[key], names)))
    return tuple(term for term in terms if _unquoted(term) in kept)


def _unquoted(term: Term) -> frozenset[Token]:
    """Return the factors of a term in any order, without backticks: `T` may stand for T."""
    return frozenset(Token(token.text.replace("`", ""), token.call) for token in term)


_ALLOWED = (
    "only one ~, columns, calls such as log(x) or C(g), numbers and the signs ~ + - * : / ** ( )"
    " may be in it"
)


CONSTANT = "write y ~ 1 for the mean of all rows"
ONE_RESPONSE = (
    "the response must be one column: write I(...) for arithmetic, cases | trials(n) for cases"
    " among trials"
)
TRIALS = "on the left side | is followed by trials(n): write cases | trials(n), family binomial"
_COMPARED = "comparisons are not available: declare a column of categories"
# signs of other software, and what to write here
_REFUSED = {
    "|": "effects of groups are written (1 | g), as a term of their own; both parts of a model have"
    " the same columns: write x + z in place of x | z",
    "%c%": "a %in% b is written a:b",  # words are c there
    "<": _COMPARED,
    ">": _COMPARED,
    "==": _COMPARED,
    "!=": _COMPARED,
    "$": "columns are written without the name of a table",
}


def _check_form(formula: str) -> None:
    """Raise SpecError on a text that has characters that no formula needs."""
    remainder = _WORDS.sub("c", formula)
    left, tilde, right = remainder.partition("~")
    if left.count("|") > 1:
        raise SpecError(POINTER, TRIALS)
    remainder = left.replace("|", "") + tilde + right
    if _BRMS.match(formula):
        raise SpecError(POINTER, "write the formula alone, and its family beside it")
    if remainder.count("~") > 1:
        raise SpecError(POINTER, "a model has one formula, of the mean: others have no columns")
    if re.search(r"\|\s*\w*\s*\|", right):
        message = "a model has one response, and its groups one bar or two: write (1 | g)"
        raise SpecError(POINTER, message)
    if "==" in left and re.match(r"\s*[sS]urv\b", formula):
        message = "write surv(time, event), whose event is the second declared category, or 1"
        raise SpecError(POINTER, message)
    for sign, remedy in _REFUSED.items():
        if sign in remainder:
            raise SpecError(POINTER, remedy)
    if not _OTHERS.fullmatch(remainder) or remainder.count("~") != 1:
        raise SpecError(POINTER, _ALLOWED)


def _count(node: Any) -> int:
    """Return an upper bound of the number of terms that a formula expands to."""
    arguments = getattr(node, "args", None)
    if arguments is None:
        return 1
    sign = str(getattr(node.operator, "symbol", node.operator))
    if sign in ("**", "^"):
        try:
            power = int(str(arguments[1]))
        except ValueError:
            power = 0
        if not 1 <= power <= MAX_POWER:
            raise SpecError(POINTER, f"a power of terms must be a whole number, 1 to {MAX_POWER}")
        terms: int = _count(arguments[0])
        if terms == 1 and power > 1:
            raise SpecError(
                POINTER,
                "a power of one term is that term itself: write I(x ** 2), or poly(x, 2)",
            )
        return int(terms**power)
    counts = [_count(argument) for argument in arguments]
    if len(counts) == 2 and sign in (":", "*"):
        left, right = counts
        return left * right + (left + right if sign == "*" else 0)
    return sum(counts)


def _terms(side: Any, names: dict[str, str]) -> tuple[Term, ...]:
    """Return the terms of a side of a formula. Raises SpecError on too many factors."""
    terms = []
    for term in side:
        tokens = (_token(factor, names) for factor in term.factors)
        factors = tuple(token for token in tokens if token is not None)
        if len(factors) > MAX_FACTORS:
            raise SpecError(POINTER, f"a term crosses more than {MAX_FACTORS} columns")
        terms.append(factors)
    return tuple(terms)


def _token(factor: Any, names: dict[str, str]) -> Token | None:
    """Return a factor as the formula writes it; None for the intercept."""
    text, method = str(factor.expr), str(getattr(factor.eval_method, "value", ""))
    if method == "literal" and text == "1":
        return None
    if method == "literal":
        raise SpecError(POINTER, f"{text}: of numbers only 0 and 1 may be terms; write I({text}*x)")
    if method == "python":
        return Token(named(text, names), True)
    return Token(unwritten(names.get(text, text)), False)
