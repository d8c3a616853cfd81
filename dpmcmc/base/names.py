"""Names of parameters: no two parameters of a result share one, and none is that of a dimension."""

from collections.abc import Sequence

INTERCEPT, LOG_SIGMA, LOG_DISPERSION = "Intercept", "log_sigma", "log_dispersion"
LOG_SCALES = (LOG_SIGMA, LOG_DISPERSION)  # of responses: in no unit of a column
DRAW_COLUMNS = ("chain", "draw", "warmup")  # beside parameters in tables of draws
DRY_RUN = "dry_run"  # a further one, where the rows were made
# names of other parameters and of columns beside them: no coefficient of a column gets one
RESERVED = (INTERCEPT, *LOG_SCALES, *DRAW_COLUMNS)


def distinct(names: Sequence[str]) -> tuple[str, ...]:
    """Return names made unique: each repetition of a name gets `_` at its end."""
    unique, used = list[str](), set(names)
    for name in names:
        candidate = name
        if name in unique:
            while candidate in used:
                candidate += "_"
        used.add(candidate)
        unique.append(candidate)
    return tuple(unique)


def coefficient_names(terms: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return the names of coefficients: factors of their terms, with colons between them.

    A reserved name gets `_` at its end, and so does a name that an earlier coefficient has.
    Results, files, priors and requests use these names.
    """
    labels = {label for term in terms for label in term}
    name_of = {label: label for label in labels}
    for label in labels.intersection(RESERVED):
        while name_of[label] in labels or name_of[label] in RESERVED:
            name_of[label] += "_"
    return distinct([":".join(name_of[label] for label in term) or INTERCEPT for term in terms])


ROW = "row"  # the privacy unit where a row is protected
NAMED_ROW = f"a column called {ROW!r} cannot name persons, as {ROW!r} protects rows: rename it"


def protected(unit: str, max_rows: int) -> str:
    """Return in words whom an epsilon protects: a row, or a person by the column of their names."""
    if unit == ROW:
        return "a row"
    return f"a person (named by {unit}, at most {max_rows} {'row' if max_rows == 1 else 'rows'})"
