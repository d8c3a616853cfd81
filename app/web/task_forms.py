"""Forms of tasks: JSON from a form, and a form from the JSON of an earlier task."""

import json
from collections.abc import Iterable

from app.web.forms import NotReadError, labels, number, paid, whole
from app.web.inside import Json
from app.web.shown import exact

BINS = 64  # of quantiles whose bins nobody told
KINDS = {
    "summaries": "means, quantiles and counts",
    "synthetic": "synthetic tables",
    "statistic": "one statistic",
    "two_stages": "one statistic, chosen in a first stage",
}


def body_of(form: dict[str, str]) -> Json:
    """Return the body of a task from its form. Raises NotReadError on what is no number."""
    kind = form.get("kind", "")
    if kind not in KINDS:
        raise NotReadError("/task/kind", f"must be one of {', '.join(KINDS)}")
    made = {
        "summaries": _summaries,
        "synthetic": _synthetic,
        "statistic": _statistic,
        "two_stages": _stages,
    }[kind](form)
    more = _more(form)
    if "statistics" in made:
        made["statistics"] += more.pop("statistics", [])
    privacy = {name: number(form, name, f"/privacy/{name}") for name in ("epsilon", "delta")}
    privacy["max_rows"] = whole(form, "max_rows", "/privacy/max_rows")
    body: Json = {
        "dataset": form.get("dataset", ""),
        "task": {"kind": kind} | made | more,
        "privacy": {name: value for name, value in privacy.items() if value is not None},
    }
    if form.get("accept_low_quality") == "true":
        body["accept_low_quality"] = True
    return body | labels(form)


def check_of(job: Json, form: dict[str, str]) -> Json:
    """Return the body of a check of a regression against the rows. Raises NotReadError.

    Of the rows that the regression used, at its delta.
    """
    epsilon = number(form, "epsilon", "/privacy/epsilon")
    privacy = {"epsilon": epsilon, "delta": job["cost"]["delta"]}
    rows = job["submitted"]["privacy"].get("max_rows")
    task: Json = {"kind": "predictive_check", "job": job["id"]}
    bins = whole(form, "bins", "/task/bins")
    return {
        "dataset": job["dataset"],
        "task": task | ({} if bins is None else {"bins": bins}),
        "privacy": privacy | ({} if rows is None else {"max_rows": rows}),
    }


def _named(form: dict[str, str], prefix: str) -> list[str]:
    """Return the names behind this prefix, of all form fields that are filled in."""
    return [key[len(prefix) :] for key in form if key.startswith(prefix) and form[key].strip()]


def _numbers(form: dict[str, str], name: str, pointer: str) -> list[float]:
    """Return numbers between commas. Raises NotReadError."""
    numbers = []
    for at, part in enumerate(form.get(name, "").split(",")):
        if part.strip():
            numbers.append(number({name: part}, name, f"{pointer}/{at}") or 0.0)
    return numbers


def _more(form: dict[str, str]) -> Json:
    """Return the fields of a task that are typed as JSON. Raises NotReadError."""
    written = form.get("more", "").strip()
    try:
        options = json.loads(written or "{}")
    except ValueError:
        options = None
    if not isinstance(options, dict) or not isinstance(options.get("statistics", []), list):
        raise NotReadError("/task", "further fields must be a JSON object")
    return options


def _tables(form: dict[str, str], name: str) -> list[list[str]]:
    """Return columns between commas, or as a JSON list: a table on each line."""
    named = (_columns(line.strip()) for line in form.get(name, "").splitlines())
    return [columns for columns in named if columns]


def _columns(line: str) -> list[str]:
    try:
        listed = json.loads(line) if line.startswith("[") else None
    except ValueError:
        listed = None
    if isinstance(listed, list):
        return list(map(str, listed))
    return [name.strip() for name in line.split(",") if name.strip()]


def _summaries(form: dict[str, str]) -> Json:
    asked: list[Json] = [{"kind": "mean", "column": column} for column in _named(form, "mean.")]
    for column in _named(form, "quantiles."):
        at = _numbers(form, f"quantiles.{column}", "/task/statistics/at")
        asked.append({"kind": "quantiles", "column": column, "at": at})
    counted = [[column] for column in _named(form, "counts.")] + _tables(form, "tables")
    asked += [{"kind": "counts", "columns": columns} for columns in counted]
    return {"statistics": asked}


def _synthetic(form: dict[str, str]) -> Json:
    task: Json = {}
    columns = _named(form, "column.")
    if columns:
        task["columns"] = columns
    tables = whole(form, "num_tables", "/task/tables")
    if tables is not None:
        task["tables"] = tables
    marginals = _tables(form, "marginals")
    return task | ({"marginals": marginals} if marginals else {})


def _statistic(form: dict[str, str]) -> Json:
    task: Json = {
        name: form[name] for name in ("column", "statistic", "form", "noise") if form.get(name)
    }
    power = number(form, "a", "/task/a")
    return task | ({} if power is None else {"a": power})


def _stages(form: dict[str, str]) -> Json:
    task: Json = {
        name: form[name] for name in ("column", "statistic", "noise", "family") if form.get(name)
    }
    sd = number(form, "sd", "/task/options/sd")
    task |= {} if sd is None else {"options": {"sd": sd}}
    first = whole(form, "first_rows", "/task/first_rows")
    task |= {} if first is None else {"first_rows": first}
    for name in ("thetas", "powers"):
        task[name] = _numbers(form, name, f"/task/{name}")
    return task


def filled(job: Json) -> dict[str, str]:
    """Return the form of a task that is asked for as an earlier one was: the API's answer.

    What the form has no field for is JSON in `more`.
    """
    task = {name: value for name, value in job["submitted"]["task"].items() if value is not None}
    kind = task.pop("kind")
    values = {"kind": kind} | {
        "summaries": _of_summaries,
        "synthetic": _of_synthetic,
        "statistic": _of_statistic,
        "two_stages": _of_stages,
    }[kind](task)
    more = {name: value for name, value in task.items() if value not in ({}, [])}
    return paid(job) | values | ({"more": json.dumps(more)} if more else {})


def _of_summaries(task: Json) -> dict[str, str]:
    """Return the fields of summaries, and leave in the task what they do not hold."""
    values: dict[str, str] = {}
    tables, more = list[list[str]](), list[Json]()
    for statistic in task.pop("statistics"):
        columns = statistic.get("columns", [])
        named = statistic["column"] if "column" in statistic else "".join(columns[:1])
        key = f"{statistic['kind']}.{named}"
        plain = not statistic.get("bins") or (
            statistic["kind"] == "quantiles" and statistic["bins"] == BINS
        )
        if not plain or (key in values and len(columns) < 2):
            more.append(statistic)
        elif len(columns) > 1:
            tables.append(columns)
        else:
            values[key] = _listed(statistic["at"]) if "at" in statistic else "on"
    if more:
        task["statistics"] = more
    return values | {"tables": _lines(tables)}


def _of_synthetic(task: Json) -> dict[str, str]:
    columns = {f"column.{column}": "on" for column in task.pop("columns", [])}
    marginals = {"marginals": _lines(task.pop("marginals", []))}
    return columns | marginals | {"num_tables": str(task.pop("tables"))}


def _of_statistic(task: Json) -> dict[str, str]:
    words = {name: task.pop(name) for name in ("column", "statistic", "form", "noise")}
    return words | {"a": exact(task.pop("a"))}


def _of_stages(task: Json) -> dict[str, str]:
    values = {name: task.pop(name) for name in ("column", "statistic", "noise", "family")}
    if "sd" in task["options"]:
        values["sd"] = exact(task["options"]["sd"])
        task["options"] = {k: value for k, value in task["options"].items() if k != "sd"}
    lists = {name: _listed(task.pop(name)) for name in ("thetas", "powers")}
    return values | lists | {"first_rows": str(task.pop("first_rows"))}


def _listed(values: Iterable[float]) -> str:
    return ", ".join(map(exact, values))


def _lines(tables: Iterable[list[str]]) -> str:
    """Return a table on each line, as `_tables` reads them."""
    words = ((columns, ", ".join(columns)) for columns in tables)
    return "\n".join(
        line if _tables({"": line}, "") == [columns] else json.dumps(columns)
        for columns, line in words
    )
