"""Names of parameters: no two parameters of a result share one, and none is that of a dimension."""

from collections.abc import Sequence

INTERCEPT, LOG_SIGMA = "Intercept", "log_sigma"
DRAW_COLUMNS = ("chain", "draw", "warmup")  # beside parameters in tables of draws
# no column's coefficient is called so: other parameters are, and what stands beside them
RESERVED = (INTERCEPT, LOG_SIGMA, *DRAW_COLUMNS)


def distinct(names: Sequence[str]) -> tuple[str, ...]:
    """Return names of which no two are the same: of equal ones those behind the first get `_`."""
    found, taken = list[str](), set(names)
    for name in names:
        own = name
        if name in found:
            while own in taken:
                own += "_"
        taken.add(own)
        found.append(own)
    return tuple(found)


def coefficient_names(terms: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return the names of coefficients: factors of their terms, with colons between them.

    A column whose name is reserved has `_` behind it, and so has a coefficient whose name an
    earlier one has. Results, files, priors and questions all call them so.
    """
    labels = {label for term in terms for label in term}
    own = {label: label for label in labels}
    for label in labels.intersection(RESERVED):
        while own[label] in labels or own[label] in RESERVED:
            own[label] += "_"
    return distinct([":".join(own[label] for label in term) or INTERCEPT for term in terms])
